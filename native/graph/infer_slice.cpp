// Cut-outs and paddings.
#include <algorithm>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

/// `size` -1: to the end. Offsets that are not known leave the sizes that are.
Dims sliced(const Context& c, const Dims& x, const std::optional<Dims>& offsets,
            const std::optional<Dims>& sizes) {
    if ((offsets && offsets->size() != x.size()) || (sizes && sizes->size() != x.size()))
        c.fail("offsets and size need one entry for each dimension of x");
    Dims out(x.size(), kUnknown);
    if (!sizes) return out;
    for (std::size_t at = 0; at < x.size(); ++at) {
        int64_t size = (*sizes)[at], offset = offsets ? (*offsets)[at] : 0;
        if (offset < 0 || size < -1 || (x[at] >= 0 && (offset > x[at] || size > x[at] - offset)))
            c.fail("dimension " + std::to_string(at) + ": the slice at " + std::to_string(offset) +
                   " of size " + std::to_string(size) + " leaves x");
        out[at] = size >= 0 ? size : offsets && x[at] >= 0 ? x[at] - offset : kUnknown;
    }
    return out;
}

void slice(Context& c) {
    c.out(c.dtype("x"), [&] { return sliced(c, c.dims("x"), c.value("offsets"), c.value("size")); });
}

void slice_d(Context& c) {
    c.out(c.dtype("x"), [&] { return sliced(c, c.dims("x"), c.integers("offsets"), c.integers("size")); });
}

void slice_d_v2(Context& c) {
    c.out(c.dtype("x"), [&] { return sliced(c, c.dims("x"), c.value("offsets"), c.integers("size")); });
}

/// One dimension's begin, end and stride, as Python slices them; what is not known is nullopt.
struct Cut {
    std::optional<int64_t> begin, end, stride;
    bool whole_begin = false, whole_end = false, shrink = false;
};

int64_t cut_size(const Context& c, int64_t size, const Cut& cut) {
    if (cut.stride && *cut.stride == 0) c.fail("a stride is 0");
    if (!cut.stride || size < 0 || (!cut.whole_begin && !cut.begin) || (!cut.whole_end && !cut.end))
        return kUnknown;
    bool forward = *cut.stride > 0;
    int64_t lowest = forward ? 0 : -1, highest = forward ? size : size - 1;
    auto clamped = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, lowest, highest); };
    int64_t first = cut.whole_begin ? (forward ? lowest : highest) : clamped(*cut.begin);
    int64_t last = cut.whole_end ? (forward ? highest : lowest) : clamped(*cut.end);
    int64_t length = forward ? last - first : first - last;
    if (length <= 0) return 0;
    uint64_t step = forward ? *cut.stride : uint64_t{0} - static_cast<uint64_t>(*cut.stride);
    return static_cast<int64_t>((static_cast<uint64_t>(length) - 1) / step + 1);
}

void check_shrunk(const Context& c, int64_t size, const Cut& cut) {
    if (cut.stride && *cut.stride <= 0)
        c.fail("a dimension is taken away by shrink_axis_mask, and its stride is not positive");
    if (size < 0 || !cut.begin || cut.whole_begin) return;
    if (*cut.begin < -size || *cut.begin >= size)
        c.fail("there is no element " + std::to_string(*cut.begin) + " in a dimension of " +
               std::to_string(size));
}

bool bit(int64_t mask, std::size_t at) { return at < 63 && (mask >> at & 1); }

std::optional<int64_t> entry(const std::optional<Dims>& values, std::size_t at) {
    return values ? std::optional((*values)[at]) : std::nullopt;
}

/// How many entries begin and end have: of their values, or of their shape.
std::size_t entries(const Context& c, const std::optional<Dims>& begin, const std::optional<Dims>& end,
                    const std::optional<Dims>& strides) {
    std::optional<std::size_t> count;
    for (const auto* values : {&begin, &end, &strides}) {
        if (!*values) continue;
        if (count && *count != (*values)->size()) c.fail("begin, end and strides differ in length");
        count = (*values)->size();
    }
    if (count) return *count;
    return length_of(c, "begin");
}

/// TensorFlow's strided slice: masks count entries of begin, an ellipsis stands for as many dimensions as are
/// left.
Dims strided(const Context& c, const Dims& x, const std::optional<Dims>& begin,
             const std::optional<Dims>& end, const std::optional<Dims>& strides) {
    int64_t new_axis = c.integer("new_axis_mask"), ellipsis = c.integer("ellipsis_mask"),
            shrink = c.integer("shrink_axis_mask");
    std::size_t count = entries(c, begin, end, strides), named = 0, ellipses = 0;
    for (std::size_t at = 0; at < count; ++at) {
        if (bit(ellipsis, at))
            ++ellipses;
        else if (!bit(new_axis, at))
            ++named;
    }
    if (ellipses > 1) c.fail("ellipsis_mask has more than one bit");
    if (named > x.size()) c.fail("begin names more dimensions than x has");
    Dims out;
    auto size = x.begin();
    for (std::size_t at = 0; at < count; ++at) {
        if (bit(ellipsis, at)) {
            for (std::size_t left = x.size() - named; left > 0; --left) out.push_back(*size++);
        } else if (bit(new_axis, at)) {
            out.push_back(1);
        } else {
            Cut cut{entry(begin, at),
                    entry(end, at),
                    entry(strides, at),
                    bit(c.integer("begin_mask"), at),
                    bit(c.integer("end_mask"), at),
                    bit(shrink, at)};
            if (cut.shrink)
                check_shrunk(c, *size, cut);
            else
                out.push_back(cut_size(c, *size, cut));
            ++size;
        }
    }
    out.insert(out.end(), size, x.end());
    return out;
}

Dims ones(std::size_t count) { return Dims(count, 1); }

void strided_slice(Context& c) {
    c.out(c.dtype("x"),
          [&] { return strided(c, c.dims("x"), c.value("begin"), c.value("end"), c.value("strides")); });
}

void strided_slice_d(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims begin = c.integers("begin"), strides = c.integers("strides");
        return strided(c, c.dims("x"), begin, c.integers("end"),
                       strides.empty() ? ones(begin.size()) : strides);
    });
}

/// `axes` names the dimensions that begin, end and strides are about; the masks count their entries.
Dims strided_along(const Context& c, Dims x, const Dims& axes, const std::optional<Dims>& strides) {
    if (c.integer("new_axis_mask") || c.integer("ellipsis_mask"))
        c.fail("axes together with new_axis_mask or ellipsis_mask is not supported");
    auto begin = c.value("begin"), end = c.value("end");
    if (entries(c, begin, end, strides) != axes.size()) c.fail("axes and begin differ in length");
    std::vector<bool> gone(x.size() + 1, false);
    for (std::size_t at = 0; at < axes.size(); ++at) {
        if (x.empty()) c.fail("a scalar has no axis");
        std::size_t axis = axis_of(c, axes[at], x.size());
        Cut cut{entry(begin, at),
                entry(end, at),
                entry(strides, at),
                bit(c.integer("begin_mask"), at),
                bit(c.integer("end_mask"), at),
                bit(c.integer("shrink_axis_mask"), at)};
        if (cut.shrink)
            check_shrunk(c, x[axis], cut), gone[axis] = true;
        else
            x[axis] = cut_size(c, x[axis], cut);
    }
    Dims out;
    for (std::size_t at = 0; at < x.size(); ++at)
        if (!gone[at]) out.push_back(x[at]);
    return out;
}

void strided_slice_v2(Context& c) {
    c.out(c.dtype("x"), [&] {
        const Dims& x = c.dims("x");
        auto begin = c.value("begin"), end = c.value("end");
        auto strides = c.has("strides") ? c.value("strides") : ones(entries(c, begin, end, std::nullopt));
        if (!c.has("axes")) return strided(c, x, begin, end, strides);
        auto axes = c.value("axes");
        if (!axes && c.integer("shrink_axis_mask")) c.unknown();
        return axes ? strided_along(c, x, *axes, strides) : Dims(x.size(), kUnknown);
    });
}

/// `pairs`: before and after each dimension; otherwise all befores, then all afters.
Dims padded(const Context& c, Dims x, const Dims& paddings, bool pairs = true) {
    if (paddings.size() != 2 * x.size()) c.fail("paddings needs two entries for each dimension of x");
    for (std::size_t at = 0; at < x.size(); ++at) {
        int64_t before = paddings[pairs ? 2 * at : at], after = paddings[pairs ? 2 * at + 1 : x.size() + at];
        if (x[at] < 0) continue;
        x[at] = plus(c, plus(c, x[at], before), after);
        if (x[at] < 0)
            c.fail("dimension " + std::to_string(at) + " cannot be padded by " + std::to_string(before) +
                   " and " + std::to_string(after));
    }
    return x;
}

void pad(Context& c) {
    c.out(c.dtype("x"), [&] {
        auto paddings = c.value("paddings");
        return paddings ? padded(c, c.dims("x"), *paddings) : Dims(c.dims("x").size(), kUnknown);
    });
}

void pad_v3(Context& c) {
    c.out(c.dtype("x"), [&] {
        auto paddings = c.value("paddings");
        return paddings ? padded(c, c.dims("x"), *paddings, c.flag("paddings_contiguous"))
                        : Dims(c.dims("x").size(), kUnknown);
    });
}

/// Of the gradient: what was padded is cut off.
void pad_grad(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims paddings = c.need_value("paddings");
        for (int64_t& padding : paddings) padding = times(c, padding, -1);
        return padded(c, c.dims("x"), paddings, c.flag("paddings_contiguous"));
    });
}

constexpr Rule kRules[] = {
    {"MirrorPad", pad, {"paddings"}},
    {"Pad", pad, {"paddings"}},
    {"PadV2", pad, {"paddings"}},
    {"PadV3", pad_v3, {"paddings"}},
    {"PadV3Grad", pad_grad, {"paddings"}},
    {"Slice", slice, {"offsets", "size"}},
    {"SliceD", slice_d},
    {"SliceDV2", slice_d_v2, {"offsets"}},
    {"StridedSlice", strided_slice, {"begin", "end", "strides"}},
    {"StridedSliceD", strided_slice_d},
    {"StridedSliceV2", strided_slice_v2, {"begin", "end", "axes", "strides"}},
};

}  // namespace

std::span<const Rule> slice_rules() { return kRules; }

}  // namespace npu::graph
