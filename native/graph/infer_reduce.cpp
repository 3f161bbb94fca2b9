#include "graph/shapes.h"

namespace npu::graph {
namespace {

Dims every_axis(const Dims& dims) {
    Dims axes;
    for (std::size_t at = 0; at < dims.size(); ++at) axes.push_back(static_cast<int64_t>(at));
    return axes;
}

/// What no axes mean: nothing is reduced, or everything.
enum class NoAxes { keep_all, reduce_all };

Dims reduce_by(const Context& c, const Dims& axes, NoAxes none, bool keep) {
    const Dims& x = c.dims("x");
    return reduced(c, x, axes.empty() && none == NoAxes::reduce_all ? every_axis(x) : axes, keep);
}

/// Axes as an input. Where they are not known before the operator runs, the rank still is if the reduced
/// dimensions are kept.
void reduce_input(Context& c, DataType dtype) {
    NoAxes none = c.given("noop_with_empty_axes") && !c.flag("noop_with_empty_axes") ? NoAxes::reduce_all
                                                                                     : NoAxes::keep_all;
    bool keep = c.flag("keep_dims");
    c.out(dtype, [&] {
        auto axes = c.value("axes");
        if (!axes && keep) return Dims(c.dims("x").size(), kUnknown);
        return reduce_by(c, c.need_value("axes"), none, keep);
    });
}

void reduce(Context& c) { reduce_input(c, c.dtype("x")); }
void reduce_to_bool(Context& c) { reduce_input(c, ACL_BOOL); }

void reduce_with_cast(Context& c) {
    DataType to = c.type("dtype");
    reduce_input(c, to == ACL_DT_UNDEFINED ? c.dtype("x") : to);
}

/// Axes as an attribute: CANN's forms with D.
void reduce_attribute(Context& c, DataType dtype) {
    c.out(dtype, [&] { return reduce_by(c, c.integers("axes"), NoAxes::reduce_all, c.flag("keep_dims")); });
}

void reduce_d(Context& c) { reduce_attribute(c, c.dtype("x")); }
void reduce_to_bool_d(Context& c) { reduce_attribute(c, ACL_BOOL); }

/// ReduceStd, ReduceStdV2, ReduceVar: the deviation and the mean.
void deviation(Context& c) {
    for (int output = 0; output < 2; ++output)
        c.out(c.dtype("x"),
              [&] { return reduce_by(c, c.integers("dim"), NoAxes::reduce_all, c.flag("keepdim")); });
}

void deviation_with_mean(Context& c) {
    c.out(c.dtype("x"),
          [&] { return reduce_by(c, c.integers("dim"), NoAxes::reduce_all, c.flag("keepdim")); });
}

void lp_norm(Context& c) {
    c.out(c.dtype("x"),
          [&] { return reduce_by(c, c.integers("axes"), NoAxes::reduce_all, c.flag("keepdim")); });
}

void arg_v2(Context& c) {
    c.out(c.type("dtype"), [&] {
        if (!c.value("dimension") && c.rank("x") == 1) return Dims{};
        if (!c.value("dimension")) return Dims(c.dims("x").size() - (c.rank("x") > 0), kUnknown);
        return reduced(c, c.dims("x"), {c.need_scalar("dimension")}, false);
    });
}

/// The forms with D give int32 whatever `dtype` says: the catalogue lists nothing else.
void arg_d(Context& c) {
    c.out(ACL_INT32, [&] { return reduced(c, c.dims("x"), {c.integer("dimension")}, false); });
}

void arg_with_value(Context& c) {
    auto shape = [&] { return reduced(c, c.dims("x"), {c.integer("dimension")}, c.flag("keep_dims")); };
    c.out(c.type("indice_dtype"), shape);
    c.out(c.dtype("x"), shape);
}

void check_axis(const Context& c, std::optional<Dims> axis) {
    if (!axis || !c.ranked("x")) return;
    if (axis->size() != 1) c.fail("its input axis should be one number");
    axis_of(c, (*axis)[0], c.dims("x").size());
}

void scan(Context& c) {
    check_axis(c, c.value("axis"));
    c.out(c.in("x").type);
}

void scan_d(Context& c) {
    check_axis(c, Dims{c.integer("axis")});
    c.out(c.in("x").type);
}

void scan_with_indices(Context& c, const char* axis) {
    check_axis(c, Dims{c.integer(axis)});
    c.out(c.in("x").type);
    c.out(ACL_INT32, [&] { return c.dims("x"); });
}

void cummax(Context& c) { scan_with_indices(c, "dim"); }
void cummin(Context& c) { scan_with_indices(c, "axis"); }

void top_k_outputs(Context& c, DataType index, std::optional<int64_t> k) {
    auto shape = [&] {
        Dims out = c.dims("x");
        std::size_t axis = axis_of(c, c.integer("dim"), out.size());
        if (out.empty()) return out;
        if (k && (*k < 0 || (out[axis] >= 0 && *k > out[axis])))
            c.fail("k is " + std::to_string(*k) + ", and the axis has " + std::to_string(out[axis]) +
                   " elements");
        out[axis] = k.value_or(kUnknown);
        return out;
    };
    c.out(c.dtype("x"), shape);
    c.out(index, shape);
}

std::optional<int64_t> k_of(const Context& c) {
    return c.value("k") ? std::optional(c.need_scalar("k")) : std::nullopt;
}

void top_k(Context& c) { top_k_outputs(c, ACL_INT32, k_of(c)); }
void top_k_v2(Context& c) { top_k_outputs(c, c.type("indices_dtype"), k_of(c)); }
void top_k_d(Context& c) { top_k_outputs(c, ACL_INT32, c.integer("k")); }

void sort(Context& c) {
    check_axis(c, Dims{c.integer("axis")});
    c.out(c.in("x").type);
    c.out(c.type("y2_dtype"), [&] { return c.dims("x"); });
}

void sort_v2(Context& c) {
    check_axis(c, Dims{c.integer("axis")});
    c.out(c.in("x").type);
}

void check_axes(const Context& c, const char* attribute) {
    if (!c.ranked(0)) return;
    for (int64_t axis : c.integers(attribute)) axis_of(c, axis, c.dims(0).size());
}

void softmax(Context& c) {
    check_axes(c, "axes");
    bool widen = c.flag("half_to_float") && c.dtype("x") == ACL_FLOAT16;
    c.out(widen ? ACL_FLOAT : c.dtype("x"), [&] { return c.dims("x"); });
}

void log_softmax(Context& c) {
    check_axes(c, "axes");
    c.out(c.in("logits").type);
}

void softmax_grad(Context& c) {
    check_axes(c, c.op.name == "SoftmaxGrad" ? "axes" : "axis");
    c.out(common_dtype(c), [&] { return agreed(c, c.dims(0), c.dims(1)); });
}

void to_scalar(Context& c) {
    c.out(c.dtype("x"), [] { return Dims{}; });
}

constexpr Rule kRules[] = {
    {"ArgMaxD", arg_d},
    {"ArgMaxV2", arg_v2, {"dimension"}},
    {"ArgMaxWithValue", arg_with_value},
    {"ArgMin", arg_v2, {"dimension"}},
    {"ArgMinD", arg_d},
    {"ArgMinWithValue", arg_with_value},
    {"Cummax", cummax},
    {"Cummin", cummin},
    {"Cumprod", scan},
    {"CumprodD", scan_d},
    {"Cumsum", scan},
    {"CumsumD", scan_d},
    {"CumulativeLogsumexp", scan},
    {"CumulativeLogsumexpD", scan_d},
    {"L2Loss", to_scalar},
    {"LogSoftmaxGrad", softmax_grad},
    {"LogSoftmaxV2", log_softmax},
    {"LpNorm", lp_norm},
    {"LpNormReduce", lp_norm},
    {"LpNormReduceV2", lp_norm},
    {"LpNormV2", lp_norm},
    {"ReduceAll", reduce_to_bool, {"axes"}},
    {"ReduceAllD", reduce_to_bool_d},
    {"ReduceAny", reduce_to_bool, {"axes"}},
    {"ReduceAnyD", reduce_to_bool_d},
    {"ReduceLogSum", reduce, {"axes"}},
    {"ReduceLogSumExp", reduce, {"axes"}},
    {"ReduceMax", reduce, {"axes"}},
    {"ReduceMaxD", reduce_d},
    {"ReduceMean", reduce, {"axes"}},
    {"ReduceMeanD", reduce_d},
    {"ReduceMeanWithCast", reduce_with_cast, {"axes"}},
    {"ReduceMin", reduce, {"axes"}},
    {"ReduceMinD", reduce_d},
    {"ReduceProd", reduce, {"axes"}},
    {"ReduceProdD", reduce_d},
    {"ReduceStd", deviation},
    {"ReduceStdV2", deviation},
    {"ReduceStdV2Update", deviation_with_mean},
    {"ReduceStdWithMean", deviation_with_mean},
    {"ReduceSum", reduce, {"axes"}},
    {"ReduceSumD", reduce_d},
    {"ReduceVar", deviation},
    {"SoftmaxGrad", softmax_grad},
    {"SoftmaxV2", softmax},
    {"Sort", sort},
    {"SortV2", sort_v2},
    {"TopK", top_k, {"k"}},
    {"TopKD", top_k_d},
    {"TopKV2", top_k_v2, {"k"}},
    {"TopKV2D", top_k, {"k"}},
};

}  // namespace

std::span<const Rule> reduce_rules() { return kRules; }

}  // namespace npu::graph
