// Scalars as operands of ATen's out variants, and one-element tensors as scalars.
#pragma once

#include <ATen/ScalarOps.h>

#include "kernels/kernel.h"

namespace npu::emulator {

// A tensor that takes part in type promotion as a Python number does: ATen's out variants for scalars compute
// into a temporary, those for tensors do not.
inline Tensor number(const Scalar& scalar) { return at::native::wrapped_scalar_tensor(scalar); }

// The value of a tensor of one element, as CANN's older operators take their scalars.
inline Scalar only_element(const Tensor& tensor, const char* parameter) {
    TORCH_CHECK(tensor.numel() == 1, parameter, " must have one element, it has shape ", tensor.sizes());
    return tensor.reshape({}).item();
}

}  // namespace npu::emulator
