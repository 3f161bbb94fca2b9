// HCCL's element types: their sizes and how they are reduced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cann/hccl.h"

namespace npu::emulator::hccl {

/// Bytes of one element, 0 for a type that is not HCCL's.
uint64_t element_size(HcclDataType type);

/// "float32"; for messages.
const char* element_name(HcclDataType type);

/// Reduces blocks of elements in the order in which they are added. float16 and bfloat16 are accumulated in
/// float32 and rounded once; integers wrap; the maximum and minimum of a NaN and anything are NaN.
class Reducer {
  public:
    /// Elements that fit: about the size of a core's second-level cache.
    static constexpr std::size_t kBlockBytes = 128 * 1024;

    static bool supports(HcclDataType type);

    /// For blocks of up to `elements`.
    Reducer(HcclDataType type, HcclReduceOp op, std::size_t elements);
    void first(const void* block, std::size_t elements);
    void add(const void* block, std::size_t elements);
    void store(void* out, std::size_t elements) const;

    struct Functions {
        void (*first)(void* sum, const void* block, std::size_t n);
        void (*add)(void* sum, const void* block, std::size_t n);
        void (*store)(void* out, const void* sum, std::size_t n);
    };

  private:
    Functions functions_;
    std::vector<std::byte> sum_;
};

}  // namespace npu::emulator::hccl
