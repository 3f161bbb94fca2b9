// Operators over lists of tensors: each item on its own, as torch's unfused loops do it.
#include "kernels/norm.h"
#include "kernels/scalar.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using List = std::vector<Tensor>;
using Scalars = std::vector<Scalar>;
using Unary = Tensor& (*)(Tensor&, const Tensor&);
using Binary = Tensor& (*)(Tensor&, const Tensor&, const Tensor&);
using BinaryAlpha = Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Scalar&);
using MultiplyAdd = Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const Tensor&, const Scalar&);

template <class Other>
void same_length(const List& x, const Other& other, const char* what) {
    TORCH_CHECK(x.size() == other.size(), what, " has ", other.size(), " items, x has ", x.size());
}

template <class F>
void each(const List& x, const List& out, F item) {
    same_length(x, out, "out");
    for (std::size_t i = 0; i < x.size(); ++i) {
        fill(out[i], [&](Tensor& result) { item(result, i); });
    }
}

Tensor& add(Tensor& out, const Tensor& a, const Tensor& b) { return at::add_out(out, a, b); }
Tensor& subtract(Tensor& out, const Tensor& a, const Tensor& b) { return at::sub_out(out, a, b); }

template <Unary Function>
void unary(const List& x, const List& out) {
    each(x, out, [&](Tensor& result, std::size_t i) { Function(result, x[i]); });
}
template <Unary Function>
Entry unary_entry(const char* aclnn) {
    return Entry(aclnn, unary<Function>);
}
template <Unary Function>
Entry unary_inplace(const char* aclnn) {
    return Entry(aclnn, [](const List& x) { unary<Function>(x, x); });
}

template <Binary Function>
void with_scalar(const List& x, const Scalar& scalar, const List& out) {
    const Tensor operand = number(scalar);
    each(x, out, [&](Tensor& result, std::size_t i) { Function(result, x[i], operand); });
}
// The scalar as a tensor of one element, as aclScalar (V2), and one for each item.
template <Binary Function>
std::vector<Entry> scalars(const std::string& name) {
    return {
        Entry((name + "Scalar").c_str(),
              [](const List& x, const Tensor& scalar, const List& out) {
                  with_scalar<Function>(x, only_element(scalar, "scalar"), out);
              }),
        Entry((name + "ScalarV2").c_str(), with_scalar<Function>),
        Entry((name + "ScalarList").c_str(),
              [](const List& x, const Scalars& by, const List& out) {
                  same_length(x, by, "scalars");
                  each(x, out, [&](Tensor& result, std::size_t i) { Function(result, x[i], number(by[i])); });
              }),
    };
}
template <Binary Function>
Entry scalar_inplace(const char* aclnn) {
    return Entry(aclnn, [](const List& x, const Tensor& scalar) {
        with_scalar<Function>(x, only_element(scalar, "scalar"), x);
    });
}

template <Binary Function>
void lists(const List& a, const List& b, const List& out) {
    same_length(a, b, "x2");
    each(a, out, [&](Tensor& result, std::size_t i) { Function(result, a[i], b[i]); });
}
template <Binary Function>
Entry lists_entry(const char* aclnn) {
    return Entry(aclnn, lists<Function>);
}

template <BinaryAlpha Function>
void lists_alpha(const List& a, const List& b, const Scalar& alpha, const List& out) {
    same_length(a, b, "x2");
    each(a, out, [&](Tensor& result, std::size_t i) { Function(result, a[i], b[i], alpha); });
}
template <BinaryAlpha Function>
std::vector<Entry> alphas(const std::string& name) {
    return {
        Entry(name.c_str(),
              [](const List& a, const List& b, const Tensor& alpha, const List& out) {
                  lists_alpha<Function>(a, b, only_element(alpha, "alpha"), out);
              }),
        Entry((name + "V2").c_str(), lists_alpha<Function>),
        Entry((name + "Inplace").c_str(),
              [](const List& a, const List& b, const Tensor& alpha) {
                  lists_alpha<Function>(a, b, only_element(alpha, "alpha"), a);
              }),
    };
}

template <MultiplyAdd Function>
void multiply_add(const List& x, const List& a, const List& b, const Scalars& by, const List& out) {
    same_length(x, a, "x2");
    same_length(x, b, "x3");
    TORCH_CHECK(by.size() == 1 || by.size() == x.size(), "scalars has ", by.size(), " items, x1 has ",
                x.size());
    each(x, out, [&](Tensor& result, std::size_t i) {
        Function(result, x[i], a[i], b[i], by.size() == 1 ? by[0] : by[i]);
    });
}
Scalars elements(const Tensor& tensor) {
    Scalars values;
    const Tensor flat = tensor.reshape({-1});
    for (int64_t i = 0; i < flat.numel(); ++i) values.push_back(flat[i].item());
    return values;
}
template <MultiplyAdd Function>
std::vector<Entry> multiply_adds(const std::string& name) {
    const auto by_tensor = [](const List& x, const List& a, const List& b, const Tensor& by,
                              const List& out) { multiply_add<Function>(x, a, b, elements(by), out); };
    return {
        Entry((name + "List").c_str(), by_tensor),
        Entry((name + "ScalarList").c_str(), by_tensor),
        Entry((name + "Scalar").c_str(),
              [](const List& x, const List& a, const List& b, const Tensor& by, const List& out) {
                  multiply_add<Function>(x, a, b, {only_element(by, "scalar")}, out);
              }),
        Entry((name + "ScalarV2").c_str(),
              [](const List& x, const List& a, const List& b, const Scalar& by, const List& out) {
                  multiply_add<Function>(x, a, b, {by}, out);
              }),
    };
}

Tensor& sign(Tensor& out, const Tensor& self) {
    return self.is_complex() ? at::sgn_out(out, self) : at::sign_out(out, self);
}
Tensor& copy(Tensor& out, const Tensor& self) { return out.copy_(self); }

void power_of_scalar(const Scalar& base, const List& exponents, const List& out) {
    each(exponents, out, [&](Tensor& result, std::size_t i) { at::pow_out(result, base, exponents[i]); });
}

void round(const List& x, const Scalar& mode, const List& out) {
    const auto number = mode.to<int64_t>();
    Unary function = nullptr;
    switch (number) {
        case 1:
            function = at::round_out;
            break;
        case 2:
            function = at::floor_out;
            break;
        case 3:
            function = at::ceil_out;
            break;
        case 5:
            function = at::trunc_out;
            break;
        case 7:
            function = at::frac_out;
            break;
        default:
            TORCH_CHECK(
                false, "roundMode ", number,
                " is not supported; 1 (to even), 2 (floor), 3 (ceil), 5 (trunc) and 7 (fraction) are");
    }
    each(x, out, [&](Tensor& result, std::size_t i) { function(result, x[i]); });
}

void norm(const List& x, const Scalar& order, const List& out) {
    same_length(x, out, "out");
    for (std::size_t i = 0; i < x.size(); ++i) {
        TORCH_CHECK(out[i].numel() == 1, "out[", i, "] must have one element, it has shape ", out[i].sizes());
        out[i].copy_(whole_norm(widen(x[i]), order).reshape(out[i].sizes()));
    }
}

template <class Weight>
void lerp(const List& a, const List& b, const Weight& weight, const List& out) {
    same_length(a, b, "x2");
    each(a, out, [&](Tensor& result, std::size_t i) {
        if constexpr (std::is_same_v<Weight, List>) {
            at::lerp_out(result, a[i], b[i], weight[i]);
        } else {
            at::lerp_out(result, a[i], b[i], weight);
        }
    });
}

// grads *= inv_scale; found_inf becomes 1 where a gradient is not finite, else it keeps its value.
void check_and_unscale(const List& grads, const Tensor& found_inf, const Tensor& inv_scale) {
    TORCH_CHECK(found_inf.numel() == 1, "foundInf must have one element, it has shape ", found_inf.sizes());
    const Tensor factor = number(only_element(inv_scale, "invScale"));
    bool finite = true;
    for (auto& grad : grads) {
        finite = finite && at::isfinite(grad).all().item<bool>();
        at::mul_out(mut(grad), grad, factor);
    }
    if (!finite) found_inf.fill_(1);
}

std::vector<Entry> rows() {
    std::vector<Entry> rows{
        unary_entry<at::abs_out>("aclnnForeachAbs"),
        unary_entry<at::acos_out>("aclnnForeachAcos"),
        unary_entry<at::asin_out>("aclnnForeachAsin"),
        unary_entry<at::atan_out>("aclnnForeachAtan"),
        unary_entry<at::cos_out>("aclnnForeachCos"),
        unary_entry<at::cosh_out>("aclnnForeachCosh"),
        unary_entry<at::erf_out>("aclnnForeachErf"),
        unary_entry<at::erfc_out>("aclnnForeachErfc"),
        unary_entry<at::exp_out>("aclnnForeachExp"),
        unary_entry<at::expm1_out>("aclnnForeachExpm1"),
        unary_entry<at::log_out>("aclnnForeachLog"),
        unary_entry<at::log10_out>("aclnnForeachLog10"),
        unary_entry<at::log1p_out>("aclnnForeachLog1p"),
        unary_entry<at::log2_out>("aclnnForeachLog2"),
        unary_entry<at::neg_out>("aclnnForeachNeg"),
        unary_entry<at::reciprocal_out>("aclnnForeachReciprocal"),
        unary_entry<at::sigmoid_out>("aclnnForeachSigmoid"),
        unary_entry<sign>("aclnnForeachSign"),
        unary_entry<at::sin_out>("aclnnForeachSin"),
        unary_entry<at::sinh_out>("aclnnForeachSinh"),
        unary_entry<at::sqrt_out>("aclnnForeachSqrt"),
        unary_entry<at::tan_out>("aclnnForeachTan"),
        unary_entry<at::tanh_out>("aclnnForeachTanh"),
        unary_entry<copy>("aclnnForeachCopy"),
        unary_inplace<at::acos_out>("aclnnForeachACosInplace"),
        unary_inplace<at::log_out>("aclnnForeachLogInplace"),
        Entry("aclnnForeachZeroInplace",
              [](const List& x) {
                  for (auto& tensor : x) tensor.zero_();
              }),

        lists_entry<at::mul_out>("aclnnForeachMulList"),
        lists_entry<at::div_out>("aclnnForeachDivList"),
        lists_entry<at::pow_out>("aclnnForeachPowList"),
        lists_entry<at::maximum_out>("aclnnForeachMaximumList"),
        lists_entry<at::minimum_out>("aclnnForeachMinimumList"),
        Entry("aclnnForeachMulListInplace",
              [](const List& a, const List& b) { lists<at::mul_out>(a, b, a); }),
        Entry("aclnnForeachDivListInplace",
              [](const List& a, const List& b) { lists<at::div_out>(a, b, a); }),
        scalar_inplace<at::mul_out>("aclnnForeachMulScalarInplace"),
        scalar_inplace<subtract>("aclnnForeachSubScalarInplace"),

        Entry("aclnnForeachPowScalarAndTensor", power_of_scalar),
        Entry("aclnnForeachRoundOffNumber",
              [](const List& x, const Tensor& mode, const List& out) {
                  round(x, only_element(mode, "roundMode"), out);
              }),
        Entry("aclnnForeachRoundOffNumberV2", round),
        Entry("aclnnForeachNorm", norm),
        Entry("aclnnForeachLerpScalar", lerp<Scalar>),
        Entry("aclnnForeachLerpList",
              [](const List& a, const List& b, const List& weight, const List& out) {
                  same_length(a, weight, "weight");
                  lerp(a, b, weight, out);
              }),
        Entry("aclnnForeachNonFiniteCheckAndUnscale", check_and_unscale),
    };
    for (auto& family : {
             scalars<add>("aclnnForeachAdd"),
             scalars<subtract>("aclnnForeachSub"),
             scalars<at::mul_out>("aclnnForeachMul"),
             scalars<at::div_out>("aclnnForeachDiv"),
             scalars<at::pow_out>("aclnnForeachPow"),
             scalars<at::maximum_out>("aclnnForeachMaximum"),
             scalars<at::minimum_out>("aclnnForeachMinimum"),
             alphas<at::add_out>("aclnnForeachAddList"),
             alphas<at::sub_out>("aclnnForeachSubList"),
             multiply_adds<at::addcmul_out>("aclnnForeachAddcmul"),
             multiply_adds<at::addcdiv_out>("aclnnForeachAddcdiv"),
         }) {
        rows.insert(rows.end(), family.begin(), family.end());
    }
    return rows;
}

const Table table{rows()};

}  // namespace
}  // namespace npu::emulator
