// HCCL's element types: their sizes and how they are reduced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cann/hccl.h"

namespace npu::emulator::hccl {

/// Bytes of one element, 0 for a type that is not HCCL's.
uint64_t element_size(HcclDataType type);

/// "float32"; for messages.
const char* element_name(HcclDataType type);

/// Reduces blocks of elements in the order in which they are given. float16 and bfloat16 are accumulated in
/// float32 and rounded once; integers wrap; the maximum and minimum of a NaN and anything are NaN.
class Reducer {
  public:
    static bool supports(HcclDataType type);

    Reducer(HcclDataType type, HcclReduceOp op);

    /// One pass over all blocks. `out` may be one of them.
    void reduce(void* out, std::span<const void* const> blocks, std::size_t elements) const {
        function_(out, blocks, elements);
    }

    using Function = void (*)(void* out, std::span<const void* const> blocks, std::size_t elements);

  private:
    Function function_;
};

}  // namespace npu::emulator::hccl
