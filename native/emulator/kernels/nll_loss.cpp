// Losses over classes: negative log-likelihood, cross entropy, CTC. reduction: 0 none, 1 mean, 2 sum.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

void nll(const Tensor& self, const Tensor& target, Optional weight, int64_t reduction, int64_t ignore,
         const Tensor& out, const Tensor& total_weight) {
    const auto input = widen(self).contiguous(), label = target.to(at::kLong);
    const auto [loss, total] =
        self.dim() <= 2
            ? at::nll_loss_forward(input, label, to_type(weight, input.scalar_type()), reduction, ignore)
            : at::nll_loss2d_forward(input, label, to_type(weight, input.scalar_type()), reduction, ignore);
    write(out, loss);
    total_weight.copy_(total.reshape(total_weight.sizes()));
}

void nll_backward(const Tensor& grad, const Tensor& self, const Tensor& target, Optional weight,
                  int64_t reduction, int64_t ignore, const Tensor& total_weight, const Tensor& out) {
    const auto input = widen(self).contiguous();  // ATen takes the gradient's strides from it
    const auto type = input.scalar_type();
    const auto up = grad.to(type), total = total_weight.to(type).reshape({}), label = target.to(at::kLong);
    if (self.dim() > 2) {
        return write(
            out, at::nll_loss2d_backward(up, input, label, to_type(weight, type), reduction, ignore, total));
    }
    if (out.scalar_type() != type || !out.is_contiguous()) {
        return write(
            out, at::nll_loss_backward(up, input, label, to_type(weight, type), reduction, ignore, total));
    }
    out.zero_();  // ATen's out variant only writes the targets' places
    fill(out, [&](Tensor& to) {
        at::nll_loss_backward_out(to, up, input, label, to_type(weight, type), reduction, ignore, total);
    });
}

int64_t reduction_of(const std::string& name) {
    if (name == "none" || name == "None") return at::Reduction::None;
    if (name == "sum") return at::Reduction::Sum;
    TORCH_CHECK(name == "mean" || name.empty(), "reductionOptional is ", name,
                ", it must be none, mean or sum");
    return at::Reduction::Mean;
}

// Which rows of logits count, and by how much: rows whose target is ignored weigh nothing.
struct Rows {
    Tensor target, counted, weight;  // counted and weight in the type the loss is carried in

    Rows(const Tensor& label, Optional class_weight, int64_t ignore, ScalarType type) {
        const auto wanted = label.to(at::kLong);
        const auto kept = wanted != ignore;
        target = at::where(kept, wanted, at::zeros_like(wanted));
        counted = kept.to(type);
        weight = class_weight ? class_weight->to(type).index_select(0, target) * counted : counted;
    }
};

void write_flat(const Tensor& out, const Tensor& value) {
    TORCH_CHECK(out.numel() == value.numel(), "an output has shape ", out.sizes(), ", the result has ",
                value.sizes());
    out.copy_(value.reshape(out.sizes()));
}

// CANN declares the z-loss and computes none.
void check_no_z_loss(double scale, bool asked) {
    TORCH_CHECK(scale == 0 && !asked, "lseSquareScaleForZloss is ", scale, " and returnZloss ", asked,
                ": the z-loss is not supported, pass 0 and false and add it to the loss yourself");
}

// input (rows, classes), target (rows). The smoothed part spreads labelSmoothing over all classes.
void cross_entropy(const Tensor& input, const Tensor& target, Optional class_weight, const std::string& how,
                   int64_t ignore, double smoothing, const Tensor& loss, const Tensor& log_prob) {
    const auto reduction = reduction_of(how);
    const auto logp = at::_log_softmax(widen(input), 1, false);
    const auto type = logp.scalar_type();
    const Rows rows(target, class_weight, ignore, type);
    auto each = -logp.gather(1, rows.target.unsqueeze(1)).squeeze(1) * rows.weight;
    if (smoothing != 0) {
        const auto weighted = class_weight ? logp * class_weight->to(type) : logp;
        const auto share = smoothing / static_cast<double>(logp.size(1));
        each = each * (1 - smoothing) - weighted.sum(1) * rows.counted * share;
    }
    if (reduction != at::Reduction::None) each = each.sum();
    if (reduction == at::Reduction::Mean) each = each / rows.weight.sum();
    write_flat(loss, each);
    write(log_prob, logp);
}

void cross_entropy_grad(const Tensor& grad, const Tensor& log_prob, const Tensor& target,
                        Optional class_weight, const std::string& how, int64_t ignore, double smoothing,
                        const Tensor& out) {
    const auto reduction = reduction_of(how);
    const auto logp = widen(log_prob);
    const auto type = logp.scalar_type();
    const Rows rows(target, class_weight, ignore, type);
    const auto up = grad.to(type).reshape({-1});
    const auto per_row = reduction == at::Reduction::Mean ? up / rows.weight.sum() : up;
    const auto likelihood = (per_row * (1 - smoothing) * rows.weight).unsqueeze(1);
    const auto prob = logp.exp();
    auto dx = prob * likelihood;
    dx.scatter_add_(1, rows.target.unsqueeze(1), -likelihood);
    if (smoothing != 0) {
        const auto share =
            (per_row * (smoothing / static_cast<double>(logp.size(1))) * rows.counted).unsqueeze(1);
        const auto spread = class_weight ? share * class_weight->to(type) : share.expand_as(logp);
        dx = dx + prob * spread.sum(1, true) - spread;
    }
    write(out, dx);
}

// logAlpha is (N, T, 2 * longest target + 1), perhaps rounded up; what is beyond holds no path.
void ctc(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
         IntArrayRef target_lengths, int64_t blank, bool zero_infinity, const Tensor& loss,
         const Tensor& log_alpha) {
    const auto [value, alpha] = at::_ctc_loss(widen(log_probs), targets.to(at::kLong), input_lengths,
                                              target_lengths, blank, zero_infinity);
    // ATen's own _ctc_loss leaves this to its caller, and its gradient looks for the infinity.
    const auto shown = zero_infinity ? at::where(value == std::numeric_limits<double>::infinity(),
                                                 at::zeros_like(value), value)
                                     : value;
    write_flat(loss, shown);
    TORCH_CHECK(log_alpha.dim() == 3 &&
                    log_alpha.numel() / std::max<int64_t>(1, log_alpha.size(2)) ==
                        alpha.numel() / std::max<int64_t>(1, alpha.size(-1)) &&
                    log_alpha.size(2) >= alpha.size(-1),
                "logAlphaOut has shape ", log_alpha.sizes(), ", the result has ", alpha.sizes());
    log_alpha.fill_(-std::numeric_limits<double>::infinity());
    auto front = log_alpha.narrow(2, 0, alpha.size(-1));
    front.copy_(alpha.reshape(front.sizes()));
}

// Where no alignment exists (the loss was infinite before zeroInfinity made it zero): no path ends at the
// last place.
Tensor without_path(const Tensor& alpha, IntArrayRef input_lengths, IntArrayRef target_lengths) {
    const auto batch = alpha.size(0);
    auto none = at::zeros({batch}, alpha.options().dtype(at::kBool));
    for (int64_t b = 0; b < batch; ++b) {
        if (input_lengths[b] == 0) {
            none[b].fill_(target_lengths[b] > 0);
            continue;
        }
        const auto last = alpha[b][input_lengths[b] - 1];
        const auto states = 2 * target_lengths[b] + 1;
        const auto ends = last.narrow(0, std::max<int64_t>(0, states - 2), std::min<int64_t>(2, states));
        none[b].copy_(at::isneginf(ends).all());
    }
    return none;
}

void ctc_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                  IntArrayRef input_lengths, IntArrayRef target_lengths, const Tensor& loss,
                  const Tensor& log_alpha, int64_t blank, bool zero_infinity, const Tensor& out) {
    const auto input = widen(log_probs);
    const auto type = input.scalar_type();
    int64_t longest = 0;
    for (const auto length : target_lengths) longest = std::max(longest, length);
    auto alpha = log_alpha.to(type).narrow(2, 0, 2 * longest + 1).contiguous();
    auto value = loss.to(type).reshape({-1}), up = grad.to(type);
    if (zero_infinity) {
        value = value.masked_fill(without_path(alpha, input_lengths, target_lengths),
                                  std::numeric_limits<double>::infinity());
    }
    if (input.dim() == 2) {
        alpha = alpha.squeeze(0);
        value = value.reshape({});
        up = up.reshape({});
    }
    write(out, at::_ctc_loss_backward(up, input, targets.to(at::kLong), input_lengths, target_lengths, value,
                                      alpha, blank, zero_infinity));
}

const Table table{
    {"aclnnNLLLoss", [](const Tensor& self, const Tensor& target, Optional weight, int64_t reduction,
                        int64_t ignore, const Tensor& out,
                        const Tensor& total) { nll(self, target, weight, reduction, ignore, out, total); }},
    {"aclnnNLLLoss2d", [](const Tensor& self, const Tensor& target, Optional weight, int64_t reduction,
                          int64_t ignore, const Tensor& out,
                          const Tensor& total) { nll(self, target, weight, reduction, ignore, out, total); }},
    {"aclnnNLLLossBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& target, Optional weight, int64_t reduction,
        int64_t ignore, const Tensor& total,
        const Tensor& out) { nll_backward(grad, self, target, weight, reduction, ignore, total, out); }},
    {"aclnnNLLLoss2dBackward",
     [](const Tensor& grad, const Tensor& self, const Tensor& target, Optional weight, int64_t reduction,
        int64_t ignore, const Tensor& total,
        const Tensor& out) { nll_backward(grad, self, target, weight, reduction, ignore, total, out); }},
    {"aclnnCrossEntropyLoss",
     [](const Tensor& input, const Tensor& target, Optional weight, const std::string& reduction,
        int64_t ignore, double smoothing, double z_scale, bool return_z, const Tensor& loss,
        const Tensor& log_prob, Optional /*zloss*/, Optional /*lse*/) {
         check_no_z_loss(z_scale, return_z);
         cross_entropy(input, target, weight, reduction, ignore, smoothing, loss, log_prob);
     }},
    {"aclnnCrossEntropyLossGrad",
     [](const Tensor& grad, const Tensor& log_prob, const Tensor& target, Optional weight,
        Optional /*gradZloss*/, Optional /*lse*/, const std::string& reduction, int64_t ignore,
        double smoothing, double z_scale, const Tensor& out) {
         check_no_z_loss(z_scale, false);
         cross_entropy_grad(grad, log_prob, target, weight, reduction, ignore, smoothing, out);
     }},
    {"aclnnCtcLoss",
     [](const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths,
        int64_t blank, bool zero_infinity, const Tensor& loss, const Tensor& log_alpha) {
         ctc(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, loss, log_alpha);
     }},
    {"aclnnCtcLossBackward",
     [](const Tensor& grad, const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
        IntArrayRef target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
        bool zero_infinity, const Tensor& out) {
         ctc_backward(grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, blank,
                      zero_infinity, out);
     }},
};

}  // namespace
}  // namespace npu::emulator
