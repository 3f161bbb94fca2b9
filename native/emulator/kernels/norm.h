// The norm of all elements of a tensor.
#pragma once
#include "kernels/widen.h"

namespace npu::emulator {

// The norm of the norms of pieces: one running float32 sum over millions of elements is wrong in the fourth
// digit, and gradients are clipped by this number.
inline Tensor whole_norm(const Tensor& x, const Scalar& order) {
    constexpr int64_t piece = 1024;
    const auto whole = x.numel() - x.numel() % piece;
    if (whole == 0 || !x.is_contiguous() || x.scalar_type() != at::kFloat || order.toDouble() == 0)
        return at::linalg_vector_norm(x, order);
    const auto flat = x.view({-1});
    auto parts = at::linalg_vector_norm(flat.narrow(0, 0, whole).view({-1, piece}), order, 1);
    if (whole < x.numel())
        parts = at::cat({parts, at::linalg_vector_norm(flat.slice(0, whole), order).view({1})});
    return whole_norm(parts, order);
}

}  // namespace npu::emulator
