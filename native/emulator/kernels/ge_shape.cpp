// GE operators that join, cut and reshape. Where a shape is an input as well as the output's, the output's
// counts: the caller allocated it by that shape.
#include <limits>

#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Number = std::optional<int64_t>;

// The same elements in the same order under another shape.
void reshape(const Tensor& x, const Tensor& y) {
    TORCH_CHECK(x.numel() == y.numel(), "the input has shape ", x.sizes(), ", the output ", y.sizes());
    if (x.const_data_ptr() != y.const_data_ptr()) y.copy_(x.reshape(y.sizes()));
}

void concat(const std::vector<Tensor>& x, int64_t dim, Number, const Tensor& y) {
    call_aclnn("aclnnCat", x, dim, y);
}

void write_all(const std::vector<Tensor>& parts, const std::vector<Tensor>& y) {
    TORCH_CHECK(parts.size() == y.size(), "there are ", parts.size(), " parts for ", y.size(), " outputs");
    for (std::size_t i = 0; i < y.size(); ++i) write(y[i], parts[i]);
}

void split(const Tensor& x, int64_t dim, int64_t count, const std::vector<Tensor>& y) {
    const auto size = x.size(dim);
    TORCH_CHECK(count > 0 && size % count == 0, "num_split is ", count, ", it does not divide the ", size,
                " of dimension ", dim);
    // Not split(): of an empty dimension it makes one part.
    write_all(x.split_with_sizes(std::vector<int64_t>(count, size / count), dim), y);
}

// One of the sizes may be -1: the rest.
void split_v(const Tensor& x, IntArrayRef given, int64_t dim, Number, const std::vector<Tensor>& y) {
    auto sizes = given.vec();
    int64_t known = 0, open = -1;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        TORCH_CHECK(sizes[i] >= -1 && (sizes[i] >= 0 || open < 0), "size_splits is ", given,
                    ": one of them may be -1, none less");
        sizes[i] < 0 ? open = static_cast<int64_t>(i) : known += sizes[i];
    }
    if (open >= 0) sizes[open] = x.size(dim) - known;
    write_all(x.split_with_sizes(sizes, dim), y);
}

struct Masks {
    int64_t begin, end, ellipsis, new_axis, shrink;
};

// Without axes: TensorFlow's slice of leading dimensions. With axes: one dimension each, bounds as Python's.
void strided_slice(const Tensor& x, IntArrayRef begin, IntArrayRef end, OptionalIntArrayRef axes,
                   OptionalIntArrayRef given_strides, const Masks& masks, const Tensor& y) {
    const auto strides = given_strides ? given_strides->vec() : std::vector<int64_t>(begin.size(), 1);
    if (!axes || axes->empty()) {
        return call_aclnn("aclnnStridedSlice", x, begin, end, IntArrayRef(strides), masks.begin, masks.end,
                          masks.ellipsis, masks.new_axis, masks.shrink, y);
    }
    TORCH_CHECK(masks.ellipsis == 0 && masks.new_axis == 0 && masks.shrink == 0,
                "ellipsis_mask, new_axis_mask and shrink_axis_mask are not supported together with axes");
    TORCH_CHECK(
        begin.size() == strides.size() && end.size() == strides.size() && axes->size() == strides.size(),
        "begin, end, axes and strides differ in length");
    constexpr auto far = std::numeric_limits<int64_t>::max();
    auto from = begin.vec(), to = end.vec();
    for (std::size_t i = 0; i < strides.size(); ++i) {
        const bool up = strides[i] > 0;
        if (masks.begin >> i & 1) from[i] = up ? 0 : far;
        if (masks.end >> i & 1) to[i] = up ? far : -x.size((*axes)[i]) - 1;
    }
    call_aclnn("aclnnSliceV2", x, IntArrayRef(from), IntArrayRef(to), *axes, IntArrayRef(strides), y);
}

void leading_slice(const Tensor& x, IntArrayRef begin, IntArrayRef end, IntArrayRef strides, Number b,
                   Number e, Number ellipsis, Number new_axis, Number shrink, const Tensor& y) {
    strided_slice(
        x, begin, end, std::nullopt, strides,
        {b.value_or(0), e.value_or(0), ellipsis.value_or(0), new_axis.value_or(0), shrink.value_or(0)}, y);
}

void reverse(const Tensor& x, IntArrayRef axis, const Tensor& y) { call_aclnn("aclnnFlip", x, axis, y); }
void roll(const Tensor& x, IntArrayRef shifts, IntArrayRef dims, const Tensor& y) {
    call_aclnn("aclnnRoll", x, shifts, dims, y);
}

const Table table{
    {Ge{"Reshape", {"axis", "num_axes"}},
     [](const Tensor& x, const std::optional<Tensor>&, Number, Number, const Tensor& y) { reshape(x, y); }},
    {Ge{"Squeeze", {"axis"}}, [](const Tensor& x, IntArrayRef, const Tensor& y) { reshape(x, y); }},
    {Ge{"Unsqueeze", {"axes"}}, [](const Tensor& x, IntArrayRef, const Tensor& y) { reshape(x, y); }},
    {Ge{"SqueezeV2", {"axis"}}, [](const Tensor& x, IntArrayRef, const Tensor& y) { reshape(x, y); }},
    {Ge{"UnsqueezeV2", {"axis"}}, [](const Tensor& x, IntArrayRef, const Tensor& y) { reshape(x, y); }},
    {Ge{"SqueezeV3"}, [](const Tensor& x, const std::optional<Tensor>&, const Tensor& y) { reshape(x, y); }},
    {Ge{"UnsqueezeV3"},
     [](const Tensor& x, const std::optional<Tensor>&, const Tensor& y) { reshape(x, y); }},
    {Ge{"ExpandDims"}, [](const Tensor& x, const std::optional<Tensor>&, const Tensor& y) { reshape(x, y); }},
    {Ge{"Flatten", {"axis"}}, [](const Tensor& x, Number, const Tensor& y) { reshape(x, y); }},
    {Ge{"FlattenV2", {"axis", "end_axis"}},
     [](const Tensor& x, Number, Number, const Tensor& y) { reshape(x, y); }},

    {Ge{"ConcatV2", {"N"}}, concat},
    {Ge{"ConcatV2D", {"concat_dim", "N"}}, concat},
    {Ge{"ConcatD", {"concat_dim", "N"}}, concat},
    {Ge{"Concat", {"N"}}, [](int64_t dim, const std::vector<Tensor>& x, Number count,
                             const Tensor& y) { concat(x, dim, count, y); }},
    {Ge{"Pack", {"axis", "N"}}, [](const std::vector<Tensor>& x, Number axis, Number,
                                   const Tensor& y) { call_aclnn("aclnnStack", x, axis.value_or(0), y); }},
    {Ge{"Unpack", {"num", "axis"}},
     [](const Tensor& x, Number, Number axis, const std::vector<Tensor>& y) {
         write_all(x.unbind(axis.value_or(0)), y);
     }},
    {Ge{"Split", {"num_split"}}, [](int64_t dim, const Tensor& x, int64_t count,
                                    const std::vector<Tensor>& y) { split(x, dim, count, y); }},
    {Ge{"SplitD", {"split_dim", "num_split"}}, split},
    {Ge{"SplitV", {"num_split"}}, split_v},
    {Ge{"SplitVD", {"size_splits", "split_dim", "num_split"}}, split_v},

    {Ge{"StridedSlice", {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}},
     leading_slice},
    {Ge{"StridedSliceD",
        {"begin", "end", "strides", "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
         "shrink_axis_mask"}},
     leading_slice},
    {Ge{"StridedSliceV2", {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}},
     [](const Tensor& x, IntArrayRef begin, IntArrayRef end, OptionalIntArrayRef axes,
        OptionalIntArrayRef strides, Number b, Number e, Number ellipsis, Number new_axis, Number shrink,
        const Tensor& y) {
         strided_slice(
             x, begin, end, axes, strides,
             {b.value_or(0), e.value_or(0), ellipsis.value_or(0), new_axis.value_or(0), shrink.value_or(0)},
             y);
     }},
    {Ge{"ReverseV2"}, reverse},
    {Ge{"ReverseV2D", {"axis"}}, reverse},
    {Ge{"Roll", {"shifts", "dims"}}, roll},
    {Ge{"RollV2"}, roll},
    {Ge{"Triu", {"diagonal"}}, [](const Tensor& x, Number diagonal,
                                  const Tensor& y) { call_aclnn("aclnnTriu", x, diagonal.value_or(0), y); }},
    {Ge{"Tril", {"diagonal"}}, [](const Tensor& x, Number diagonal,
                                  const Tensor& y) { call_aclnn("aclnnTril", x, diagonal.value_or(0), y); }},
    {Ge{"Trilu", {"upper"}},
     [](const Tensor& x, Number k, Number upper, const Tensor& y) {
         call_aclnn(upper.value_or(0) != 0 ? "aclnnTriu" : "aclnnTril", x, k.value_or(0), y);
     }},
};

}  // namespace
}  // namespace npu::emulator
