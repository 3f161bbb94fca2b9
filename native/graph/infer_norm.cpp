// Normalisations and gated activations. Shapes of the statistics: CANN's own inference (hicann/ops-nn,
// norm/*/op_host).
#include "graph/shapes.h"

namespace npu::graph {
namespace {

void like(Context& c, Key input) { c.out(c.in(input).type); }

/// The dims of x with 1 from `first` on.
Dims statistics(const Context& c, int64_t first) {
    Dims out = c.dims("x");
    auto rank = static_cast<int64_t>(out.size());
    if (first < 0 || first > rank) c.fail("the normalised dimensions do not fit the rank of x");
    std::fill(out.begin() + first, out.end(), 1);
    return out;
}

void layer_norm(Context& c, DataType statistic) {
    like(c, "x");
    auto shape = [&] {
        int64_t axis = c.integer("begin_norm_axis");
        return statistics(c, axis < 0 ? plus(c, axis, c.rank("x")) : axis);
    };
    c.out(statistic, shape);
    c.out(statistic, shape);
}

void layer_norm_v1(Context& c) { layer_norm(c, c.dtype("x")); }
void layer_norm_v3(Context& c) { layer_norm(c, ACL_FLOAT); }

/// Only the length of normalized_shape matters, so its value may be unknown.
void layer_norm_v4(Context& c) {
    like(c, "x");
    auto shape = [&] {
        const Dims& length = c.dims("normalized_shape");
        int64_t count = length.empty() ? 1 : length[0];
        return count < 0 ? Dims(c.dims("x").size(), kUnknown) : statistics(c, c.rank("x") - count);
    };
    c.out(ACL_FLOAT, shape);
    c.out(ACL_FLOAT, shape);
}

void layer_norm_grad(Context& c) {
    like(c, "x");
    for (int output = 0; output < 2; ++output) like(c, "gamma");
}

void rms_statistics(Context& c, Key x) {
    c.out(ACL_FLOAT, [&, x] {
        Dims out = c.dims(x);
        std::size_t count = c.dims("gamma").size();
        if (count > out.size()) c.fail("gamma has more dimensions than x");
        std::fill(out.end() - static_cast<std::ptrdiff_t>(count), out.end(), 1);
        return out;
    });
}

void rms_norm(Context& c) {
    like(c, "x");
    rms_statistics(c, "x");
}

void add_rms_norm(Context& c) {
    if (c.dtype("x1") != c.dtype("x2")) c.fail("x1 and x2 differ in data type");
    like(c, "x1");
    rms_statistics(c, "x1");
    like(c, "x1");
}

void add_rms_norm_cast(Context& c) {
    if (c.dtype("x1") != c.dtype("x2")) c.fail("x1 and x2 differ in data type");
    c.out(ACL_FLOAT, [&] { return c.dims("x1"); });
    like(c, "x1");
    rms_statistics(c, "x1");
    like(c, "x1");
}

void rms_norm_grad(Context& c) {
    like(c, "dy");
    c.out(ACL_FLOAT, [&] { return c.dims("gamma"); });
}

int64_t batch_of(const Context& c) {
    if (c.dims("x").size() < 2) c.fail("x should have two dimensions or more");
    return c.dims("x")[0];
}

void group_norm(Context& c) {
    like(c, "x");
    for (int output = 0; output < 2; ++output)
        c.out(c.dtype("x"), [&] { return Dims{batch_of(c), c.integer("num_groups")}; });
}

/// V2 flattens batch and groups.
void group_norm_v2(Context& c) {
    like(c, "x");
    for (int output = 0; output < 2; ++output)
        c.out(c.dtype("x"), [&] { return Dims{product(c, Dims{batch_of(c), c.integer("num_groups")})}; });
}

void group_norm_grad(Context& c) {
    like(c, "x");
    for (int output = 0; output < 2; ++output) like(c, "gamma");
}

void batch_norm(Context& c) {
    like(c, "x");
    for (int output = 0; output < 4; ++output) c.out(ACL_FLOAT, [&] { return c.dims("scale"); });
    c.out(ACL_FLOAT, [] { return Dims{1}; });
}

void batch_norm_v3(Context& c) {
    like(c, "x");
    for (const char* running : {"running_mean", "running_var"})
        c.out(c.dtype(running), [&] { return c.dims("weight"); });
    for (int output = 0; output < 2; ++output) c.out(ACL_FLOAT, [&] { return c.dims("weight"); });
}

void batch_norm_grad_v3(Context& c) {
    like(c, "x");
    for (int output = 0; output < 2; ++output) like(c, "weight");
}

void like_x(Context& c) { like(c, "x"); }
void like_grads(Context& c) { like(c, "grads"); }

/// Sums over all but the channels, which come second: the operator has no data_format, and PyTorch's images
/// are NCHW.
void training_reduce(Context& c) {
    for (int output = 0; output < 2; ++output)
        c.out(ACL_FLOAT, [&] {
            if (c.dims("x").size() != 4) c.fail("x should have four dimensions");
            return Dims{c.dims("x")[1]};
        });
}

void training_update(Context& c) {
    like(c, "x");
    for (const char* running : {"mean", "variance"}) like(c, running);
    for (int output = 0; output < 2; ++output) c.out(ACL_FLOAT, [&] { return c.dims("sum"); });
}

void training_update_grad(Context& c) {
    for (int output = 0; output < 2; ++output) c.out(ACL_FLOAT, [&] { return c.dims("batch_mean"); });
}

/// Half of a dimension gates the other half.
Dims halved(const Context& c) {
    Dims out = c.dims("x");
    if (out.empty()) c.fail("x is a scalar");
    int64_t& size = out[axis_of(c, c.integer("dim"), out.size())];
    if (size >= 0 && size % 2 != 0) c.fail("the gated dimension has the odd size " + std::to_string(size));
    if (size >= 0) size /= 2;
    return out;
}

void gated(Context& c) {
    c.out(c.dtype("x"), [&] { return halved(c); });
}

void ge_glu(Context& c) {
    gated(c);
    gated(c);
}

constexpr Rule kRules[] = {
    {"AddRmsNorm", add_rms_norm},
    {"AddRmsNormCast", add_rms_norm_cast},
    {"BN3DTrainingUpdateGrad", training_update_grad},
    {"BNInfer", like_x},
    {"BNInferGrad", like_grads},
    {"BNInference", like_x},
    {"BNInferenceD", like_x},
    {"BNTrainingReduce", training_reduce},
    {"BNTrainingReduceGrad", like_grads},
    {"BNTrainingUpdate", training_update},
    {"BNTrainingUpdateGrad", training_update_grad},
    {"BatchNorm", batch_norm},
    {"BatchNormGradV3", batch_norm_grad_v3},
    {"BatchNormV3", batch_norm_v3},
    {"GLU", gated},
    {"GLUGrad", like_x},
    {"GeGluGradV2", like_x},
    {"GeGluV2", ge_glu},
    {"GroupNorm", group_norm},
    {"GroupNormGrad", group_norm_grad},
    {"GroupNormSilu", group_norm},
    {"GroupNormV2", group_norm_v2},
    {"LayerNorm", layer_norm_v1},
    {"LayerNormGrad", layer_norm_grad},
    {"LayerNormGradV3", layer_norm_grad},
    {"LayerNormV3", layer_norm_v3},
    {"LayerNormV4", layer_norm_v4},
    {"RmsNorm", rms_norm},
    {"RmsNormGrad", rms_norm_grad},
    {"SwiGlu", gated},
    {"SwiGluGrad", like_x},
};

}  // namespace

std::span<const Rule> norm_rules() { return kRules; }

}  // namespace npu::graph
