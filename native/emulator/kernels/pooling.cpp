// Average and maximum pooling and its inverse, with gradients. cubeMathType allows the hardware less
// precision than the operands have: it is never taken.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

std::optional<int64_t> divisor(int64_t override) {
    return override == 0 ? std::nullopt : std::optional<int64_t>(override);
}

// A window's maximum per output and where in its plane it was, as a number in the plane (row-major). CANN's
// indices are int32.
using MaxPool = std::tuple<Tensor, Tensor> (*)(const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef,
                                               IntArrayRef, bool);
using MaxPoolBackward = Tensor (*)(const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef,
                                   IntArrayRef, bool, const Tensor&);

template <MaxPool Function>
Entry max_pool(const char* name) {
    return {name, [](const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                     IntArrayRef dilation, bool ceil, const Tensor& out, const Tensor& indices) {
                const auto [values, places] = Function(self, kernel, stride, padding, dilation, ceil);
                write(out, values);
                write(indices, places);
            }};
}

template <MaxPoolBackward Function>
Entry max_pool_backward(const char* name) {
    return {name,
            [](const Tensor& grad, const Tensor& self, const Tensor& indices, IntArrayRef kernel,
               IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil, const Tensor& out) {
                write(out, Function(widen(grad), widen(self), kernel, stride, padding, dilation, ceil,
                                    indices.to(at::kLong)));
            }};
}

using Adaptive = Tensor (*)(const Tensor&, IntArrayRef);
using AdaptiveBackward = Tensor (*)(const Tensor&, const Tensor&);
using AdaptiveMax = std::tuple<Tensor, Tensor> (*)(const Tensor&, IntArrayRef);
using AdaptiveMaxBackward = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

template <Adaptive Function>
Entry adaptive(const char* name) {
    return {name, [](const Tensor& self, IntArrayRef size, const Tensor& out) {
                write(out, Function(widen(self), size));
            }};
}
template <AdaptiveBackward Function>
Entry adaptive_backward(const char* name) {
    return {name, [](const Tensor& grad, const Tensor& self, const Tensor& out) {
                write(out, Function(widen(grad), widen(self)));
            }};
}
template <AdaptiveMax Function>
Entry adaptive_max(const char* name) {
    return {name, [](const Tensor& self, IntArrayRef size, const Tensor& out, const Tensor& indices) {
                const auto [values, places] = Function(self, size);
                write(out, values);
                write(indices, places);
            }};
}
template <AdaptiveMaxBackward Function>
Entry adaptive_max_backward(const char* name) {
    return {name, [](const Tensor& grad, const Tensor& self, const Tensor& indices, const Tensor& out) {
                write(out, Function(widen(grad), widen(self), indices.to(at::kLong)));
            }};
}

const Table table{
    {"aclnnAvgPool2d",
     [](const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil,
        bool count_pad, int64_t override, int64_t, const Tensor& out) {
         fill(out, [&](Tensor& to) {
             at::avg_pool2d_out(to, self, kernel, stride, padding, ceil, count_pad, divisor(override));
         });
     }},
    {"aclnnAvgPool2dBackward",
     [](const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
        bool ceil, bool count_pad, int64_t override, int64_t, const Tensor& out) {
         write(out, at::avg_pool2d_backward(widen(grad), widen(self), kernel, stride, padding, ceil,
                                            count_pad, divisor(override)));
     }},
    {"aclnnAvgPool3d",
     [](const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil,
        bool count_pad, int64_t override, const Tensor& out) {
         write(out, at::avg_pool3d(widen(self), kernel, stride, padding, ceil, count_pad, divisor(override)));
     }},
    {"aclnnAvgPool3dBackward",
     [](const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
        bool ceil, bool count_pad, int64_t override, const Tensor& out) {
         write(out, at::avg_pool3d_backward(widen(grad), widen(self), kernel, stride, padding, ceil,
                                            count_pad, divisor(override)));
     }},
    max_pool<at::max_pool2d_with_indices>("aclnnMaxPool2dWithIndices"),
    max_pool<at::max_pool3d_with_indices>("aclnnMaxPool3dWithArgmax"),
    max_pool_backward<at::max_pool2d_with_indices_backward>("aclnnMaxPool2dWithIndicesBackward"),
    max_pool_backward<at::max_pool3d_with_indices_backward>("aclnnMaxPool3dWithArgmaxBackward"),
    adaptive<at::_adaptive_avg_pool2d>("aclnnAdaptiveAvgPool2d"),
    adaptive<at::_adaptive_avg_pool3d>("aclnnAdaptiveAvgPool3d"),
    adaptive_backward<at::_adaptive_avg_pool2d_backward>("aclnnAdaptiveAvgPool2dBackward"),
    adaptive_backward<at::_adaptive_avg_pool3d_backward>("aclnnAdaptiveAvgPool3dBackward"),
    adaptive_max<at::adaptive_max_pool2d>("aclnnAdaptiveMaxPool2d"),
    adaptive_max<at::adaptive_max_pool3d>("aclnnAdaptiveMaxPool3d"),
    adaptive_max_backward<at::adaptive_max_pool2d_backward>("aclnnAdaptiveMaxPool2dBackward"),
    adaptive_max_backward<at::adaptive_max_pool3d_backward>("aclnnAdaptiveMaxPool3dBackward"),
    {"aclnnMaxUnpool2d",
     [](const Tensor& self, const Tensor& indices, IntArrayRef size, const Tensor& out) {
         write(out, at::max_unpool2d(self, indices.to(at::kLong), size));
     }},
    {"aclnnMaxUnpool3d",
     [](const Tensor& self, const Tensor& indices, IntArrayRef size, IntArrayRef stride, IntArrayRef padding,
        const Tensor& out) {
         write(out, at::max_unpool3d(self, indices.to(at::kLong), size, stride, padding));
     }},
};

}  // namespace
}  // namespace npu::emulator
