// Gradients of activation functions.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Plain = Tensor& (*)(Tensor&, const Tensor&, const Tensor&);
using WithScalar = Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Scalar&);
using WithTwo = Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&);

template <Plain Function>
void call(const Tensor& grad, const Tensor& at, const Tensor& out) {
    fill(out, [&](Tensor& result) { Function(result, grad, at); });
}
template <Plain Function>
Entry plain(const char* aclnn, const char* ge = nullptr) {
    return Entry(aclnn, Ge{ge}, call<Function>).elementwise();
}
// GE's SigmoidGrad and TanhGrad take the forward's output first.
template <Plain Function>
Entry output_first(const char* ge) {
    return Entry(Ge{ge, {"complex_conj?=false"}},
                 [](const Tensor& y, const Tensor& dy, const Tensor& out) { call<Function>(dy, y, out); })
        .elementwise();
}
template <WithScalar Function>
Entry with_scalar(const char* aclnn) {
    return Entry(aclnn, [](const Tensor& grad, const Tensor& self, const Scalar& a, const Tensor& out) {
        fill(out, [&](Tensor& result) { Function(result, grad, self, a); });
    });
}
template <WithTwo Function>
Entry with_two(const char* aclnn) {
    return Entry(aclnn, [](const Tensor& grad, const Tensor& self, const Scalar& a, const Scalar& b,
                           const Tensor& out) {
        fill(out, [&](Tensor& result) { Function(result, grad, self, a, b); });
    });
}

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kFastGelu = 1.702;

Tensor& relu_grad(Tensor& out, const Tensor& grad, const Tensor& self) {
    return at::threshold_backward_out(out, grad, self, 0);
}
Tensor& gelu_tanh(Tensor& out, const Tensor& grad, const Tensor& self) {
    return at::gelu_backward_out(out, grad, self, "tanh");
}
Tensor& selu_grad(Tensor& out, const Tensor& grad, const Tensor& result) {
    return at::elu_backward_out(out, grad, kSeluAlpha, kSeluScale, 1, true, result);
}
Tensor& hardswish(Tensor& out, const Tensor& grad, const Tensor& self) {
    return out.copy_(at::hardswish_backward(grad, self));
}
Tensor& mish(Tensor& out, const Tensor& grad, const Tensor& self) {
    return out.copy_(at::mish_backward(grad, self));
}
Tensor& fast_gelu(Tensor& out, const Tensor& grad, const Tensor& self) {
    const Tensor x = widen(self), s = at::sigmoid(x * kFastGelu);
    return out.copy_(widen(grad) * s * (1 + kFastGelu * x * (1 - s)));
}

void gelu(const Tensor& grad, const Tensor& self, const std::string& approximate, const Tensor& out) {
    TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate must be none or tanh, it is '",
                approximate, "'");
    fill(out, [&](Tensor& result) { at::gelu_backward_out(result, grad, self, approximate); });
}

void swish(const Tensor& grad, const Tensor& self, const std::optional<Scalar>& beta, const Tensor& out) {
    const Tensor x = widen(self), bx = x * beta.value_or(1.0), s = at::sigmoid(bx);
    write(out, widen(grad) * s * (1 + bx * (1 - s)));
}

void elu(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
         bool is_result, const Tensor& self_or_result, const Tensor& out) {
    fill(out, [&](Tensor& result) {
        at::elu_backward_out(result, grad, alpha, scale, input_scale, is_result, self_or_result);
    });
}

void leaky_relu(const Tensor& grad, const Tensor& self, const Scalar& slope, bool self_is_result,
                const Tensor& out) {
    fill(out,
         [&](Tensor& result) { at::leaky_relu_backward_out(result, grad, self, slope, self_is_result); });
}

// The saved buffer of the forward pass is not read: torch_npu has none.
void log_sigmoid(const Tensor& grad, const Tensor& self, const std::optional<Tensor>&, const Tensor& out) {
    write(out, widen(grad) * at::sigmoid(-widen(self)));
}

void prelu(const Tensor& grad, const Tensor& self, const Tensor& weight, const Tensor& grad_input,
           const Tensor& grad_weight) {
    const Tensor x = widen(self), g = widen(grad);
    Tensor w = widen(weight);
    if (w.numel() == 1) {
        w = w.reshape({});
    } else if (w.dim() == 1) {
        TORCH_CHECK(self.dim() > 1 && self.size(1) == w.numel(), "weight has ", w.numel(), " elements, self ",
                    self.sizes(), " needs 1 or the size of its dimension 1");
        std::vector<int64_t> shape(self.dim(), 1);
        shape[1] = w.numel();
        w = w.reshape(shape);
    }
    const Tensor positive = x > 0, slope = at::where(positive, at::zeros({}, g.options()), g * x);
    write(grad_input, at::where(positive, g, g * w));
    write(grad_weight, slope.sum_to_size(w.sizes()).reshape(grad_weight.sizes()));
}

void logit(const Tensor& x, const Tensor& dy, double eps, const Tensor& out) {
    const auto limit = eps < 0 ? std::nullopt : std::optional<double>(eps);
    fill(out, [&](Tensor& result) { at::logit_backward_out(result, dy, x, limit); });
}

void softsign(const Tensor& grad, const Tensor& features, const Tensor& out) {
    write(out, widen(grad) / at::square(1 + at::abs(widen(features))));
}

const Table table{
    plain<relu_grad>(nullptr, "ReluGrad"),
    with_scalar<at::threshold_backward_out>("aclnnThresholdBackward"),
    plain<gelu_tanh>("aclnnGeluBackward"),
    Entry("aclnnGeluBackwardV2", gelu).elementwise(),
    Entry(Ge{"GeluGradV2", {"approximate"}},
          [](const Tensor& dy, const Tensor& x, const std::optional<std::string>& approximate,
             const Tensor& z) { gelu(dy, x, approximate.value_or("none"), z); })
        .elementwise(),
    Entry(Ge{"GeluGrad"}, [](const Tensor& dy, const Tensor& x, const std::optional<Tensor>&,
                             const Tensor& z) { call<gelu_tanh>(dy, x, z); })
        .elementwise(),
    plain<fast_gelu>("aclnnFastGeluBackward", "FastGeluGrad"),
    plain<at::silu_backward_out>("aclnnSiluBackward", "SiluGrad"),
    Entry("aclnnSwishBackward", swish),
    plain<at::sigmoid_backward_out>("aclnnSigmoidBackward"),
    plain<at::tanh_backward_out>("aclnnTanhBackward"),
    output_first<at::sigmoid_backward_out>("SigmoidGrad"),
    output_first<at::tanh_backward_out>("TanhGrad"),
    plain<mish>("aclnnMishBackward"),
    Entry("aclnnLogSigmoidBackward", log_sigmoid),
    Entry(Ge{"LogSigmoidGrad"}, [](const Tensor& grad, const Tensor& x,
                                   const Tensor& out) { log_sigmoid(grad, x, std::nullopt, out); })
        .elementwise(),
    with_two<at::softplus_backward_out>("aclnnSoftplusBackward"),
    Entry("aclnnSoftsignBackward", Ge{"SoftsignGrad"}, softsign).elementwise(),
    Entry("aclnnEluBackward", elu),
    plain<selu_grad>("aclnnSeluBackward", "SeluGrad"),
    Entry("aclnnLeakyReluBackward", leaky_relu),
    Entry("aclnnPreluBackward", Ge{"PReluGrad"}, prelu),
    plain<hardswish>("aclnnHardswishBackward", "HardSwishGrad"),
    plain<hardswish>("aclnnHardswishBackwardV2"),
    plain<at::hardsigmoid_backward_out>("aclnnHardsigmoidBackward"),
    with_two<at::hardtanh_backward_out>("aclnnHardtanhBackward"),
    with_scalar<at::hardshrink_backward_out>("aclnnHardshrinkBackward"),
    with_scalar<at::softshrink_backward_out>("aclnnSoftshrinkBackward"),
    Entry("aclnnLogitGrad", Ge{"LogitGrad", {"eps"}}, logit),
};

}  // namespace
}  // namespace npu::emulator
