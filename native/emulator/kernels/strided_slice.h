// TensorFlow's slice, which the graph engine makes as a view where it can.
#pragma once

#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)  // used by ../ge
namespace npu::emulator {

/// Bit i of a mask belongs to position i of begin, end and strides. A view of `self` where no stride is
/// negative. Throws c10::Error for a position that `self` does not have.
at::Tensor strided_slice(const at::Tensor& self, at::IntArrayRef begin, at::IntArrayRef end,
                         at::IntArrayRef strides, int64_t begin_mask, int64_t end_mask, int64_t ellipsis_mask,
                         int64_t new_axis_mask, int64_t shrink_mask);

}  // namespace npu::emulator
#pragma GCC visibility pop
