// Layer normalisation, plain and after an addition (AddLayerNorm, DeepNorm), with the gradients. Means and
// reciprocal standard deviations are float also for half and bfloat16.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

// ATen keeps float statistics of half and bfloat16 rows exactly when the weights are float: so they always
// are.
Tensor float_weight(const Tensor& input, Optional weight, IntArrayRef shape) {
    const auto type = wide_type(input.scalar_type());
    if (weight) return weight->to(type).reshape(shape);
    return is_narrow(input.scalar_type()) ? at::ones(shape, input.options().dtype(type)) : Tensor();
}

std::optional<Tensor> float_bias(const Tensor& input, Optional bias, IntArrayRef shape) {
    if (!bias) return std::nullopt;
    return bias->to(wide_type(input.scalar_type())).reshape(shape);
}

void write_statistic(Optional out, const Tensor& value) {
    if (!out) return;
    TORCH_CHECK(out->numel() == value.numel(), "a statistic has shape ", out->sizes(), ", the result has ",
                value.sizes());
    out->copy_(value.reshape(out->sizes()));
}

void forward(const Tensor& input, IntArrayRef shape, Optional weight, Optional bias, double eps,
             const Tensor& out, Optional mean, Optional rstd) {
    const auto gain = float_weight(input, weight, shape);
    const auto [y, m, r] =
        at::native_layer_norm(input, shape, gain.defined() ? std::optional<Tensor>(gain) : std::nullopt,
                              float_bias(input, bias, shape), eps);
    write(out, y);
    write_statistic(mean, m);
    write_statistic(rstd, r);
}

void write_asked(bool asked, Optional out, const Tensor& value, const char* name) {
    if (!asked) return;
    TORCH_CHECK(out, "outputMask asks for ", name, ", but it is null");
    TORCH_CHECK(out->numel() == value.numel(), name, " has shape ", out->sizes(), ", the result has ",
                value.sizes());
    out->copy_(value.reshape(out->sizes()));
}

struct Gradients {
    Tensor input, weight, bias;
};

Gradients backward(const Tensor& grad, const Tensor& input, IntArrayRef shape, const Tensor& mean,
                   const Tensor& rstd, Optional weight, Optional bias, std::array<bool, 3> mask) {
    const auto type = wide_type(input.scalar_type());
    auto statistic_shape = input.sizes().vec();
    std::fill(statistic_shape.end() - static_cast<int64_t>(shape.size()), statistic_shape.end(), 1);
    const auto gain = float_weight(input, weight, shape);
    // ATen gives the gradients of weight and bias only where they are.
    const auto some_gain = gain.defined() || !mask[1] ? gain : at::ones(shape, input.options());
    auto offset = float_bias(input, bias, shape);
    if (!offset && mask[2]) offset = at::zeros(shape, input.options().dtype(type));
    auto [dx, dw, db] = at::native_layer_norm_backward(
        grad.to(input.scalar_type()), input, shape, mean.to(type).reshape(statistic_shape),
        rstd.to(type).reshape(statistic_shape),
        some_gain.defined() ? std::optional<Tensor>(some_gain) : std::nullopt, offset, mask);
    return {dx, dw, db};
}

void deep_norm(const Tensor& x, const Tensor& gx, const Tensor& beta, const Tensor& gamma, double alpha,
               double eps, const Tensor& mean, const Tensor& rstd, const Tensor& y) {
    forward(widen(x) * alpha + widen(gx), gamma.sizes(), gamma, beta, eps, y, mean, rstd);
}

const Table table{
    {"aclnnLayerNorm",
     [](const Tensor& input, IntArrayRef shape, Optional weight, Optional bias, double eps, const Tensor& out,
        Optional mean, Optional rstd) { forward(input, shape, weight, bias, eps, out, mean, rstd); }},
    {"aclnnFastLayerNorm",
     [](const Tensor& input, IntArrayRef shape, Optional weight, Optional bias, double eps, const Tensor& out,
        Optional mean, Optional rstd) { forward(input, shape, weight, bias, eps, out, mean, rstd); }},
    // implMode: 0 most precise, 1 fastest, 2 in half precision. The precise one is allowed for all of them.
    {"aclnnLayerNormWithImplMode",
     [](const Tensor& input, IntArrayRef shape, Optional weight, Optional bias, double eps, const Tensor& out,
        Optional mean, Optional rstd, int64_t mode) {
         TORCH_CHECK(mode >= 0 && mode <= 2, "implMode is ", mode, ", it must be 0, 1 or 2");
         forward(input, shape, weight, bias, eps, out, mean, rstd);
     }},
    {"aclnnLayerNormBackward",
     [](const Tensor& grad, const Tensor& input, IntArrayRef shape, const Tensor& mean, const Tensor& rstd,
        Optional weight, Optional bias, const BoolList& mask, Optional dx, Optional dw, Optional db) {
         TORCH_CHECK(mask.size() == 3, "outputMask has ", mask.size(), " flags, three are needed");
         const auto by = backward(grad, input, shape, mean, rstd, weight, bias, {mask[0], mask[1], mask[2]});
         write_asked(mask[0], dx, by.input, "gradInputOut");
         write_asked(mask[1], dw, by.weight, "gradWeightOut");
         write_asked(mask[2], db, by.bias, "gradBiasOut");
     }},
    // x is written also where additionalOutput does not ask for it: the caller has it anyway.
    {"aclnnAddLayerNorm",
     [](const Tensor& x1, const Tensor& x2, const Tensor& gamma, const Tensor& beta, Optional bias,
        double eps, bool additional, const Tensor& y, Optional mean, Optional rstd, Optional x) {
         TORCH_CHECK(x || !additional, "additionalOutput is true, but xOut is null");
         auto sum = widen(x1) + widen(x2);
         if (bias) sum = sum + widen(*bias);
         forward(sum, gamma.sizes(), gamma, beta, eps, y, mean, rstd);
         if (x) write(*x, sum);
     }},
    {"aclnnAddLayerNormGrad",
     [](const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& rstd, const Tensor& mean,
        const Tensor& gamma, Optional dsum, const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) {
         const auto by = backward(dy, widen(x1) + widen(x2), gamma.sizes(), mean, rstd, gamma, std::nullopt,
                                  {true, true, true});
         write(dx, dsum ? by.input + widen(*dsum) : by.input);
         write(dgamma, by.weight);
         write(dbeta, by.bias);
     }},
    {"aclnnDeepNorm", [](const Tensor& x, const Tensor& gx, const Tensor& beta, const Tensor& gamma,
                         double alpha, double eps, const Tensor& mean, const Tensor& rstd,
                         const Tensor& y) { deep_norm(x, gx, beta, gamma, alpha, eps, mean, rstd, y); }},
    {"aclnnDeepNormGrad",
     [](const Tensor& dy, const Tensor& x, const Tensor& gx, const Tensor& gamma, const Tensor& mean,
        const Tensor& rstd, double alpha, const Tensor& dx, const Tensor& dgx, const Tensor& dbeta,
        const Tensor& dgamma) {
         const auto by = backward(dy, widen(x) * alpha + widen(gx), gamma.sizes(), mean, rstd, gamma,
                                  std::nullopt, {true, true, true});
         write(dgx, by.input);
         write(dx, by.input * alpha);
         write(dbeta, by.bias);
         write(dgamma, by.weight);
     }},
};

}  // namespace
}  // namespace npu::emulator
