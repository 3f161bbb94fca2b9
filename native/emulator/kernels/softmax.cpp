// Softmax and its logarithm, plain and masked, with their gradients.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

// ATen's rows are written while they are still read when the output is the input's memory.
bool may_alias(const Tensor& out, const Tensor& input) { return out.is_alias_of(input); }

template <auto Out, auto Function>
void forward(const Tensor& self, int64_t dim, const Tensor& out) {
    // half to float: computed in the wider of the two, so that nothing is rounded before the end.
    const auto input = self.scalar_type() == out.scalar_type() ? self : self.to(out.scalar_type());
    if (may_alias(out, input)) return write(out, Function(input, dim, false));
    fill(out, [&](Tensor& to) { Out(to, input, dim, false); });
}

template <auto Out, auto Function>
void backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& grad_input) {
    const auto type = at::promote_types(grad.scalar_type(), output.scalar_type());
    const auto dy = grad.to(type), y = output.to(type);
    if (grad_input.scalar_type() != type || may_alias(grad_input, dy) || may_alias(grad_input, y)) {
        return write(grad_input, Function(dy, y, dim, type));
    }
    fill(grad_input, [&](Tensor& to) { Out(to, dy, y, dim, type); });
}

void check_mask(bool upper) {
    TORCH_CHECK(!upper, "fixedTriuMask is true: only masks handed over as tensors are supported, pass false");
}

// scale * x + mask + bias. x is (B * W, N, S1, S2) or (B, W, N, S1, S2); the mask is one per window W and the
// bias one per head N.
Tensor biased_scores(const Tensor& x, const std::optional<Tensor>& mask, const Tensor& bias, double scale) {
    auto scores = widen(x) * scale;
    const auto s1 = x.size(-2), s2 = x.size(-1), heads = x.size(-3);
    if (mask) {
        const auto windows = mask->numel() / (s1 * s2);
        scores = scores.view({-1, windows, heads, s1, s2}) + widen(*mask).reshape({1, windows, 1, s1, s2});
    }
    scores = scores.view({-1, heads, s1, s2}) + widen(bias).reshape({1, heads, s1, s2});
    return scores.view(x.sizes());
}

constexpr double kMasked = -10000.0;  // what CANN puts in the place of a masked score

const Table table{
    {"aclnnSoftmax",
     [](const Tensor& self, int64_t dim, const Tensor& out) {
         forward<at::_softmax_out, [](const Tensor& x, int64_t d, bool h) { return at::_softmax(x, d, h); }>(
             self, dim, out);
     }},
    {"aclnnLogSoftmax",
     [](const Tensor& self, int64_t dim, const Tensor& out) {
         forward<at::_log_softmax_out, [](const Tensor& x, int64_t d, bool h) {
             return at::_log_softmax(x, d, h);
         }>(self, dim, out);
     }},
    {"aclnnSoftmaxBackward",
     [](const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out) {
         backward<at::_softmax_backward_data_out, at::_softmax_backward_data>(grad, output, dim, out);
     }},
    {"aclnnLogSoftmaxBackward",
     [](const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out) {
         backward<at::_log_softmax_backward_data_out, at::_log_softmax_backward_data>(grad, output, dim, out);
     }},
    {"aclnnScaledMaskedSoftmax",
     [](const Tensor& x, const Tensor& mask, double scale, bool upper, const Tensor& y) {
         check_mask(upper);
         write(y, at::_softmax((widen(x) * scale).masked_fill(mask.to(at::kBool), kMasked), -1, false));
     }},
    {"aclnnScaledMaskedSoftmaxBackward",
     [](const Tensor& grad, const Tensor& y, const Tensor& mask, double scale, bool upper,
        const Tensor& out) {
         check_mask(upper);
         const auto dy = widen(grad);
         const auto dx = at::_softmax_backward_data(dy, widen(y), -1, dy.scalar_type()) * scale;
         write(out, dx.masked_fill(mask.to(at::kBool), 0));
     }},
    {"aclnnMaskedSoftmaxWithRelPosBias",
     [](const Tensor& x, const std::optional<Tensor>& mask, const Tensor& bias, double scale, int64_t mode,
        const Tensor& out) {
         TORCH_CHECK(mode == 0 || mode == 1, "innerPrecisionMode is ", mode, ", it must be 0 or 1");
         write(out, at::_softmax(biased_scores(x, mask, bias, scale), -1, false));
     }},
};

}  // namespace
}  // namespace npu::emulator
