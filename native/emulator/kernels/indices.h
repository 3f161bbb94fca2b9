// Index operands: ATen wants int64 and does not always name the index that is out of range.
#pragma once

#include "kernels/kernel.h"

namespace npu::emulator {

// `index` as int64, negative ones (where they are allowed) counted from the end.
// Throws, naming the index, the dimension and its size, when one is out of range.
Tensor checked_index(const Tensor& index, int64_t size, int64_t dim, bool negative_allowed = false);

// Rows of indices into the leading dimensions of `shape` (last dimension: one index a dimension), as
// positions in these dimensions taken as one. Throws as checked_index does.
Tensor positions(const Tensor& index_rows, IntArrayRef shape, bool negative_allowed = false);

// The value of `self` in `out`, unless they are the same memory (torch_npu passes one tensor for both).
void start_from(const Tensor& self, const Tensor& out);

// Unsigned integers of several bytes as signed ones of the same memory, anything else as it is: what only
// moves elements, ATen often does not do under these types.
Tensor as_moved(const Tensor& tensor);

// self[rows[i]] += source[i], in a fixed order, carried in float for half and bfloat16. `rows` is checked
// already.
void accumulate_rows(const Tensor& self, const Tensor& rows, const Tensor& source);

}  // namespace npu::emulator
