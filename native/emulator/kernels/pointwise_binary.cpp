// Arithmetic of two operands that broadcast: tensor with tensor, tensor with scalar, scalar with tensor.
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Out = Tensor& (*)(Tensor&, const Tensor&, const Tensor&);
using OutAlpha = Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Scalar&);

template <Out Function>
void call(const Tensor& a, const Tensor& b, const Tensor& out) {
    fill(out, [&](Tensor& result) { Function(result, a, b); });
}

template <Out Function>
Entry tensors(const char* aclnn, const char* ge = nullptr) {
    return Entry(aclnn, Ge{ge},
                 [](const Tensor& a, const Tensor& b, const Tensor& out) { call<Function>(a, b, out); })
        .elementwise();
}
template <Out Function>
Entry tensor_scalar(const char* aclnn) {
    return Entry(aclnn, [](const Tensor& a, const Scalar& b,
                           const Tensor& out) { call<Function>(a, number(b), out); })
        .elementwise();
}
template <Out Function>
Entry scalar_tensor(const char* aclnn) {
    return Entry(aclnn, [](const Scalar& a, const Tensor& b,
                           const Tensor& out) { call<Function>(number(a), b, out); })
        .elementwise();
}
template <OutAlpha Function>
Entry tensors_alpha(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& a, const Tensor& b, const Scalar& alpha, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, a, b, alpha); });
                 })
        .elementwise();
}
template <OutAlpha Function>
Entry scalar_alpha(const char* aclnn) {
    return Entry(aclnn,
                 [](const Tensor& a, const Scalar& b, const Scalar& alpha, const Tensor& out) {
                     fill(out, [&](Tensor& result) { Function(result, a, number(b), alpha); });
                 })
        .elementwise();
}

Tensor& rsub(Tensor& out, const Tensor& self, const Tensor& other, const Scalar& alpha) {
    return at::sub_out(out, other, self, alpha);
}
Tensor& subtract(Tensor& out, const Tensor& a, const Tensor& b) { return at::sub_out(out, a, b); }
Tensor& add(Tensor& out, const Tensor& a, const Tensor& b) { return at::add_out(out, a, b); }
Tensor& truncate_divide(Tensor& out, const Tensor& a, const Tensor& b) {
    return at::div_out(out, a, b, "trunc");
}
// Squares (the commonest power by far: every norm has one) are a product, as they are for ATen's scalars.
Tensor& power(Tensor& out, const Tensor& base, const Tensor& exponent) {
    const bool one = exponent.numel() == 1 && exponent.dim() <= base.dim() && base.is_floating_point() &&
                     exponent.scalar_type() == base.scalar_type();
    if (one && only_element(exponent, "exponent").toDouble() == 2) return at::mul_out(out, base, base);
    return at::pow_out(out, base, exponent);
}
// Integers keep their type and truncate, as C does.
Tensor& divide_keeping_type(Tensor& out, const Tensor& a, const Tensor& b) {
    return at::isIntegralType(out.scalar_type(), false) ? truncate_divide(out, a, b) : at::div_out(out, a, b);
}
Tensor& squared_difference(Tensor& out, const Tensor& a, const Tensor& b) {
    const Tensor difference = widen(a) - widen(b);
    return out.copy_(difference * difference);
}

// 0 where the other factor (divisor) is 0, whatever stands opposite: no NaN out of 0 * inf or 0 / 0.
Tensor multiply_no_nan(const Tensor& x, const Tensor& y) { return at::mul(x, y).masked_fill_(y == 0, 0); }
Tensor divide_no_nan(const Tensor& x, const Tensor& y) {
    if (!at::isIntegralType(x.scalar_type(), false)) return at::div(x, y).masked_fill_(y == 0, 0);
    return at::div(x, y.masked_fill(y == 0, 1), "trunc").masked_fill_(y == 0, 0);
}

// CANN's numbers for rounding_mode.
void divide(const Tensor& self, const Tensor& other, int64_t mode, const Tensor& out) {
    static constexpr const char* kNames[] = {"", "trunc", "floor"};
    TORCH_CHECK(mode >= 0 && mode <= 2, "mode must be 0 (true division), 1 (trunc) or 2 (floor), it is ",
                mode);
    fill(out, [&](Tensor& result) {
        mode == 0 ? at::div_out(result, self, other) : at::div_out(result, self, other, kNames[mode]);
    });
}

// out = tensors[0] op tensors[1] op ... , carried in float for half and bfloat16.
template <class F>
void accumulate(const std::vector<Tensor>& tensors, const Tensor& out, F step) {
    TORCH_CHECK(!tensors.empty(), "the list of tensors is empty");
    Tensor sum = widen(tensors[0]);
    for (std::size_t i = 1; i < tensors.size(); ++i) sum = step(sum, widen(tensors[i]));
    write(out, sum);
}
Entry sum_of_list(Ge ge) {
    return Entry(ge,
                 [](const std::vector<Tensor>& tensors, std::optional<int64_t>, const Tensor& out) {
                     accumulate(tensors, out, [](const Tensor& a, const Tensor& b) { return at::add(a, b); });
                 })
        .elementwise();
}
Entry sum_of_list(const char* aclnn) {
    return Entry(aclnn, [](const std::vector<Tensor>& tensors, const Tensor& out) {
        accumulate(tensors, out, [](const Tensor& a, const Tensor& b) { return at::add(a, b); });
    });
}

const Table table{
    tensors_alpha<at::add_out>("aclnnAdd"),
    scalar_alpha<at::add_out>("aclnnAdds"),
    Entry("aclnnAddV3",
          [](const Scalar& self, const Tensor& other, const Scalar& alpha, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::add_out(result, number(self), other, alpha); });
          }),
    Entry("aclnnInplaceAddV3",
          [](const Scalar& self, const Tensor& other, const Scalar& alpha) {
              at::add_out(mut(other), number(self), other, alpha);
          }),
    tensors_alpha<at::sub_out>("aclnnSub"),
    scalar_alpha<at::sub_out>("aclnnSubs"),
    tensors_alpha<rsub>("aclnnRsub"),
    scalar_alpha<rsub>("aclnnRsubs"),
    tensors<add>(nullptr, "Add"),
    tensors<add>(nullptr, "AddV2"),
    tensors<subtract>("aclnnAssignSub", "Sub"),
    tensors<squared_difference>(nullptr, "SquaredDifference"),
    Entry("aclnnAxpyV2", Ge{"AxpyV2"},
          [](const Tensor& self, const Tensor& other, const Tensor& alpha, const Tensor& out) {
              write(out, widen(self) + widen(other) * only_element(alpha, "alpha"));
          })
        .elementwise(),
    Entry("aclnnFusedMulAddN", Ge{"FusedMulAddN"},
          [](const Tensor& x1, const Tensor& x2, const Tensor& x3, const Tensor& out) {
              write(out, widen(x1) * only_element(x3, "x3") + widen(x2));
          })
        .elementwise(),

    tensors<at::mul_out>("aclnnMul", "Mul"),
    tensor_scalar<at::mul_out>("aclnnMuls"),
    Entry("aclnnMulNoNan", Ge{"MulNoNan"},
          [](const Tensor& x, const Tensor& y, const Tensor& out) { write(out, multiply_no_nan(x, y)); })
        .elementwise(),
    Entry(Ge{"DivNoNan"},
          [](const Tensor& x, const Tensor& y, const Tensor& out) { write(out, divide_no_nan(x, y)); })
        .elementwise(),
    Entry(Ge{"Xdivy"}, [](const Tensor& x, const Tensor& y,
                          const Tensor& out) { write(out, at::div(x, y).masked_fill_(x == 0, 0)); })
        .elementwise(),

    Entry("aclnnMaskedScale", Ge{"MaskedScale", {"value"}},
          [](const Tensor& self, const Tensor& mask, double scale, const Tensor& out) {
              write(out, widen(self) * mask * scale);
          })
        .elementwise(),

    tensors<at::div_out>("aclnnDiv", "RealDiv"),
    tensors<at::div_out>("aclnnRealDiv"),
    tensor_scalar<at::div_out>("aclnnDivs"),
    tensors<divide_keeping_type>(nullptr, "Div"),
    Entry("aclnnDivMod", divide).elementwise(),
    Entry("aclnnDivV3", divide).elementwise(),
    Entry("aclnnDivMods", [](const Tensor& self, const Scalar& other, int64_t mode,
                             const Tensor& out) { divide(self, number(other), mode, out); })
        .elementwise(),
    tensors<at::floor_divide_out>("aclnnFloorDivide", "FloorDiv"),
    tensors<at::floor_divide_out>("aclnnFloorDiv"),
    tensor_scalar<at::floor_divide_out>("aclnnFloorDivides"),
    tensors<truncate_divide>("aclnnTruncateDiv", "TruncateDiv"),

    tensors<at::remainder_out>("aclnnRemainderTensorTensor", "FloorMod"),
    tensor_scalar<at::remainder_out>("aclnnRemainderTensorScalar"),
    scalar_tensor<at::remainder_out>("aclnnRemainderScalarTensor"),
    tensors<at::fmod_out>("aclnnFmodTensor", "Mod"),
    tensor_scalar<at::fmod_out>("aclnnFmodScalar"),
    tensors<at::fmod_out>("aclnnTruncateMod", "TruncateMod"),

    tensors<power>("aclnnPowTensorTensor", "Pow"),
    Entry("aclnnPowTensorScalar",
          [](const Tensor& self, const Scalar& exponent, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::pow_out(result, self, exponent); });
          })
        .elementwise(),
    Entry("aclnnPowScalarTensor",
          [](const Scalar& self, const Tensor& exponent, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::pow_out(result, self, exponent); });
          }),

    tensors<at::maximum_out>("aclnnMaximum", "Maximum"),
    tensors<at::minimum_out>("aclnnMinimum", "Minimum"),
    tensors<at::atan2_out>("aclnnAtan2", "Atan2"),
    tensors<at::nextafter_out>(nullptr, "NextAfter"),
    tensors<at::gcd_out>("aclnnGcd"),
    tensors<at::logaddexp_out>("aclnnLogAddExp"),
    tensors<at::logaddexp2_out>("aclnnLogAddExp2"),
    tensors<at::xlogy_out>("aclnnXLogYTensor", "Xlogy"),
    tensor_scalar<at::xlogy_out>("aclnnXLogYScalarOther"),
    scalar_tensor<at::xlogy_out>("aclnnXLogYScalarSelf"),
    tensors<at::special_xlog1py_out>("aclnnXlog1py", "Xlog1py"),
    tensors<at::heaviside_out>("aclnnHeaviside"),

    sum_of_list(Ge{"AddN", {"N"}}),
    sum_of_list(Ge{"AccumulateNV2", {"N"}}),
    sum_of_list("aclnnAddN"),
    sum_of_list("aclnnSum"),
    sum_of_list("aclnnSumV2"),
    Entry("aclnnMaxN",
          [](const std::vector<Tensor>& tensors, const Tensor& out) {
              accumulate(tensors, out, [](const Tensor& a, const Tensor& b) { return at::maximum(a, b); });
          }),
    Entry("aclnnMinN",
          [](const std::vector<Tensor>& tensors, const Tensor& out) {
              accumulate(tensors, out, [](const Tensor& a, const Tensor& b) { return at::minimum(a, b); });
          }),
};

}  // namespace
}  // namespace npu::emulator
