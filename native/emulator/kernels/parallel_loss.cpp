// Cross entropy over a vocabulary that is spread over devices: the pieces each device computes between the
// reductions. input (tokens, hidden), weight (part of the vocabulary, hidden).
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

// Bits, the first token in the highest one; places beyond the last token are set.
Tensor pack_bits(const Tensor& flags) {
    const auto n = flags.size(0);
    const auto bits = at::constant_pad_nd(flags.to(at::kLong), {0, (8 - n % 8) % 8}, 1).view({-1, 8});
    const auto weights = at::tensor({128, 64, 32, 16, 8, 4, 2, 1}, at::kLong);
    return (bits * weights).sum(1).to(at::kByte);
}

Tensor unpack_bits(const Tensor& bytes, int64_t n) {
    const auto shifts = at::tensor({7, 6, 5, 4, 3, 2, 1, 0}, at::kLong);
    const auto bits =
        at::bitwise_right_shift(bytes.to(at::kLong).reshape({-1, 1}), shifts).remainder(2).reshape({-1});
    return bits.narrow(0, 0, n).to(at::kBool);
}

void online_max_sum(const Tensor& input, const Tensor& weight, const Tensor& target, int64_t first,
                    int64_t last, const Tensor& max, const Tensor& sum, const Tensor& predicted,
                    const Tensor& mask, const Tensor& masked_target, Optional logits_out) {
    const auto logits = at::mm(widen(input), widen(weight).t());
    // What the caller keeps, in the output's precision, is what later pieces will read.
    if (logits_out) write(*logits_out, logits);
    const auto largest = logits.amax(-1);
    const auto below = logits - largest.unsqueeze(1);
    const auto outside = target.lt(first).logical_or(target.gt(last));
    const auto here = at::where(outside, at::zeros_like(target), target - first);
    const auto own = below.gather(1, here.to(at::kLong).unsqueeze(1)).squeeze(1);
    write(max, largest);
    write(sum, below.exp().sum(-1));
    write(predicted, own.masked_fill(outside, 0));
    write(masked_target, here);
    write(mask, pack_bits(outside));
}

void loss_of_max_sum(const Tensor& max, const Tensor& sum, const Tensor& predicted, double smoothing,
                     Optional logits, const Tensor& loss, Optional softmax) {
    TORCH_CHECK(smoothing == 0, "labelSmoothing is ", smoothing, ": only 0 is supported");
    write(loss, sum.log() - predicted);
    if (!softmax || softmax->numel() == 0) return;
    TORCH_CHECK(logits, "softMaxOutOptional is asked for, but vocabParallelLogitsOptional is null");
    write(*softmax, (widen(*logits) - max.unsqueeze(-1)).exp() / sum.unsqueeze(-1));
}

void linear_loss_grad(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mask,
                      const Tensor& masked_target, double smoothing, Optional max, Optional sum,
                      Optional softmax, const Tensor& dinput, const Tensor& dweight) {
    TORCH_CHECK(smoothing == 0, "labelSmoothing is ", smoothing, ": only 0 is supported");
    const auto x = widen(input), w = widen(weight);
    const auto type = x.scalar_type();
    const auto tokens = input.size(0);
    const bool kept = softmax && softmax->numel() > 0;
    TORCH_CHECK(kept || (max && sum),
                "without softmaxOptional, logitsMaxOptional and sumExpLogitsOptional are needed");
    auto slope = kept ? softmax->to(type).clone()
                      : (at::mm(x, w.t()) - max->to(type).unsqueeze(-1)).exp() / sum->to(type).unsqueeze(-1);
    const auto outside =
        mask.scalar_type() == at::kByte ? unpack_bits(mask, tokens) : mask.reshape({-1}).to(at::kBool);
    slope.scatter_add_(1, masked_target.to(at::kLong).reshape({-1, 1}),
                       -outside.logical_not().to(type).unsqueeze(1));
    slope = slope * grad.to(type).reshape({-1, 1});
    write(dinput, at::mm(slope, w));
    write(dweight, at::mm(slope.t(), x));
}

const Table table{
    {"aclnnFusedLinearOnlineMaxSum",
     [](const Tensor& input, const Tensor& weight, const Tensor& target, int64_t first, int64_t last,
        const Tensor& max, const Tensor& sum, const Tensor& predicted, const Tensor& mask,
        const Tensor& masked_target, Optional logits) {
         online_max_sum(input, weight, target, first, last, max, sum, predicted, mask, masked_target, logits);
     }},
    // input and weight only count with label smoothing.
    {"aclnnFusedCrossEntropyLossWithMaxSum",
     [](const Tensor& max, const Tensor& sum, const Tensor& predicted, double smoothing, Optional, Optional,
        Optional logits, const Tensor& loss,
        Optional softmax) { loss_of_max_sum(max, sum, predicted, smoothing, logits, loss, softmax); }},
    {"aclnnFusedLinearCrossEntropyLossGrad",
     [](const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mask,
        const Tensor& masked_target, double smoothing, Optional max, Optional sum, Optional softmax,
        const Tensor& dinput, const Tensor& dweight) {
         linear_loss_grad(grad, input, weight, mask, masked_target, smoothing, max, sum, softmax, dinput,
                          dweight);
     }},
};

}  // namespace
}  // namespace npu::emulator
