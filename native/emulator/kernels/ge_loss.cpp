// GE's losses, with their gradients. GE names the reduction where aclnn numbers it.
#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;
using Text = const std::optional<std::string>&;

int64_t number_of(Text given) {
    const auto name = given.value_or("mean");
    static constexpr const char* names[] = {"none", "mean", "sum"};
    const auto number = std::ranges::find(names, name) - std::begin(names);
    TORCH_CHECK(number < 3, "reduction is ", name, "; known are none, mean and sum");
    return number;
}

// The shape that GE gives to a loss over everything is () or (1,).
void into(const Tensor& out, int64_t reduction, const std::function<void(const Tensor&)>& compute) {
    compute(reduction == 0 || out.dim() == 0 ? out : out.view({}));
}

// loss(predict, target) of an aclnn row (self, target, reduction, out).
Entry loss(const char* type, const char* aclnn) {
    return {Ge{type, {"reduction"}},
            [aclnn](const Tensor& predict, const Tensor& target, Text reduction, const Tensor& y) {
                const auto number = number_of(reduction);
                into(y, number, [&](const Tensor& out) { call_aclnn(aclnn, predict, target, number, out); });
            }};
}

// labels: the number of the class of each row.
void sparse_softmax(const Tensor& features, const Tensor& labels, const Tensor& value,
                    const Tensor& backprop) {
    const auto log_probability = at::log_softmax(widen(features), -1);
    const auto index = labels.to(at::kLong).unsqueeze(-1);
    write(value, -log_probability.gather(-1, index).squeeze(-1));
    const auto one = at::full(index.sizes(), -1.0, log_probability.options());
    write(backprop, log_probability.exp().scatter_add(-1, index, one));
}

void kl_div(const Tensor& x, const Tensor& target, const std::string& reduction, const Tensor& y) {
    if (reduction != "batchmean") {
        const auto number = number_of(reduction);
        return into(y, number,
                    [&](const Tensor& out) { call_aclnn("aclnnKlDiv", x, target, number, false, out); });
    }
    TORCH_CHECK(x.dim() > 0, "batchmean needs a batch dimension");
    const auto total = at::kl_div(widen(x), widen(target), at::Reduction::Sum, false);
    y.copy_((total / x.size(0)).reshape(y.sizes()));
}

const Table table{
    {Ge{"NLLLoss", {"reduction", "ignore_index"}},
     [](const Tensor& x, const Tensor& target, Optional weight, Text reduction, std::optional<int64_t> ignore,
        const Tensor& y, const Tensor& total) {
         const auto number = number_of(reduction);
         into(y, number, [&](const Tensor& out) {
             call_aclnn("aclnnNLLLoss", x, target, weight, number, ignore.value_or(-100), out, total);
         });
     }},
    {Ge{"NLLLossGrad", {"reduction", "ignore_index"}},
     [](const Tensor& x, const Tensor& grad, const Tensor& target, Optional weight, const Tensor& total,
        Text reduction, std::optional<int64_t> ignore, const Tensor& dx) {
         const auto number = number_of(reduction);
         call_aclnn("aclnnNLLLossBackward", number == 0 ? grad : grad.reshape({}), x, target, weight, number,
                    ignore.value_or(-100), total, dx);
     }},
    {Ge{"SparseSoftmaxCrossEntropyWithLogits"}, sparse_softmax},
    {Ge{"SigmoidCrossEntropyWithLogits"},
     [](const Tensor& predict, const Tensor& target, const Tensor& y) {
         call_aclnn("aclnnBinaryCrossEntropyWithLogits", predict, target, std::nullopt, std::nullopt, 0, y);
     }},
    {Ge{"SigmoidCrossEntropyWithLogitsGrad"},
     [](const Tensor& predict, const Tensor& target, const Tensor& dout, const Tensor& gradient) {
         call_aclnn("aclnnBinaryCrossEntropyWithLogitsBackward", dout, predict, target, std::nullopt,
                    std::nullopt, 0, gradient);
     }},
    {Ge{"SigmoidCrossEntropyWithLogitsV2", {"reduction"}},
     [](const Tensor& predict, const Tensor& target, Optional weight, Optional positive, Text reduction,
        const Tensor& y) {
         const auto number = number_of(reduction);
         into(y, number, [&](const Tensor& out) {
             call_aclnn("aclnnBinaryCrossEntropyWithLogits", predict, target, weight, positive, number, out);
         });
     }},
    {Ge{"SigmoidCrossEntropyWithLogitsGradV2", {"reduction"}},
     [](const Tensor& predict, const Tensor& target, const Tensor& dout, Optional weight, Optional positive,
        Text reduction, const Tensor& gradient) {
         call_aclnn("aclnnBinaryCrossEntropyWithLogitsBackward", dout, predict, target, weight, positive,
                    number_of(reduction), gradient);
     }},
    {Ge{"BinaryCrossEntropy", {"reduction"}},
     [](const Tensor& x, const Tensor& target, Optional weight, Text reduction, const Tensor& y) {
         const auto number = number_of(reduction);
         into(y, number, [&](const Tensor& out) {
             call_aclnn("aclnnBinaryCrossEntropy", x, target, weight, number, out);
         });
     }},
    {Ge{"BinaryCrossEntropyGrad", {"reduction"}},
     [](const Tensor& x, const Tensor& target, const Tensor& grad, Optional weight, Text reduction,
        const Tensor& out) {
         const auto number = number_of(reduction);
         call_aclnn("aclnnBinaryCrossEntropyBackward", number == 0 ? grad : grad.reshape({}), x, target,
                    weight, number, out);
     }},
    loss("MseLoss", "aclnnMseLoss"),
    {Ge{"MseLossGrad", {"reduction"}},
     [](const Tensor& predict, const Tensor& label, const Tensor& dout, Text reduction, const Tensor& y) {
         call_aclnn("aclnnMseLossBackward", dout, predict, label, number_of(reduction), y);
     }},
    {Ge{"SmoothL1LossV2", {"sigma", "reduction"}},
     [](const Tensor& predict, const Tensor& label, std::optional<double> sigma, Text reduction,
        const Tensor& y) {
         const auto number = number_of(reduction);
         into(y, number, [&](const Tensor& out) {
             call_aclnn("aclnnSmoothL1Loss", predict, label, number, sigma.value_or(1), out);
         });
     }},
    {Ge{"SmoothL1LossGradV2", {"sigma", "reduction"}},
     [](const Tensor& predict, const Tensor& label, const Tensor& dout, std::optional<double> sigma,
        Text reduction, const Tensor& gradient) {
         call_aclnn("aclnnSmoothL1LossBackward", dout, predict, label, number_of(reduction),
                    sigma.value_or(1), gradient);
     }},
    loss("SoftMarginLoss", "aclnnSoftMarginLoss"),
    {Ge{"KLDiv", {"reduction"}}, kl_div},
};

}  // namespace
}  // namespace npu::emulator
