// Optimizer steps in one pass over the parameters, and the loss scaler's bookkeeping.
#include <ATen/Parallel.h>

#include <cmath>

#include "kernels/rows.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

// A state tensor as contiguous floats (its own memory where it is that), written back when done.
class State {
  public:
    explicit State(const Tensor& tensor) : tensor_(tensor), floats_(tensor.to(at::kFloat).contiguous()) {}
    float* data() const { return floats_.data_ptr<float>(); }
    void save() const { store(tensor_, floats_); }

  private:
    Tensor tensor_, floats_;
};

void check_same(const Tensor& param, const Tensor& other, const char* name) {
    TORCH_CHECK(other.sizes() == param.sizes(), name, " has shape ", other.sizes(), ", the parameter ",
                param.sizes());
}

// Decoupled weight decay, bias-corrected moments; with max_v the largest second moment so far is the one
// divided by.
void adamw(const Tensor& param, const Tensor& m, const Tensor& v, Optional max_v, const Tensor& grad,
           double step, double lr, double beta1, double beta2, double weight_decay, double eps,
           bool maximize) {
    check_same(param, m, "m");
    check_same(param, v, "v");
    check_same(param, grad, "grad");
    if (max_v) check_same(param, *max_v, "maxGradNorm");
    TORCH_CHECK(param.scalar_type() != at::kDouble,
                "the parameter is float64: only float16, bfloat16 and float32 are");
    const State params(param), means(m), squares(v);
    const std::optional<State> largest = max_v ? std::optional<State>(*max_v) : std::nullopt;
    const auto gradient = grad.to(at::kFloat).contiguous();
    const rows::AdamW by{static_cast<float>(1 - lr * weight_decay),
                         static_cast<float>(beta1),
                         static_cast<float>(beta2),
                         static_cast<float>(lr / (1 - std::pow(beta1, step))),
                         static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step))),
                         static_cast<float>(eps),
                         maximize};
    float* const p = params.data();
    float* const mean = means.data();
    float* const square = squares.data();
    float* const most = largest ? largest->data() : nullptr;
    const float* const g = gradient.const_data_ptr<float>();
    at::parallel_for(0, param.numel(), 16384, [&](int64_t begin, int64_t end) {
        rows::adamw(p + begin, mean + begin, square + begin, most ? most + begin : nullptr, g + begin, by,
                    end - begin);
    });
    params.save();
    means.save();
    squares.save();
    if (largest) largest->save();
}

double number(const Tensor& tensor, const char* name) {
    TORCH_CHECK(tensor.numel() == 1, name, " has ", tensor.numel(), " elements, one is needed");
    return tensor.to(at::kDouble).item<double>();
}

// The form with tensors for numbers. The powers are those of the step before; with amsgrad, v itself keeps
// the largest second moment.
void adamw_by_tensors(const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& beta1_power,
                      const Tensor& beta2_power, const Tensor& lr, const Tensor& weight_decay,
                      const Tensor& beta1, const Tensor& beta2, const Tensor& eps, const Tensor& grad,
                      Optional max_grad_norm, bool amsgrad, bool maximize) {
    TORCH_CHECK(!amsgrad || max_grad_norm, "amsgrad is true, but maxGradNormOptional is null");
    const auto b1 = number(beta1, "beta1"), b2 = number(beta2, "beta2"), rate = number(lr, "lr");
    const auto correction1 = 1 - number(beta1_power, "beta1Power") * b1;
    const auto correction2 = 1 - number(beta2_power, "beta2Power") * b2;
    const auto gradient = maximize ? -widen(grad) : widen(grad);
    const auto mean = widen(m) * b1 + gradient * (1 - b1);
    auto square = widen(v) * b2 + gradient.square() * (1 - b2);
    if (amsgrad) square = at::maximum(square, widen(*max_grad_norm));
    const auto denominator = (square / correction2).sqrt() + number(eps, "eps");
    write(var, widen(var) * (1 - rate * number(weight_decay, "weightDecay")) -
                   mean / correction1 / denominator * rate);
    write(m, mean);
    write(v, square);
}

// The powers are those of this step.
void adam(const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& beta1_power,
          const Tensor& beta2_power, const Tensor& lr, const Tensor& beta1, const Tensor& beta2,
          const Tensor& eps, const Tensor& grad, bool nesterov) {
    const auto b1 = number(beta1, "beta1"), b2 = number(beta2, "beta2");
    const auto rate = number(lr, "lr") * std::sqrt(1 - number(beta2_power, "beta2Power")) /
                      (1 - number(beta1_power, "beta1Power"));
    const auto gradient = widen(grad);
    const auto mean = widen(m) * b1 + gradient * (1 - b1);
    const auto square = widen(v) * b2 + gradient.square() * (1 - b2);
    const auto direction = nesterov ? mean * b1 + gradient * (1 - b1) : mean;
    write(var, widen(var) - direction / (square.sqrt() + number(eps, "epsilon")) * rate);
    write(m, mean);
    write(v, square);
}

void sgd(const std::vector<Tensor>& params, const std::vector<Tensor>& grads,
         const std::vector<Tensor>& buffers, Optional grad_scale, double weight_decay, double momentum,
         double lr, double dampening, bool nesterov, bool maximize, bool first) {
    TORCH_CHECK(params.size() == grads.size() && (buffers.empty() || buffers.size() == params.size()),
                "there are ", params.size(), " parameters, ", grads.size(), " gradients and ", buffers.size(),
                " momentum buffers");
    for (std::size_t i = 0; i < params.size(); ++i) {
        auto gradient = widen(grads[i]);
        if (grad_scale && grad_scale->numel() > 0) {
            gradient = gradient / number(*grad_scale, "gradScale");
            write(grads[i], gradient);
        }
        if (maximize) gradient = -gradient;
        const auto param = widen(params[i]);
        if (weight_decay != 0) gradient = gradient + param * weight_decay;
        if (!buffers.empty() && momentum != 0) {
            const auto velocity =
                first ? gradient : widen(buffers[i]) * momentum + gradient * (1 - dampening);
            write(buffers[i], velocity);
            gradient = nesterov ? gradient + velocity * momentum : velocity;
        }
        write(params[i], param - gradient * lr);
    }
}

const Table table{
    // step is the number of steps taken before this one.
    {"aclnnApplyAdamWV2",
     [](const Tensor& var, const Tensor& m, const Tensor& v, Optional max_grad_norm, const Tensor& grad,
        const Tensor& step, double lr, double beta1, double beta2, double weight_decay, double eps,
        bool amsgrad, bool maximize) {
         TORCH_CHECK(!amsgrad || max_grad_norm, "amsgrad is true, but maxGradNormOptionalRef is null");
         adamw(var, m, v, amsgrad ? max_grad_norm : std::nullopt, grad, number(step, "step") + 1, lr, beta1,
               beta2, weight_decay, eps, maximize);
     }},
    {"aclnnApplyAdamW",
     [](const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& beta1_power,
        const Tensor& beta2_power, const Tensor& lr, const Tensor& weight_decay, const Tensor& beta1,
        const Tensor& beta2, const Tensor& eps, const Tensor& grad, Optional max_grad_norm, bool amsgrad,
        bool maximize) {
         adamw_by_tensors(var, m, v, beta1_power, beta2_power, lr, weight_decay, beta1, beta2, eps, grad,
                          max_grad_norm, amsgrad, maximize);
     }},
    // Streams run one operator after the other: there is nothing to lock.
    {"aclnnApplyAdam",
     [](const Tensor& var, const Tensor& m, const Tensor& v, const Tensor& beta1_power,
        const Tensor& beta2_power, const Tensor& lr, const Tensor& beta1, const Tensor& beta2,
        const Tensor& eps, const Tensor& grad, bool /*useLocking*/,
        bool nesterov) { adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, eps, grad, nesterov); }},
    {"aclnnFusedSgd",
     [](const std::vector<Tensor>& params, const std::vector<Tensor>& grads,
        const std::vector<Tensor>& buffers, Optional grad_scale, double weight_decay, double momentum,
        double lr, double dampening, bool nesterov, bool maximize, bool first) {
         sgd(params, grads, buffers, grad_scale, weight_decay, momentum, lr, dampening, nesterov, maximize,
             first);
     }},
    // The scale shrinks after an overflow and grows after growthInterval steps without one.
    {"aclnnAmpUpdateScale",
     [](const Tensor& scale, const Tensor& tracker, const Tensor& found_inf, double growth, double backoff,
        int64_t interval, const Tensor& new_scale, const Tensor& new_tracker) {
         const auto before = number(scale, "currentScale");
         const auto steps = static_cast<int64_t>(number(tracker, "growthTracker"));
         if (number(found_inf, "foundInf") != 0) {
             new_scale.fill_(before * backoff);
             new_tracker.fill_(0);
             return;
         }
         const bool grow = steps + 1 == interval;
         const auto grown = static_cast<float>(before * growth);
         new_scale.fill_(grow && std::isfinite(grown) ? before * growth : before);
         new_tracker.fill_(grow ? 0 : steps + 1);
     }},
};

}  // namespace
}  // namespace npu::emulator
