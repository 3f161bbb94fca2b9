#include "graph/shapes.h"

namespace npu::graph {
namespace {

/// One number, or with the reduction "none" one an element.
void out_reduced(Context& c, DataType dtype, const Context::ShapeRule& shape) {
    if (c.text("reduction") == "none")
        c.out(dtype, shape);
    else
        c.out(dtype, [] { return Dims{}; });
}

void elementwise_loss(Context& c) {
    if (c.dtype(0) != c.dtype(1)) c.fail("the inputs differ in data type; put a Cast before one of them");
    out_reduced(c, c.dtype(0), [&] { return broadcast(c, c.dims(0), c.dims(1)); });
}

void like_first(Context& c) { c.out(c.in(0).type); }

/// x without its dimension of classes.
void nll_loss(Context& c) {
    const auto shape = [&] {
        Dims x = c.dims("x");
        if (x.size() == 1) return Dims{};
        if (x.size() != 2 && x.size() != 4) c.fail("x should be [C], [N, C] or [N, C, H, W]");
        x.erase(x.begin() + 1);
        return x;
    };
    out_reduced(c, c.dtype("x"), shape);
    c.out(c.dtype("x"), [] { return Dims{}; });
}

void softmax_cross_entropy(Context& c) {
    Context::ShapeRule both = [&] {
        Dims out = broadcast(c, c.dims("features"), c.dims("labels"));
        if (out.size() < 2) c.fail("features should be [batch, classes]");
        return out;
    };
    c.out(c.dtype("features"), [&] {
        Dims out = both();
        out.erase(out.begin() + 1);
        return out;
    });
    c.out(c.dtype("features"), both);
}

void sparse_softmax_cross_entropy(Context& c) {
    c.out(c.dtype("features"), [&] { return c.dims("labels"); });
    c.out(c.in("features").type);
}

void sigmoid_cross_entropy(Context& c) {
    c.out(common_dtype(c), [&] { return agreed(c, c.dims("predict"), c.dims("target")); });
}

constexpr Rule kRules[] = {
    {"BinaryCrossEntropy", elementwise_loss},
    {"BinaryCrossEntropyGrad", like_first},
    {"KLDiv", elementwise_loss},
    {"KLDivV2", elementwise_loss},
    {"LpLoss", elementwise_loss},
    {"MseLoss", elementwise_loss},
    {"MseLossGrad", like_first},
    {"NLLLoss", nll_loss},
    {"NLLLossGrad", like_first},
    {"SigmoidCrossEntropyWithLogits", sigmoid_cross_entropy},
    {"SigmoidCrossEntropyWithLogitsGrad", like_first},
    {"SigmoidCrossEntropyWithLogitsGradV2", like_first},
    {"SigmoidCrossEntropyWithLogitsV2", elementwise_loss},
    {"SmoothL1LossGradV2", like_first},
    {"SmoothL1LossV2", elementwise_loss},
    {"SoftMarginLoss", elementwise_loss},
    {"SoftmaxCrossEntropyWithLogits", softmax_cross_entropy},
    {"SparseSoftmaxCrossEntropyWithLogits", sparse_softmax_cross_entropy},
};

}  // namespace

std::span<const Rule> loss_rules() { return kRules; }

}  // namespace npu::graph
