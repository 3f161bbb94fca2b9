// GE's standard deviations, variances and norms. No dimensions: all of them.
#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Flag = std::optional<bool>;
using Number = std::optional<int64_t>;

std::vector<int64_t> dims_of(const Tensor& x, IntArrayRef given) {
    std::vector<int64_t> dims = given.vec();
    for (int64_t dim = 0; given.empty() && dim < x.dim(); ++dim) dims.push_back(dim);
    return dims;
}

// The older forms say only whether one is taken off the count.
int64_t correction(Flag unbiased, Number given) { return unbiased.value_or(true) ? given.value_or(1) : 0; }

// The variance about a mean that the caller computed; the mean has x's shape, or 1 for the reduced
// dimensions.
Tensor variance_about(const Tensor& x, const Tensor& mean, IntArrayRef given, int64_t off, bool keep) {
    const auto wide = widen(x);
    const auto dims = dims_of(x, given);
    double count = 1;
    for (const auto dim : dims) count *= static_cast<double>(x.dim() == 0 ? 1 : x.size(dim));
    const auto squares = (wide - widen(mean)).square();
    const auto total = x.dim() == 0 ? squares : squares.sum(dims, keep);
    return total / std::max(0.0, count - static_cast<double>(off));
}

void write_mean(const Tensor& x, IntArrayRef given, bool keep, const Tensor& mean) {
    const auto dims = dims_of(x, given);
    write(mean, x.dim() == 0 ? widen(x) : at::mean(widen(x), dims, keep));
}

const Table table{
    {Ge{"ReduceStd", {"dim", "unbiased", "keepdim"}},
     [](const Tensor& x, IntArrayRef dim, Flag unbiased, Flag keep, const Tensor& std, const Tensor& mean) {
         call_aclnn("aclnnStd", x, dim, correction(unbiased, std::nullopt), keep.value_or(false), std);
         write_mean(x, dim, keep.value_or(false), mean);
     }},
    {Ge{"ReduceStdV2", {"dim", "correction", "keepdim", "is_mean_out"}},
     [](const Tensor& x, IntArrayRef dim, Number off, Flag keep, Flag, const Tensor& std,
        const std::optional<Tensor>& mean) {
         call_aclnn("aclnnStd", x, dim, off.value_or(1), keep.value_or(false), std);
         if (mean && mean->numel() > 0) write_mean(x, dim, keep.value_or(false), *mean);
     }},
    {Ge{"ReduceVar", {"dim", "correction", "keepdim", "is_mean_out"}},
     [](const Tensor& x, IntArrayRef dim, Number off, Flag keep, Flag, const Tensor& var,
        const std::optional<Tensor>& mean) {
         call_aclnn("aclnnVarCorrection", x, dim, off.value_or(1), keep.value_or(false), var);
         if (mean && mean->numel() > 0) write_mean(x, dim, keep.value_or(false), *mean);
     }},
    {Ge{"ReduceStdWithMean", {"dim", "unbiased", "keepdim", "invert?=false", "epsilon", "correction"}},
     [](const Tensor& x, const Tensor& mean, IntArrayRef dim, Flag unbiased, Flag keep, std::optional<double>,
        Number off, const Tensor& y) {
         write(y, at::sqrt(variance_about(x, mean, dim, correction(unbiased, off), keep.value_or(false))));
     }},
    {Ge{"ReduceStdV2Update", {"dim", "if_std", "unbiased", "keepdim", "correction"}},
     [](const Tensor& x, const Tensor& mean, IntArrayRef dim, Flag root, Flag unbiased, Flag keep, Number off,
        const Tensor& y) {
         const auto spread = variance_about(x, mean, dim, correction(unbiased, off), keep.value_or(false));
         write(y, root.value_or(false) ? at::sqrt(spread) : spread);
     }},
    {Ge{"LpNormV2", {"p", "axes", "keepdim", "epsilon"}},
     [](const Tensor& x, std::optional<double> p, IntArrayRef axes, Flag keep, std::optional<double>,
        const Tensor& y) {
         // CANN writes the orders inf and -inf as the extremes of int32. epsilon keeps hardware from dividing
         // by 0 in the gradient.
         constexpr double extreme = 2147483647.0, infinity = std::numeric_limits<double>::infinity();
         const double given = p.value_or(2);
         const double order = given >= extreme ? infinity : given <= -extreme ? -infinity : given;
         call_aclnn("aclnnNorm", x, order, axes, keep.value_or(false), y);
     }},
};

}  // namespace
}  // namespace npu::emulator
