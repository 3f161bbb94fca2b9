// Losses of a prediction against a target of its shape, with their gradients. reduction: 0 none, 1 mean, 2
// sum.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

void check_reduction(int64_t reduction) {
    TORCH_CHECK(reduction >= 0 && reduction <= 2, "reduction is ", reduction,
                ", it must be 0 (none), 1 (mean) or 2 (sum)");
}

// Both in the wider type of the two.
struct Pair {
    Tensor self, target;
    Pair(const Tensor& a, const Tensor& b) {
        const auto type = wide_type(at::promote_types(a.scalar_type(), b.scalar_type()));
        self = a.to(type);
        target = b.to(type);
    }
};

Tensor reduced(const Tensor& loss, int64_t reduction) {
    check_reduction(reduction);
    if (reduction == at::Reduction::None) return loss;
    return reduction == at::Reduction::Mean ? loss.mean() : loss.sum();
}

// What arrives at each element when the loss's gradient is `grad`.
Tensor spread(const Tensor& grad, const Pair& by, int64_t reduction) {
    check_reduction(reduction);
    const auto up = grad.to(by.self.scalar_type());
    if (reduction != at::Reduction::Mean) return up;
    const auto elements = c10::multiply_integers(at::infer_size(by.self.sizes(), by.target.sizes()));
    return up / static_cast<double>(elements);
}

void write_broadcast(const Tensor& out, const Tensor& value) { write(out, value.expand(out.sizes())); }

template <class F>
Entry loss(const char* name, F function) {
    return {name, [function](const Tensor& self, const Tensor& target, int64_t reduction, const Tensor& out) {
                const Pair by(self, target);
                check_reduction(reduction);
                write(out, function(by.self, by.target, reduction));
            }};
}

template <class F>
Entry gradient(const char* name, F function) {
    return {name, [function](const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                             const Tensor& out) {
                const Pair by(self, target);
                check_reduction(reduction);
                write(out, function(grad.to(by.self.scalar_type()), by.self, by.target, reduction));
            }};
}

// The derivative of the loss on logits: weight * ((1 + (positive - 1) * target) * (sigmoid(x) - 1) + 1 -
// target).
Tensor logits_gradient(const Pair& by, Optional weight, Optional positive) {
    const auto chance = at::sigmoid(by.self);
    auto slope = chance - by.target;
    if (positive) {
        const auto pulled = positive->to(by.self.scalar_type()) * by.target;
        slope = (pulled + 1 - by.target) * chance - pulled;
    }
    return weight ? slope * weight->to(by.self.scalar_type()) : slope;
}

const Table table{
    loss("aclnnMseLoss", [](const Tensor& x, const Tensor& t, int64_t r) { return at::mse_loss(x, t, r); }),
    loss("aclnnL1Loss",
         [](const Tensor& x, const Tensor& t, int64_t r) { return reduced((x - t).abs(), r); }),
    loss("aclnnSoftMarginLoss",
         [](const Tensor& x, const Tensor& t, int64_t r) { return at::soft_margin_loss(x, t, r); }),
    gradient("aclnnMseLossBackward", [](const Tensor& g, const Tensor& x, const Tensor& t,
                                        int64_t r) { return 2 * (x - t) * spread(g, {x, t}, r); }),
    gradient("aclnnL1LossBackward", [](const Tensor& g, const Tensor& x, const Tensor& t,
                                       int64_t r) { return (x - t).sgn() * spread(g, {x, t}, r); }),
    gradient("aclnnSoftMarginLossBackward",
             [](const Tensor& g, const Tensor& x, const Tensor& t, int64_t r) {
                 return -t * at::sigmoid(-t * x) * spread(g, {x, t}, r);
             }),
    {"aclnnSmoothL1Loss",
     [](const Tensor& self, const Tensor& target, int64_t reduction, double beta, const Tensor& out) {
         const Pair by(self, target);
         check_reduction(reduction);
         write(out, at::smooth_l1_loss(by.self, by.target, reduction, beta));
     }},
    {"aclnnSmoothL1LossBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction, double beta,
        const Tensor& out) {
         const Pair by(self, target);
         const auto distance = by.self - by.target;
         const auto slope = beta > 0 ? (distance / beta).clamp(-1, 1) : distance.sgn();
         write(out, slope * spread(grad, by, reduction));
     }},
    {"aclnnKlDiv",
     [](const Tensor& self, const Tensor& target, int64_t reduction, bool log_target, const Tensor& out) {
         const Pair by(self, target);
         check_reduction(reduction);
         write(out, at::kl_div(by.self, by.target, reduction, log_target));
     }},
    {"aclnnKlDivBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction, bool log_target,
        const Tensor& out) {
         const Pair by(self, target);
         const auto slope = log_target ? -by.target.exp() : -by.target.clamp_min(0);
         write_broadcast(out, slope * spread(grad, by, reduction));
     }},
    {"aclnnKlDivTargetBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction, bool log_target,
        const Tensor& out) {
         const Pair by(self, target);
         const auto up = spread(grad, by, reduction);
         if (log_target) return write_broadcast(out, up * (by.target.exp() * (by.target + 1 - by.self)));
         const auto slope = by.target.log() + 1 - by.self;
         write_broadcast(out, up * at::where(by.target == 0, at::zeros_like(slope), slope));
     }},
    {"aclnnBinaryCrossEntropy",
     [](const Tensor& self, const Tensor& target, Optional weight, int64_t reduction, const Tensor& out) {
         const Pair by(self, target);
         check_reduction(reduction);
         write(out, at::binary_cross_entropy(by.self, by.target, to_type(weight, by.self.scalar_type()),
                                             reduction));
     }},
    {"aclnnBinaryCrossEntropyBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& target, Optional weight, int64_t reduction,
        const Tensor& out) {
         const Pair by(self, target);
         check_reduction(reduction);
         write(out, at::binary_cross_entropy_backward(grad.to(by.self.scalar_type()), by.self, by.target,
                                                      to_type(weight, by.self.scalar_type()), reduction));
     }},
    {"aclnnBinaryCrossEntropyWithLogits",
     [](const Tensor& self, const Tensor& target, Optional weight, Optional positive, int64_t reduction,
        const Tensor& out) {
         const Pair by(self, target);
         const auto type = by.self.scalar_type();
         check_reduction(reduction);
         write(out, at::binary_cross_entropy_with_logits(by.self, by.target, to_type(weight, type),
                                                         to_type(positive, type), reduction));
     }},
    {"aclnnBinaryCrossEntropyWithLogitsBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& target, Optional weight, Optional positive,
        int64_t reduction, const Tensor& out) {
         const Pair by(self, target);
         write(out, logits_gradient(by, weight, positive) * spread(grad, by, reduction));
     }},
    {"aclnnMultilabelMarginLoss",
     [](const Tensor& self, const Tensor& target, int64_t reduction, const Tensor& out,
        const Tensor& is_target) {
         check_reduction(reduction);
         const auto [value, hits] =
             at::multilabel_margin_loss_forward(widen(self), target.to(at::kLong), reduction);
         write(out, value);
         write(is_target, hits);
     }},
};

}  // namespace
}  // namespace npu::emulator
