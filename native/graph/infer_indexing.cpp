// Operators that pick, place or find elements by index or mask.
#include <algorithm>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

void like_first(Context& c) { c.out(c.in(0).type); }

/// x with its axis replaced by the indices; the first `batch` dimensions of both are the same ones.
Dims gathered(const Context& c, std::optional<int64_t> axis, int64_t batch) {
    const Dims &x = c.dims("x"), &indices = c.dims("indices");
    auto most = static_cast<int64_t>(std::min(x.size(), indices.size()));
    if (batch < 0) batch += static_cast<int64_t>(indices.size());
    if (x.empty()) c.fail("x is a scalar");
    if (batch < 0 || batch > most) c.fail("its attribute batch_dims does not fit the ranks");
    if (!axis) return Dims(x.size() + indices.size() - 1 - batch, kUnknown);
    std::size_t at = axis_of(c, *axis, x.size());
    if (static_cast<int64_t>(at) < batch) c.fail("the axis lies before batch_dims");
    for (int64_t dim = 0; dim < batch; ++dim)
        if (!same_size(x[dim], indices[dim]))
            c.fail("x and indices differ in batch dimension " + std::to_string(dim));
    Dims out(x.begin(), x.begin() + at);
    out.insert(out.end(), indices.begin() + batch, indices.end());
    out.insert(out.end(), x.begin() + at + 1, x.end());
    return out;
}

void gather(Context& c) {
    c.out(c.dtype("x"), [&] { return gathered(c, c.integer("batch_dims"), c.integer("batch_dims")); });
}

void gather_v2(Context& c) {
    c.out(c.dtype("x"), [&] {
        return gathered(c, c.value("axis") ? std::optional(c.need_scalar("axis")) : std::nullopt,
                        c.integer("batch_dims"));
    });
}

void gather_v2_d(Context& c) {
    c.out(c.dtype("x"), [&] { return gathered(c, c.integer("axis"), 0); });
}

void embedding(Context& c) {
    c.out(c.dtype("x"), [&] { return gathered(c, 0, 0); });
}

void gather_nd(Context& c) {
    c.out(c.dtype("x"), [&] {
        const Dims &x = c.dims("x"), &indices = c.dims("indices");
        if (indices.empty()) c.fail("indices is a scalar");
        int64_t depth = indices.back();
        if (depth < 0) c.unknown();
        if (depth > c.rank("x")) c.fail("an index names more dimensions than x has");
        Dims out(indices.begin(), indices.end() - 1);
        out.insert(out.end(), x.begin() + depth, x.end());
        return out;
    });
}

void gather_elements(Context& c) {
    c.out(c.dtype("x"), [&] {
        const Dims& index = c.dims("index");
        if (c.ranked("x") && c.rank("x") != c.rank("index")) c.fail("x and index differ in rank");
        if (c.op.name == "GatherElements" && c.ranked("x")) axis_of(c, c.integer("dim"), c.dims("x").size());
        return index;
    });
}

void scatter_nd(Context& c) {
    c.out(c.dtype("x"), [&] { return c.need_value("shape"); });
}

void scatter_elements(Context& c) {
    if (c.dtype(0) != c.dtype("updates")) c.fail("the data and the updates differ in data type");
    if (c.ranked(0)) axis_of(c, c.integer("axis"), c.dims(0).size());
    c.out(c.in(0).type);
}

/// A reference that is written in place: its own type is the result's.
void in_place(Context& c) {
    if (c.dtype(0) != c.dtype("updates")) c.fail("the target and the updates differ in data type");
    c.out(c.in(0).type);
}

int64_t mask_elements(const Context& c) { return product(c, broadcast(c, c.dims("x"), c.dims("mask"))); }

void masked_select(Context& c) {
    c.out(c.dtype("x"), [] { return Dims{kUnknown}; }, [&] { return Dims{mask_elements(c)}; });
}

void masked_scatter(Context& c) {
    if (c.dtype("x") != c.dtype("updates")) c.fail("x and updates differ in data type");
    c.out(c.in("x").type);
}

/// One row a non-zero element, or with `transpose` one column.
void non_zero(Context& c) {
    bool transpose = c.flag("transpose");
    auto shape = [&](int64_t count) {
        return transpose ? Dims{c.rank("x"), count} : Dims{count, c.rank("x")};
    };
    c.out(c.type("dtype"), [&] { return shape(kUnknown); }, [&] { return shape(product(c, c.dims("x"))); });
}

void where(Context& c) {
    c.out(
        ACL_INT64, [&] { return Dims{kUnknown, c.rank("x")}; },
        [&] { return Dims{product(c, c.dims("x")), c.rank("x")}; });
}

Dims one_hot_dims(const Context& c, int64_t depth) {
    Dims out = c.dims("x");
    if (depth < kUnknown) c.fail("depth is " + std::to_string(depth));
    int64_t axis = c.integer("axis");
    if (axis < -1 || axis > static_cast<int64_t>(out.size()))
        c.fail("there is no axis " + std::to_string(axis));
    out.insert(axis == -1 ? out.end() : out.begin() + axis, depth);
    return out;
}

void one_hot(Context& c) {
    if (c.dtype("on_value") != c.dtype("off_value")) c.fail("on_value and off_value differ in data type");
    c.out(c.dtype("on_value"),
          [&] { return one_hot_dims(c, c.value("depth") ? c.need_scalar("depth") : kUnknown); });
}

void one_hot_d(Context& c) {
    c.out(c.dtype("on_value"), [&] { return one_hot_dims(c, c.integer("depth")); });
}

void embedding_dense_grad(Context& c) {
    c.out(c.dtype("grad"), [&] {
        const Dims& grad = c.dims("grad");
        if (grad.empty()) c.fail("grad is a scalar");
        return Dims{c.integer("num_weights"), grad.back()};
    });
}

Dims segments(const Context& c, int64_t count) {
    const Dims &x = c.dims("x"), &ids = c.dims("segment_ids");
    if (ids.size() > x.size()) c.fail("segment_ids has more dimensions than x");
    for (std::size_t at = 0; at < ids.size(); ++at)
        if (!same_size(x[at], ids[at])) c.fail("segment_ids and x differ in dimension " + std::to_string(at));
    Dims out{count};
    out.insert(out.end(), x.begin() + ids.size(), x.end());
    return out;
}

void unsorted_segment(Context& c) {
    c.out(c.dtype("x"),
          [&] { return segments(c, c.value("num_segments") ? c.need_scalar("num_segments") : kUnknown); });
}

void unsorted_segment_d(Context& c) {
    c.out(c.dtype("x"), [&] { return segments(c, c.integer("num_segments")); });
}

/// NumPy's indexing by arrays: `mask` has a one for each dimension of x that an index takes. The indices'
/// shape stands in place of the dimensions taken where these are neighbours, else in front.
Dims indexed(const Context& c, const Dims& mask) {
    Dims picked, out;
    for (const Operand& index : c.all("indices")) {
        if (!index.type.ranked) c.unknown();
        if (index.type.dtype == ACL_BOOL)
            c.fail("an index of truth values is not supported; NonZero gives the places");
        picked = broadcast(c, picked, index.type.dims);
    }
    const Dims& x = c.dims("x");
    std::vector<std::size_t> taken;
    for (std::size_t at = 0; at < mask.size(); ++at)
        if (mask[at] != 0) taken.push_back(at);
    if (mask.size() > x.size() || taken.size() != c.all("indices").size())
        c.fail("the mask does not fit x and the indices");
    for (std::size_t at = 0; at < x.size(); ++at)
        if (std::find(taken.begin(), taken.end(), at) == taken.end()) out.push_back(x[at]);
    bool neighbours = taken.empty() || taken.back() - taken.front() + 1 == taken.size();
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(neighbours && !taken.empty() ? taken.front() : 0),
               picked.begin(), picked.end());
    return out;
}

void index_by_tensor(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims mask = c.integers("indices_mask");
        return indexed(c, mask.empty() ? Dims(c.all("indices").size(), 1) : mask);
    });
}

void index(Context& c) {
    c.out(c.dtype("x"), [&] { return indexed(c, c.need_value("indexed_sizes")); });
}

void scatter_list(Context& c) {
    for (const Operand& operand : c.all("var")) c.out(operand.type);
}

void bincount(Context& c) {
    c.out(c.dtype("weights"), [&] { return Dims{c.value("size") ? c.need_scalar("size") : kUnknown}; });
}

void search_sorted(Context& c) {
    c.out(c.type("dtype"), [&] { return c.dims("values"); });
}

constexpr Rule kRules[] = {
    {"ArgMaxGrad", in_place},
    {"Bincount", bincount, {"size"}},
    {"Embedding", embedding},
    {"EmbeddingDenseGrad", embedding_dense_grad},
    {"EmbeddingDenseGradV2", embedding_dense_grad},
    {"Gather", gather},
    {"GatherD", gather_elements},
    {"GatherElements", gather_elements},
    {"GatherNd", gather_nd},
    {"GatherV2", gather_v2, {"axis"}},
    {"GatherV2D", gather_v2_d},
    {"Index", index, {"indexed_sizes"}},
    {"IndexAdd", in_place},
    {"IndexByTensor", index_by_tensor},
    {"IndexFill", like_first},
    {"IndexFillD", like_first},
    {"IndexPutV2", like_first},
    {"InplaceAdd", like_first},
    {"InplaceIndexAdd", in_place},
    {"InplaceIndexFill", like_first},
    {"InplaceSub", like_first},
    {"InplaceUpdate", like_first},
    {"MaskedScatter", masked_scatter},
    {"MaskedSelect", masked_select},
    {"NonZero", non_zero},
    {"OneHot", one_hot, {"depth"}},
    {"OneHotD", one_hot_d},
    {"Scatter", in_place},
    {"ScatterAdd", in_place},
    {"ScatterAddWithAxis", in_place},
    {"ScatterDiv", in_place},
    {"ScatterElements", scatter_elements},
    {"ScatterElementsV2", scatter_elements},
    {"ScatterList", scatter_list},
    {"ScatterMax", in_place},
    {"ScatterMin", in_place},
    {"ScatterMul", in_place},
    {"ScatterNd", scatter_nd, {"shape"}},
    {"ScatterNdAdd", in_place},
    {"ScatterNdMax", in_place},
    {"ScatterNdMin", in_place},
    {"ScatterNdSub", in_place},
    {"ScatterNdUpdate", in_place},
    {"ScatterSub", in_place},
    {"ScatterUpdate", in_place},
    {"SearchSorted", search_sorted},
    {"TensorScatterAdd", in_place},
    {"TensorScatterMax", in_place},
    {"TensorScatterMin", in_place},
    {"TensorScatterSub", in_place},
    {"TensorScatterUpdate", in_place},
    {"UnsortedSegmentMax", unsorted_segment, {"num_segments"}},
    {"UnsortedSegmentMaxD", unsorted_segment_d},
    {"UnsortedSegmentMin", unsorted_segment, {"num_segments"}},
    {"UnsortedSegmentMinD", unsorted_segment_d},
    {"UnsortedSegmentProd", unsorted_segment, {"num_segments"}},
    {"UnsortedSegmentProdD", unsorted_segment_d},
    {"UnsortedSegmentSum", unsorted_segment, {"num_segments"}},
    {"UnsortedSegmentSumD", unsorted_segment_d},
    {"Where", where},
};

}  // namespace

std::span<const Rule> indexing_rules() { return kRules; }

}  // namespace npu::graph
