// Operators of one tensor, element by element, and the gradients that CANN has operators for.
#include <ATen/Parallel.h>

#include <array>
#include <cmath>

#include "kernels/tile.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Out = Tensor& (*)(Tensor&, const Tensor&);
using Unary = Tensor (*)(const Tensor&);

// The output's dtype is the caller's choice: ATen's out variant converts within the casts that torch allows.
template <Out Function>
void call(const Tensor& self, const Tensor& out) {
    fill(out, [&](Tensor& result) { Function(result, self); });
}

template <Out Function>
Entry unary(const char* aclnn, const char* ge = nullptr) {
    return Entry(aclnn, Ge{ge}, [](const Tensor& self, const Tensor& out) { call<Function>(self, out); })
        .elementwise();
}

template <Unary Function>
Entry value(const char* aclnn, const char* ge = nullptr) {
    return Entry(aclnn, Ge{ge}, [](const Tensor& self, const Tensor& out) { write(out, Function(self)); })
        .elementwise();
}

// dy times a derivative, computed in float for half and bfloat16.
template <class F>
Entry gradient(const char* aclnn, const char* ge, F derivative) {
    return Entry(aclnn, Ge{ge},
                 [derivative](const Tensor& at, const Tensor& dy, const Tensor& out) {
                     write(out, widen(dy) * derivative(widen(at)));
                 })
        .elementwise();
}

Tensor& sign(Tensor& out, const Tensor& self) {
    return self.is_complex() ? at::sgn_out(out, self) : at::sign_out(out, self);
}
Tensor& angle(Tensor& out, const Tensor& self) { return at::angle_out(out, self); }
Tensor ndtri(const Tensor& self) { return at::special_ndtri(widen(self)); }
// MKL's, ATen's choice, takes ten times as long where results underflow, as those of masked scores do.
Tensor& exponential_function(Tensor& out, const Tensor& self) {
    const auto body = tile::find("Exp", std::array{self.scalar_type()}, out.scalar_type());
    if (body == nullptr || !self.is_contiguous() || !out.is_contiguous()) return at::exp_out(out, self);
    const auto size = self.element_size();
    const auto* from = static_cast<const std::byte*>(self.const_data_ptr());
    auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
    at::parallel_for(0, self.numel(), at::internal::GRAIN_SIZE / 4, [&](int64_t begin, int64_t end) {
        const tile::Operand operand{from + begin * size};
        body(to + begin * size, &operand, end - begin);
    });
    return out;
}
// base^(scale * x + shift) and the logarithm to that base of scale * x + shift; -1 is e.
void exponential(const Tensor& x, std::optional<double> base, std::optional<double> scale,
                 std::optional<double> shift, const Tensor& y) {
    const double by = base.value_or(-1);
    TORCH_CHECK(by == -1 || by > 0, "base is ", by, ", it must be -1 (for e) or positive");
    if (by == -1 && scale.value_or(1) == 1 && shift.value_or(0) == 0) return call<exponential_function>(x, y);
    const auto power = widen(x) * scale.value_or(1) + shift.value_or(0);
    write(y, by == -1 ? at::exp(power) : at::pow(Scalar(by), power));
}
void logarithm(const Tensor& x, std::optional<double> base, std::optional<double> scale,
               std::optional<double> shift, const Tensor& y) {
    const double by = base.value_or(-1);
    TORCH_CHECK(by == -1 || by > 0, "base is ", by, ", it must be -1 (for e) or positive");
    if (by == -1 && scale.value_or(1) == 1 && shift.value_or(0) == 0) return call<at::log_out>(x, y);
    const auto natural = at::log(widen(x) * scale.value_or(1) + shift.value_or(0));
    write(y, by == -1 ? natural : natural / std::log(by));
}

// Rounded as IEEE 754 has it, in regions of a graph and alone: ATen's own goes to MKL, a unit in the last
// place beside it.
Tensor& square_root(Tensor& out, const Tensor& self) {
    const bool ours = self.scalar_type() == at::kFloat && out.scalar_type() == at::kFloat;
    if (!ours || self.sizes() != out.sizes()) return at::sqrt_out(out, self);
    const std::array types{at::kFloat};
    const auto body = tile::find("Sqrt", types, at::kFloat);
    const Tensor from = self.contiguous(), to = dense(out, at::kFloat);
    const auto* source = from.const_data_ptr<float>();
    auto* target = to.mutable_data_ptr<float>();
    at::parallel_for(0, from.numel(), at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) {
        const tile::Operand operand{source + begin};
        body(target + begin, &operand, end - begin);
    });
    store(out, to);
    return out;
}

Tensor& square(Tensor& out, const Tensor& self) { return at::mul_out(out, self, self); }
Tensor& copy(Tensor& out, const Tensor& self) { return out.copy_(self); }

const Table table{
    unary<at::abs_out>("aclnnAbs", "Abs"),
    unary<at::neg_out>("aclnnNeg", "Neg"),
    unary<sign>("aclnnSign", "Sign"),
    unary<at::signbit_out>("aclnnSignbit", "Signbit"),
    unary<square>("aclnnSquare", "Square"),
    unary<square_root>("aclnnSqrt", "Sqrt"),
    unary<at::rsqrt_out>("aclnnRsqrt", "Rsqrt"),
    unary<at::reciprocal_out>("aclnnReciprocal", "Reciprocal"),
    unary<at::reciprocal_out>(nullptr, "Inv"),

    unary<exponential_function>("aclnnExp"),
    Entry(Ge{"Exp", {"base", "scale", "shift"}}, exponential).elementwise(),
    unary<at::exp2_out>("aclnnExp2"),
    unary<at::expm1_out>("aclnnExpm1", "Expm1"),
    unary<at::log_out>("aclnnLog"),
    Entry(Ge{"Log", {"base", "scale", "shift"}}, logarithm).elementwise(),
    unary<at::log2_out>("aclnnLog2"),
    unary<at::log10_out>("aclnnLog10"),
    unary<at::log1p_out>("aclnnLog1p", "Log1p"),

    unary<at::sin_out>("aclnnSin", "Sin"),
    unary<at::cos_out>("aclnnCos", "Cos"),
    unary<at::tan_out>("aclnnTan", "Tan"),
    unary<at::sinh_out>("aclnnSinh", "Sinh"),
    unary<at::cosh_out>("aclnnCosh", "Cosh"),
    unary<at::tanh_out>("aclnnTanh", "Tanh"),
    unary<at::asin_out>("aclnnAsin", "Asin"),
    unary<at::asin_out>("aclnnAsinWithAgent"),
    unary<at::acos_out>("aclnnAcos", "Acos"),
    unary<at::atan_out>("aclnnAtan", "Atan"),
    unary<at::asinh_out>("aclnnAsinh", "Asinh"),
    unary<at::asinh_out>("aclnnAsinhV2"),
    unary<at::asinh_out>("aclnnAsinhWithAgent"),
    unary<at::acosh_out>("aclnnAcosh", "Acosh"),
    unary<at::atanh_out>("aclnnAtanh", "Atanh"),
    unary<at::sinc_out>("aclnnSinc", "Sinc"),

    unary<at::erf_out>("aclnnErf", "Erf"),
    unary<at::erfc_out>("aclnnErfc", "Erfc"),
    unary<at::erfinv_out>("aclnnErfinv", "Erfinv"),
    unary<at::lgamma_out>("aclnnLgamma"),
    unary<at::digamma_out>("aclnnDigamma"),
    value<ndtri>("aclnnNdtri", "Ndtri"),
    unary<at::special_i0e_out>(nullptr, "BesselI0e"),
    unary<at::special_i1e_out>(nullptr, "BesselI1e"),

    unary<at::ceil_out>("aclnnCeil", "Ceil"),
    unary<at::floor_out>("aclnnFloor", "Floor"),
    unary<at::trunc_out>("aclnnTrunc", "Trunc"),
    unary<at::frac_out>("aclnnFrac"),
    unary<at::round_out>("aclnnRound"),
    unary<at::round_out>(nullptr, "Rint"),
    Entry("aclnnRoundDecimals", Ge{"Round", {"decimals"}},
          [](const Tensor& self, std::optional<int64_t> decimals, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::round_out(result, self, decimals.value_or(0)); });
          })
        .elementwise(),

    value<at::isfinite>("aclnnIsFinite", "IsFinite"),
    value<at::isinf>("aclnnIsInf", "IsInf"),
    value<at::isnan>(nullptr, "IsNan"),
    unary<at::isposinf_out>("aclnnIsPosInf", "IsPosInf"),
    unary<at::isneginf_out>("aclnnIsNegInf", "IsNegInf"),
    unary<at::logical_not_out>("aclnnLogicalNot", "LogicalNot"),
    unary<at::bitwise_not_out>("aclnnBitwiseNot", "Invert"),
    Entry("aclnnNanToNum", Ge{"NanToNum", {"nan", "posinf", "neginf"}},
          [](const Tensor& self, double nan, double posinf, double neginf, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::nan_to_num_out(result, self, nan, posinf, neginf); });
          })
        .elementwise(),

    value<at::real>("aclnnReal"),
    unary<at::conj_physical_out>(nullptr, "Conj"),
    unary<angle>("aclnnAngleV2", "AngleV2"),
    Entry("aclnnComplex",
          [](const Tensor& real, const Tensor& imag, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::complex_out(result, real, imag); });
          }),
    Entry("aclnnPolar",
          [](const Tensor& abs, const Tensor& angle, const Tensor& out) {
              fill(out, [&](Tensor& result) { at::polar_out(result, abs, angle); });
          }),

    unary<copy>("aclnnTensorMove", "TensorMove"),
    unary<copy>(nullptr, "Identity"),
    unary<copy>(nullptr, "StopGradient"),

    gradient("aclnnAcoshGrad", "AcoshGrad", [](const Tensor& y) { return at::reciprocal(at::sinh(y)); }),
    gradient("aclnnAsinGrad", "AsinGrad", [](const Tensor& x) { return at::rsqrt(1 - x * x); }),
    gradient("aclnnAsinhGrad", "AsinhGrad", [](const Tensor& y) { return at::reciprocal(at::cosh(y)); }),
    gradient("aclnnAcosGradV2", "AcosGrad", [](const Tensor& x) { return -at::rsqrt(1 - x * x); }),
    Entry("aclnnAcosGrad",
          [](const Tensor& dy, const Tensor& x, const Tensor& out) {
              const Tensor at = widen(x);
              write(out, -widen(dy) * at::rsqrt(1 - at * at));
          }),
    gradient("aclnnAtanGrad", "AtanGrad", [](const Tensor& x) { return at::reciprocal(1 + x * x); }),
    gradient("aclnnSqrtBackward", "SqrtGrad", [](const Tensor& y) { return at::reciprocal(2 * y); }),
    gradient("aclnnTanhGrad", nullptr, [](const Tensor& y) { return 1 - y * y; }),
    gradient(nullptr, "InvGrad", [](const Tensor& y) { return -y * y; }),
    gradient(nullptr, "ReciprocalGrad", [](const Tensor& y) { return -y * y; }),
    gradient(nullptr, "RsqrtGrad", [](const Tensor& y) { return -0.5 * y * y * y; }),
};

}  // namespace
}  // namespace npu::emulator
