// Half and bfloat16 operands of functions that ATen only has (or only has accurately) in wider types.
#pragma once

#include <optional>

#include "kernels/kernel.h"

namespace npu::emulator {

inline bool is_narrow(ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

// The type sums are carried in: float for half and bfloat16, otherwise the type itself.
inline ScalarType wide_type(ScalarType type) { return is_narrow(type) ? at::kFloat : type; }

inline Tensor widen(const Tensor& tensor) { return tensor.to(wide_type(tensor.scalar_type())); }
inline std::optional<Tensor> widen(const std::optional<Tensor>& tensor) {
    return tensor ? std::optional<Tensor>(widen(*tensor)) : std::nullopt;
}
inline std::optional<Tensor> to_type(const std::optional<Tensor>& tensor, ScalarType type) {
    return tensor ? std::optional<Tensor>(tensor->to(type)) : std::nullopt;
}

// Fills `out` by ATen's out variant. Throws when that would have resized it.
template <class F>
void fill(const Tensor& out, F&& function) {
    const at::DimVector wanted(out.sizes());
    function(mut(out));
    TORCH_CHECK(out.sizes() == at::IntArrayRef(wanted), "the output has shape ", at::IntArrayRef(wanted),
                ", the result has ", out.sizes());
}

// `out` itself where a kernel may write it element after element, else a buffer that store() copies over.
inline Tensor dense(const Tensor& out, ScalarType type) {
    return out.is_contiguous() && out.scalar_type() == type
               ? out
               : at::empty(out.sizes(), out.options().dtype(type));
}
inline void store(const Tensor& out, const Tensor& buffer) {
    if (!out.is_same(buffer)) out.copy_(buffer);
}

}  // namespace npu::emulator
