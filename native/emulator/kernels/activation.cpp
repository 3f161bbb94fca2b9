// Activation functions, forward.
#include <cmath>

#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Plain = Tensor& (*)(Tensor&, const Tensor&);
using WithScalar = Tensor& (*)(Tensor&, const Tensor&, const Scalar&);
using WithTwo = Tensor& (*)(Tensor&, const Tensor&, const Scalar&, const Scalar&);

template <Plain Function>
Entry plain(const char* aclnn, const char* ge = nullptr) {
    return Entry(aclnn, Ge{ge},
                 [](const Tensor& self, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self); });
                 })
        .elementwise();
}
template <WithScalar Function>
Entry with_scalar(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& self, const Scalar& a, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, a); });
                 })
        .elementwise();
}
template <WithTwo Function>
Entry with_two(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& self, const Scalar& a, const Scalar& b, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, self, a, b); });
                 })
        .elementwise();
}
template <class F>
Entry composed(const char* aclnn, Ge ge, F function) {
    return Entry(aclnn, ge,
                 [function](const Tensor& self, const Tensor& out) { write(out, function(widen(self))); })
        .elementwise();
}

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kFastGelu = 1.702;

Tensor& relu(Tensor& out, const Tensor& self) {
    TORCH_CHECK(self.scalar_type() != at::kBool, "relu has no meaning for bool");
    return at::clamp_min_out(out, self, 0);
}
Tensor& relu6(Tensor& out, const Tensor& self) { return at::hardtanh_out(out, self, 0, 6); }
// CANN's Gelu has one form, the tanh approximation; GeluV2 is the one with a choice.
Tensor& gelu_tanh(Tensor& out, const Tensor& self) { return at::gelu_out(out, self, "tanh"); }
Tensor& selu(Tensor& out, const Tensor& self) { return at::elu_out(out, self, kSeluAlpha, kSeluScale, 1); }
Tensor& softplus(Tensor& out, const Tensor& self) { return at::softplus_out(out, self); }
Tensor& hardsigmoid(Tensor& out, const Tensor& self) {
    if (!at::isIntegralType(self.scalar_type(), true)) return at::hardsigmoid_out(out, self);
    return out.copy_(at::clamp(self + 3, 0, 6).div(6, "trunc"));
}
Tensor& celu(Tensor& out, const Tensor& self, const Scalar& alpha) {
    TORCH_CHECK(alpha.to<double>() != 0, "alpha must not be 0");
    return at::elu_out(out, self, alpha, 1, 1 / alpha.to<double>());
}
void elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
         const Tensor& out) {
    fill(out, [&](Tensor& result) { at::elu_out(result, self, alpha, scale, input_scale); });
}

void gelu(const Tensor& self, const std::string& approximate, const Tensor& out) {
    TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate must be none or tanh, it is '",
                approximate, "'");
    fill(out, [&](Tensor& result) { at::gelu_out(result, self, approximate); });
}
void gelu_v2(const Tensor& self, int64_t approximate, const Tensor& out) {
    TORCH_CHECK(approximate == 0 || approximate == 1, "approximate must be 0 (none) or 1 (tanh), it is ",
                approximate);
    gelu(self, approximate == 0 ? "none" : "tanh", out);
}

void swish(const Tensor& self, const std::optional<Scalar>& beta, const Tensor& out) {
    if (self.scalar_type() == out.scalar_type() && beta.value_or(1.0).equal(1.0))
        return fill(out, [&](Tensor& to) { at::silu_out(to, self); });
    const Tensor x = widen(self);
    write(out, x * at::sigmoid(x * beta.value_or(1.0)));
}

// `buffer` is exp(-|x|) where the caller has room for it. torch_npu passes an empty one; LogSigmoidBackward
// does not read it.
void log_sigmoid_forward(const Tensor& self, const Tensor& out, const Tensor& buffer) {
    fill(out, [&](Tensor& result) { at::log_sigmoid_out(result, self); });
    if (buffer.numel() != 0) write(buffer, at::exp(-at::abs(widen(self))));
}

// One slope, one for each index of dimension 1, or (as autograd hands it down) already shaped to broadcast.
void prelu(const Tensor& self, const Tensor& weight, const Tensor& out) {
    const bool by_channel = weight.dim() == 1 && weight.numel() != 1;
    if (weight.numel() == 1 || by_channel) return write(out, at::prelu(self, weight.reshape({-1})));
    TORCH_CHECK(weight.dim() == self.dim(), "weight has shape ", weight.sizes(), ", self ", self.sizes());
    write(out, at::where(self > 0, self, self * weight));
}

void add_relu(const Tensor& self, const Tensor& other, const Scalar& alpha, const Tensor& out) {
    write(out, at::relu(at::add(self, other, alpha)));
}

void shrink(const Tensor& self, const Scalar& lambd, const Scalar& bias, const Tensor& out) {
    const Tensor x = widen(self);
    const double limit = lambd.to<double>();
    write(out, at::where(x > limit, x - bias, at::where(x < -limit, x + bias, at::zeros({}, x.options()))));
}

const Table table{
    plain<relu>("aclnnRelu", "Relu"),
    plain<relu6>(nullptr, "Relu6"),
    Entry("aclnnReluV3",
          [](const Tensor& x, const Tensor& out, const Tensor& mask) {
              write(mask, x > 0);
              fill(out, [&](Tensor& result) { relu(result, x); });
          }),
    Entry("aclnnAddRelu", add_relu),
    composed("aclnnSquaredRelu", Ge{"SquaredRelu"}, [](const Tensor& x) { return at::relu(x).square(); }),

    plain<gelu_tanh>("aclnnGelu", "Gelu"),
    Entry("aclnnGeluV2", gelu_v2).elementwise(),
    Entry(Ge{"GeluV2", {"approximate"}}, [](const Tensor& x, const std::optional<std::string>& approximate,
                                            const Tensor& y) { gelu(x, approximate.value_or("none"), y); })
        .elementwise(),
    composed("aclnnFastGelu", Ge{"FastGelu"}, [](const Tensor& x) { return x * at::sigmoid(x * kFastGelu); }),

    plain<at::silu_out>("aclnnSilu"),
    Entry("aclnnSwish", swish),
    plain<at::sigmoid_out>("aclnnSigmoid", "Sigmoid"),
    plain<at::mish_out>("aclnnMish", "Mish"),
    plain<at::log_sigmoid_out>("aclnnLogSigmoid", "LogSigmoid"),
    Entry("aclnnLogSigmoidForward", log_sigmoid_forward),
    plain<softplus>(nullptr, "Softplus"),
    with_two<at::softplus_out>("aclnnSoftplus"),
    composed("aclnnSoftsign", Ge{"Softsign"}, [](const Tensor& x) { return x / (1 + at::abs(x)); }),

    Entry("aclnnElu", elu).elementwise(),
    Entry("aclnnEluV2", elu).elementwise(),
    with_scalar<celu>("aclnnCelu"),
    plain<selu>("aclnnSelu", "Selu"),
    with_scalar<at::leaky_relu_out>("aclnnLeakyRelu"),
    Entry("aclnnPrelu", Ge{"PRelu"}, prelu),
    with_two<at::threshold_out>("aclnnThreshold"),
    with_two<at::threshold_out>("aclnnThresholdV2"),

    plain<at::hardswish_out>("aclnnHardswish", "HardSwish"),
    plain<hardsigmoid>("aclnnHardsigmoid"),
    plain<hardsigmoid>("aclnnHardsigmoidV2"),
    with_two<at::hardtanh_out>("aclnnHardtanh"),
    with_scalar<at::hardshrink_out>("aclnnHardshrink"),
    with_scalar<at::hardshrink_out>("aclnnHardShrink"),
    with_scalar<at::softshrink_out>("aclnnSoftshrink"),
    Entry("aclnnShrink", shrink),
    Entry("aclnnLogit", Ge{"Logit", {"eps"}},
          [](const Tensor& self, double eps, const Tensor& out) {
              const auto limit = eps < 0 ? std::nullopt : std::optional<double>(eps);
              fill(out, [&](Tensor& result) { at::logit_out(result, self, limit); });
          }),
};

}  // namespace
}  // namespace npu::emulator
