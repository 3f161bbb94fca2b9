// GE's reductions, extrema, orders and softmaxes. Half and bfloat16 are carried in float.
#include <algorithm>
#include <numeric>

#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Flag = std::optional<bool>;
using Reduction = Tensor (*)(const Tensor& x, IntArrayRef axes, bool keep);

std::vector<int64_t> every_dim(const Tensor& x) {
    std::vector<int64_t> dims(x.dim());
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
}

Tensor sum(const Tensor& x, IntArrayRef axes, bool keep) { return at::sum(widen(x), axes, keep); }

// The mean of integers is rounded to zero.
Tensor mean(const Tensor& x, IntArrayRef axes, bool keep) {
    if (!at::isIntegralType(x.scalar_type(), false)) return at::mean(widen(x), axes, keep);
    int64_t count = 1;
    for (const auto axis : axes) count *= x.size(axis);
    TORCH_CHECK(count > 0, "the mean of no integers does not exist");
    return at::div(at::sum(x, axes, keep), count, "trunc");
}

Tensor product(const Tensor& x, IntArrayRef axes, bool keep) {
    std::vector<int64_t> dims;
    for (const auto axis : axes) dims.push_back(at::maybe_wrap_dim(axis, x.dim()));
    std::ranges::sort(dims, std::greater<>());
    TORCH_CHECK(std::ranges::adjacent_find(dims) == dims.end(), "axes names a dimension twice: ", axes);
    Tensor result = widen(x);
    for (const auto dim : dims) result = at::prod(result, dim, keep);
    return result;
}

Tensor largest(const Tensor& x, IntArrayRef axes, bool keep) { return at::amax(x, axes, keep); }
Tensor smallest(const Tensor& x, IntArrayRef axes, bool keep) { return at::amin(x, axes, keep); }
Tensor all(const Tensor& x, IntArrayRef axes, bool keep) {
    return at::all(x, at::OptionalIntArrayRef(axes), keep);
}
Tensor any(const Tensor& x, IntArrayRef axes, bool keep) {
    return at::any(x, at::OptionalIntArrayRef(axes), keep);
}
Tensor log_sum(const Tensor& x, IntArrayRef axes, bool keep) { return at::log(sum(x, axes, keep)); }
Tensor log_sum_exp(const Tensor& x, IntArrayRef axes, bool keep) {
    return at::logsumexp(widen(x), axes, keep);
}

template <Reduction Function>
void reduce(const Tensor& x, IntArrayRef axes, bool keep, const Tensor& y) {
    // ATen takes an empty list for all dimensions, and has no dimensions of a number.
    x.dim() == 0 ? write(y, Function(x.view({1}), IntArrayRef({0}), false))
                 : write(y, Function(x, axes, keep));
}

// With axes as an input; noop: whether an empty list (or none) means no reduction rather than all dimensions.
template <Reduction Function, bool NoopByDefault>
Entry by_input(const char* type) {
    return {Ge{type, {"keep_dims", "noop_with_empty_axes"}},
            [](const Tensor& x, IntArrayRef axes, Flag keep, Flag noop, const Tensor& y) {
                if (!axes.empty()) return reduce<Function>(x, axes, keep.value_or(false), y);
                if (noop.value_or(NoopByDefault)) return reduce<Function>(x.unsqueeze(-1), {-1}, false, y);
                reduce<Function>(x, every_dim(x), keep.value_or(false), y);
            }};
}

// Without a word on empty axes: the shape of the output says which of the two its inference took.
template <Reduction Function>
void reduce_or_copy(const Tensor& x, IntArrayRef axes, Flag keep, const Tensor& y) {
    if (!axes.empty()) return reduce<Function>(x, axes, keep.value_or(false), y);
    if (y.sizes() == x.sizes()) return reduce<Function>(x.unsqueeze(-1), {-1}, false, y);
    reduce<Function>(x, every_dim(x), keep.value_or(false), y);
}

template <Reduction Function>
Entry plain(const char* type) {
    return {Ge{type, {"keep_dims"}}, reduce_or_copy<Function>};
}
template <Reduction Function>
Entry by_attribute(const char* type) {
    return {Ge{type, {"axes", "keep_dims"}}, reduce_or_copy<Function>};
}

// The place of the extremum along a dimension, the first among equals.
template <auto Function>
void place(const Tensor& x, int64_t dim, std::optional<ScalarType>, const Tensor& y) {
    write(y, Function(x, dim, /*keepdim=*/false));
}
Tensor arg_max(const Tensor& x, int64_t dim, bool keep) { return at::argmax(x, dim, keep); }
Tensor arg_min(const Tensor& x, int64_t dim, bool keep) { return at::argmin(x, dim, keep); }

template <auto Function>
Entry place_by_input(const char* type) {
    return {Ge{type, {"dtype"}}, place<Function>};
}
template <auto Function>
Entry place_by_attribute(const char* type) {
    return {Ge{type, {"dimension", "dtype"}}, place<Function>};
}

// Equal elements stay in their order.
void sort(const Tensor& x, std::optional<int64_t> axis, Flag descending, Flag, std::optional<ScalarType>,
          const Tensor& values, const Tensor& places) {
    call_aclnn("aclnnSort", x, true, axis.value_or(-1), descending.value_or(false), values, places);
}

// Among equals the first; the k come in order also where that is not asked for.
void top_k(const Tensor& x, int64_t k, std::optional<int64_t> dim, Flag largest_first, const Tensor& values,
           const Tensor& places) {
    auto [value, index] =
        at::sort(x, std::optional<bool>(true), dim.value_or(-1), largest_first.value_or(true));
    const auto along = at::maybe_wrap_dim(dim.value_or(-1), x.dim());
    const auto size = x.dim() == 0 ? 1 : x.size(along);
    TORCH_CHECK(k >= 0 && k <= size, "k is ", k, ", dimension ", along, " has size ", size);
    write(values, x.dim() == 0 ? value : value.narrow(along, 0, k));
    write(places, x.dim() == 0 ? index : index.narrow(along, 0, k));
}

void softmax(const Tensor& x, IntArrayRef axes, Flag, const Tensor& y) {
    if (axes.size() <= 1) return call_aclnn("aclnnSoftmax", x, axes.empty() ? -1 : axes[0], y);
    const auto wide = widen(x);
    write(y, at::exp(wide - at::logsumexp(wide, axes, /*keepdim=*/true)));
}

void log_softmax(const Tensor& x, IntArrayRef axes, const Tensor& y) {
    if (axes.size() <= 1) return call_aclnn("aclnnLogSoftmax", x, axes.empty() ? -1 : axes[0], y);
    const auto wide = widen(x);
    write(y, wide - at::logsumexp(wide, axes, /*keepdim=*/true));
}

const Table table{
    by_input<sum, true>("ReduceSum"),
    by_input<mean, true>("ReduceMean"),
    {Ge{"ReduceMeanWithCast", {"keep_dims", "noop_with_empty_axes", "dtype"}},
     [](const Tensor& x, IntArrayRef axes, Flag keep, Flag noop, std::optional<int64_t>, const Tensor& y) {
         const auto in = x.to(wide_type(y.scalar_type()));
         if (!axes.empty()) return reduce<mean>(in, axes, keep.value_or(false), y);
         noop.value_or(true) ? write(y, in) : reduce<mean>(in, every_dim(x), keep.value_or(false), y);
     }},
    plain<log_sum>("ReduceLogSum"),
    by_input<largest, true>("ReduceMax"),
    by_input<smallest, true>("ReduceMin"),
    by_input<product, true>("ReduceProd"),
    by_input<log_sum_exp, false>("ReduceLogSumExp"),
    plain<all>("ReduceAll"),
    plain<any>("ReduceAny"),
    by_attribute<sum>("ReduceSumD"),
    by_attribute<largest>("ReduceMaxD"),
    by_attribute<smallest>("ReduceMinD"),
    by_attribute<product>("ReduceProdD"),
    by_attribute<all>("ReduceAllD"),
    by_attribute<any>("ReduceAnyD"),
    {Ge{"ReduceMeanD", {"axes", "keep_dims", "noop_with_empty_axes"}},
     [](const Tensor& x, IntArrayRef axes, Flag keep, Flag, const Tensor& y) {
         reduce_or_copy<mean>(x, axes, keep, y);
     }},
    {Ge{"L2Loss"},
     [](const Tensor& x, const Tensor& y) {
         const auto half = widen(x).square().sum() / 2;
         write(y, half.reshape(y.sizes()));
     }},

    place_by_input<arg_max>("ArgMaxV2"),
    place_by_input<arg_min>("ArgMin"),
    place_by_attribute<arg_max>("ArgMaxD"),
    place_by_attribute<arg_min>("ArgMinD"),
    // sort_policy is torchair's: how the hardware sorts.
    {Ge{"TopKV2", {"sorted", "dim", "largest", "indices_dtype", "sort_policy"}},
     [](const Tensor& x, int64_t k, Flag, std::optional<int64_t> dim, Flag largest_first,
        std::optional<int64_t>, std::optional<int64_t>, const Tensor& values,
        const Tensor& places) { top_k(x, k, dim, largest_first, values, places); }},
    {Ge{"TopKD", {"k", "sorted", "dim", "largest"}},
     [](const Tensor& x, const std::optional<Tensor>&, int64_t k, Flag, std::optional<int64_t> dim,
        Flag largest_first, const Tensor& values,
        const Tensor& places) { top_k(x, k, dim, largest_first, values, places); }},
    {Ge{"TopK", {"sorted", "largest", "dim"}},
     [](const Tensor& x, int64_t k, Flag, Flag largest_first, std::optional<int64_t> dim,
        const Tensor& values, const Tensor& places) { top_k(x, k, dim, largest_first, values, places); }},
    {Ge{"Sort", {"axis", "descending", "stable", "y2_dtype"}}, sort},

    {Ge{"SoftmaxV2", {"axes", "half_to_float"}}, softmax},
    {Ge{"LogSoftmaxV2", {"axes"}}, log_softmax},
};

}  // namespace
}  // namespace npu::emulator
