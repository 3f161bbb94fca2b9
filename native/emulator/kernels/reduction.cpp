// Reductions to a value per slice: sums, means, extrema, truth, moments and norms. Half and bfloat16 are
// summed in float. An empty list of dimensions means all of them, unless the operator says otherwise.
#include "kernels/norm.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Dims = IntArrayRef;

OptionalIntArrayRef all_if_empty(Dims dims) {
    return dims.empty() ? OptionalIntArrayRef() : OptionalIntArrayRef(dims);
}

// The result of a reduction over everything: CANN takes outputs of shape [] and [1] alike.
void write_whole(const Tensor& out, const Tensor& value) {
    TORCH_CHECK(out.numel() == 1 && value.numel() == 1, "the output has shape ", out.sizes(),
                ", the result is one element");
    out.copy_(value.reshape(out.sizes()));
}

void sum(const Tensor& self, Dims dims, bool keepdim, std::optional<ScalarType> dtype, const Tensor& out) {
    const auto type = dtype.value_or(out.scalar_type());
    if (type != out.scalar_type()) return write(out, at::sum(self, dims, keepdim, type));
    fill(out, [&](Tensor& to) { at::sum_out(to, self, dims, keepdim, type); });
}

void mean(const Tensor& self, Dims dims, bool keepdim, std::optional<ScalarType> dtype, const Tensor& out) {
    const auto type = dtype.value_or(out.scalar_type());
    if (type != out.scalar_type()) return write(out, at::mean(self, dims, keepdim, type));
    fill(out, [&](Tensor& to) { at::mean_out(to, self, dims, keepdim, type); });
}

// The product carried in float and rounded once, where `type` is half or bfloat16.
ScalarType product_type(std::optional<ScalarType> dtype, const Tensor& out) {
    return wide_type(dtype.value_or(out.scalar_type()));
}

// A list of dimensions of which none may be reduced (the operators with a noopWithEmpty... parameter).
template <class F>
void reduce_unless_empty(const Tensor& self, Dims dims, bool noop_when_empty, const Tensor& out, F&& reduce) {
    write(out, noop_when_empty && dims.empty() ? self : reduce(self));
}

template <auto Some, auto Whole>
void truth(const Tensor& self, Dims dims, bool keepdim, const Tensor& out) {
    if (!dims.empty()) return write(out, Some(self, dims, keepdim));
    TORCH_CHECK(out.numel() == 1, "the output has shape ", out.sizes(), ", the result is one element");
    write_whole(out, Whole(self));
}
Tensor all_some(const Tensor& self, Dims dims, bool keepdim) {
    return at::all(self, OptionalIntArrayRef(dims), keepdim);
}
Tensor any_some(const Tensor& self, Dims dims, bool keepdim) {
    return at::any(self, OptionalIntArrayRef(dims), keepdim);
}
Tensor all_whole(const Tensor& self) { return at::all(self); }
Tensor any_whole(const Tensor& self) { return at::any(self); }

void var(const Tensor& self, Dims dims, int64_t correction, bool keepdim, const Tensor& out) {
    write(out, at::var(widen(self), all_if_empty(dims), Scalar(correction), keepdim));
}

template <auto Moments>
void moments(const Tensor& self, Dims dims, int64_t correction, bool keepdim, const Tensor& spread,
             const Tensor& mean) {
    auto [first, second] = Moments(widen(self), all_if_empty(dims), correction, keepdim);
    write(spread, first);
    write(mean, second);
}
auto var_mean(const Tensor& self, OptionalIntArrayRef dims, int64_t correction, bool keepdim) {
    return at::var_mean(self, dims, Scalar(correction), keepdim);
}
auto std_mean(const Tensor& self, OptionalIntArrayRef dims, int64_t correction, bool keepdim) {
    return at::std_mean(self, dims, Scalar(correction), keepdim);
}

void norm(const Tensor& self, const Scalar& order, Dims dims, bool keepdim, std::optional<ScalarType> dtype,
          const Tensor& out) {
    const auto source = widen(dtype ? self.to(*dtype) : self);
    const auto every = dims.empty() || static_cast<int64_t>(dims.size()) == source.dim();
    const auto value = every ? whole_norm(source, order).reshape(out.sizes())
                             : at::linalg_vector_norm(source, order, dims, keepdim);
    write(out, value);
}

// CANN writes the orders inf and -inf of these two as the extremes of int32.
double norm_order(double p) {
    const double extreme = 2147483648.0;
    if (p >= extreme - 1) return std::numeric_limits<double>::infinity();
    return p <= -extreme ? -std::numeric_limits<double>::infinity() : p;
}

// The sum under the root (or, without a root, the count or the extremum) of a norm.
Tensor norm_sum(const Tensor& self, double p, Dims dims, bool keepdim) {
    const auto size = at::abs(widen(self));
    if (std::isinf(p)) return p > 0 ? at::amax(size, dims, keepdim) : at::amin(size, dims, keepdim);
    if (p == 0) return at::sum(at::ne(size, 0).to(size.scalar_type()), dims, keepdim);
    return at::sum(at::pow(size, p), dims, keepdim);
}

const Table table{
    {"aclnnReduceSum", sum},
    {"aclnnReduceNansum",
     [](const Tensor& self, Dims dims, bool keepdim, std::optional<ScalarType> dtype, const Tensor& out) {
         write(out, at::nansum(widen(self), all_if_empty(dims), keepdim, product_type(dtype, out)));
     }},
    {"aclnnReduceLogSum",
     [](const Tensor& data, Dims axes, bool keepdim, bool noop, const Tensor& out) {
         reduce_unless_empty(data, axes, noop, out,
                             [&](const Tensor& x) { return at::log(at::sum(widen(x), axes, keepdim)); });
     }},
    {"aclnnMean", mean},
    {"aclnnMeanV2",
     [](const Tensor& self, Dims dims, bool keepdim, bool noop, const Tensor& out) {
         reduce_unless_empty(self, dims, noop, out,
                             [&](const Tensor& x) { return at::mean(widen(x), dims, keepdim); });
     }},
    {"aclnnProd", [](const Tensor& self, std::optional<ScalarType> dtype,
                     const Tensor& out) { write_whole(out, at::prod(self, product_type(dtype, out))); }},
    {"aclnnProdDim",
     [](const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType> dtype, const Tensor& out) {
         write(out, at::prod(self, dim, keepdim, product_type(dtype, out)));
     }},
    {"aclnnAmax", [](const Tensor& self, Dims dims, bool keepdim,
                     const Tensor& out) { write(out, at::amax(self, dims, keepdim)); }},
    {"aclnnAmin", [](const Tensor& self, Dims dims, bool keepdim,
                     const Tensor& out) { write(out, at::amin(self, dims, keepdim)); }},
    {"aclnnMax", [](const Tensor& self, const Tensor& out) { write_whole(out, at::max(self)); }},
    {"aclnnMin", [](const Tensor& self, const Tensor& out) { write_whole(out, at::min(self)); }},
    {"aclnnMaxV2",
     [](const Tensor& self, Dims dims, bool keepdim, bool noop, const Tensor& out) {
         reduce_unless_empty(self, dims, noop, out,
                             [&](const Tensor& x) { return at::amax(x, dims, keepdim); });
     }},
    {"aclnnReduceMinV2", [](const Tensor& x, int64_t axis, int64_t keepdim,
                            const Tensor& y) { write(y, at::amin(x, axis, keepdim != 0)); }},
    {"aclnnAminmax",
     [](const Tensor& self, Dims dims, bool keepdim, const Tensor& low, const Tensor& high) {
         write(low, at::amin(self, dims, keepdim));
         write(high, at::amax(self, dims, keepdim));
     }},
    {"aclnnAminmaxAll",
     [](const Tensor& self, const Tensor& low, const Tensor& high) {
         write_whole(low, at::min(self));
         write_whole(high, at::max(self));
     }},
    {"aclnnAminmaxDim",
     [](const Tensor& self, int64_t dim, bool keepdim, const Tensor& low, const Tensor& high) {
         write(low, at::amin(self, dim, keepdim));
         write(high, at::amax(self, dim, keepdim));
     }},
    {"aclnnAll", truth<all_some, all_whole>},
    {"aclnnAny", truth<any_some, any_whole>},
    {"aclnnVar", [](const Tensor& self, Dims dims, bool unbiased, bool keepdim,
                    const Tensor& out) { var(self, dims, unbiased ? 1 : 0, keepdim, out); }},
    {"aclnnVarCorrection", var},
    {"aclnnStd",
     [](const Tensor& self, Dims dims, int64_t correction, bool keepdim, const Tensor& out) {
         write(out, at::std(widen(self), all_if_empty(dims), Scalar(correction), keepdim));
     }},
    {"aclnnVarMean", moments<var_mean>},
    {"aclnnStdMeanCorrection", moments<std_mean>},
    {"aclnnNorm", [](const Tensor& self, const Scalar& p, Dims dims, bool keepdim,
                     const Tensor& out) { norm(self, p, dims, keepdim, std::nullopt, out); }},
    {"aclnnLinalgVectorNorm", norm},
    {Ge{"LpNormReduceV2", {"p", "axes", "keepdim", "epsilon"}},
     [](const Tensor& x, std::optional<double> p, Dims axes, std::optional<bool> keepdim,
        std::optional<double> epsilon, const Tensor& y) {
         TORCH_CHECK(epsilon.value_or(0) <= 1e-7, "epsilon ", *epsilon,
                     " is not supported: it must be at most 1e-7");
         write(y, norm_sum(x, norm_order(p.value_or(2)), axes, keepdim.value_or(false)));
     }},
    {Ge{"LpNormUpdateV2", {"p", "epsilon"}},
     [](const Tensor& x, std::optional<double> order, std::optional<double> epsilon, const Tensor& y) {
         const double p = norm_order(order.value_or(2));
         const bool rooted = p != 0 && !std::isinf(p);
         const auto root = rooted ? at::pow(widen(x), 1 / p) : widen(x);
         write(y, at::clamp_min(root, epsilon.value_or(1e-12)));
     }},
    {"aclnnLogSumExp", [](const Tensor& self, Dims dims, bool keepdim,
                          const Tensor& out) { write(out, at::logsumexp(widen(self), dims, keepdim)); }},
    {"aclnnTrace",
     [](const Tensor& self, const Tensor& out) {
         TORCH_CHECK(self.dim() == 2, "self must be a matrix, it has shape ", self.sizes());
         write_whole(out, at::sum(self.diagonal(), out.scalar_type()));
     }},
};

}  // namespace
}  // namespace npu::emulator
