// From libacl_op_compiler (free of ATen) to the adapter libnpu_emulator_aclop, which it loads at the first
// operator.
#pragma once

#include <span>

#include "aclop/handles.h"

namespace npu::aclop {

/// One operator call, valid during the call only: the adapter copies what the queued task needs.
struct Call {
    const char* type;
    std::span<const aclTensorDesc* const> input_descs;
    std::span<const aclDataBuffer* const> inputs;
    std::span<const aclTensorDesc* const> output_descs;
    std::span<aclDataBuffer* const> outputs;
    const aclopAttr* attributes;  // may be null
    aclrtStream stream;
    /// Not null: wait for the operator and write the shapes that it found into these (V2).
    aclTensorDesc* const* found_shapes = nullptr;
};

inline constexpr char kAdapterLibrary[] = "libnpu_emulator_aclop.so";
inline constexpr char kAdapterFunction[] = "npu_emulator_aclop_execute";
using AdapterFunction = aclError(const Call&);

}  // namespace npu::aclop
