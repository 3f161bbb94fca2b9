// Maximum pooling whose winners come as a bit mask (torch_npu's default): an int8 tensor (N, C, kernel
// positions, bytes), where bit p of kernel position k's row says that output p of the plane took its maximum
// there. Exactly one bit is set per output. The layout within a row is this library's own, as CANN's is its
// own: only the backward pass reads it. Where the caller hands an integer tensor of the output's shape
// instead, it takes plain indices.
#include <ATen/Parallel.h>

#include "kernels/widen.h"

namespace npu::emulator {
namespace {

struct Window {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t in[2], out[2];

    Window(const Tensor& self, const Tensor& pooled, IntArrayRef kernel_, IntArrayRef stride_,
           IntArrayRef padding_, IntArrayRef dilation_) {
        for (int64_t dim = 0; dim < 2; ++dim) {
            const auto at = [dim](IntArrayRef values) {
                return values.size() == 1 ? values[0] : values[dim];
            };
            kernel[dim] = at(kernel_);
            stride[dim] = stride_.empty() ? kernel[dim] : at(stride_);
            padding[dim] = at(padding_);
            dilation[dim] = at(dilation_);
            in[dim] = self.size(dim - 2);
            out[dim] = pooled.size(dim - 2);
        }
    }
    int64_t positions() const { return kernel[0] * kernel[1]; }
    int64_t outputs() const { return out[0] * out[1]; }
    // Where kernel position k of output p lies along a dimension.
    int64_t place(int64_t dim, int64_t p, int64_t k) const {
        return p * stride[dim] - padding[dim] + k * dilation[dim];
    }
};

bool is_mask(const Tensor& indices, const Tensor& pooled) {
    return indices.scalar_type() == at::kChar && indices.sizes() != pooled.sizes();
}

int64_t check_mask(const Tensor& mask, const Tensor& pooled, const Window& window) {
    const auto planes = pooled.numel() / std::max<int64_t>(1, window.outputs());
    TORCH_CHECK(mask.dim() == pooled.dim() && mask.size(-2) == window.positions() &&
                    mask.size(-1) * 8 >= window.outputs(),
                "indices has shape ", mask.sizes(), ": a mask for ", window.positions(),
                " kernel positions and ", window.outputs(), " outputs needs (..., ", window.positions(),
                ", at least ", (window.outputs() + 7) / 8, ")");
    return planes;
}

void write_mask(const Tensor& places, const Tensor& pooled, const Window& window, const Tensor& out) {
    const auto planes = check_mask(out, pooled, window);
    const auto mask = dense(out, at::kChar);
    mask.zero_();
    const auto index = places.contiguous();
    const int64_t* const from = index.const_data_ptr<int64_t>();
    auto* const to = reinterpret_cast<uint8_t*>(mask.data_ptr<int8_t>());
    const auto row_bytes = mask.size(-1), plane_bytes = row_bytes * window.positions();
    at::parallel_for(0, planes, 1, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane) {
            for (int64_t p = 0; p < window.outputs(); ++p) {
                const auto winner = from[plane * window.outputs() + p];
                const auto row = winner / window.in[1], column = winner % window.in[1];
                const auto k0 = (row - window.place(0, p / window.out[1], 0)) / window.dilation[0];
                const auto k1 = (column - window.place(1, p % window.out[1], 0)) / window.dilation[1];
                to[plane * plane_bytes + (k0 * window.kernel[1] + k1) * row_bytes + p / 8] |=
                    static_cast<uint8_t>(1U << (p % 8));
            }
        }
    });
    store(out, mask);
}

Tensor read_mask(const Tensor& indices, const Tensor& pooled, const Window& window) {
    const auto planes = check_mask(indices, pooled, window);
    const auto mask = indices.contiguous();
    const auto places = at::full(pooled.sizes(), -1, pooled.options().dtype(at::kLong));
    const auto* const from = reinterpret_cast<const uint8_t*>(mask.const_data_ptr<int8_t>());
    int64_t* const to = places.data_ptr<int64_t>();
    const auto row_bytes = mask.size(-1), plane_bytes = row_bytes * window.positions();
    at::parallel_for(0, planes, 1, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane) {
            for (int64_t k = 0; k < window.positions(); ++k) {
                const auto* row = from + plane * plane_bytes + k * row_bytes;
                for (int64_t p = 0; p < window.outputs(); ++p) {
                    if ((row[p / 8] >> (p % 8) & 1) == 0) continue;
                    to[plane * window.outputs() + p] =
                        window.place(0, p / window.out[1], k / window.kernel[1]) * window.in[1] +
                        window.place(1, p % window.out[1], k % window.kernel[1]);
                }
            }
        }
    });
    TORCH_CHECK(places.numel() == 0 || places.min().item<int64_t>() >= 0,
                "indices is not a mask that aclnnMaxPool2dWithMask wrote: an output has no bit set");
    return places;
}

const Table table{
    {"aclnnMaxPool2dWithMask",
     [](const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
        bool ceil, const Tensor& out, const Tensor& indices) {
         const auto [values, places] =
             at::max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil);
         write(out, values);
         if (!is_mask(indices, values)) return write(indices, places);
         write_mask(places, values, Window(self, values, kernel, stride, padding, dilation), indices);
     }},
    {"aclnnMaxPool2dWithMaskBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& indices, IntArrayRef kernel, IntArrayRef stride,
        IntArrayRef padding, IntArrayRef dilation, bool ceil, const Tensor& out) {
         const auto places =
             is_mask(indices, grad)
                 ? read_mask(indices, grad, Window(self, grad, kernel, stride, padding, dilation))
                 : indices.to(at::kLong);
         write(out, at::max_pool2d_with_indices_backward(widen(grad), widen(self), kernel, stride, padding,
                                                         dilation, ceil, places));
     }},
};

}  // namespace
}  // namespace npu::emulator
