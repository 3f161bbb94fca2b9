// GE's normalisations: layer, root-mean-square, group and batch. Statistics are float also for half and
// bfloat16, and may have more dimensions of size 1 than here.
#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;
using Flag = std::optional<bool>;
using Number = std::optional<double>;

void write_reshaped(const Tensor& out, const Tensor& value) {
    TORCH_CHECK(out.numel() == value.numel(), "an output has shape ", out.sizes(), ", the result ",
                value.sizes());
    out.copy_(value.reshape(out.sizes()));
}
void hand_on(const Tensor& ref, const Tensor& out) {
    if (ref.const_data_ptr() != out.const_data_ptr()) write_reshaped(out, ref);
}
Tensor statistic(const Tensor& x, IntArrayRef sizes) {
    return at::empty(sizes, x.options().dtype(wide_type(x.scalar_type())));
}

// --- layer and root-mean-square ---

// With the variance where the later versions have 1 / sqrt(variance + epsilon).
void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, std::optional<int64_t> norm_axis,
                std::optional<int64_t> params_axis, Number epsilon, const Tensor& y, const Tensor& mean,
                const Tensor& variance) {
    const auto axis = at::maybe_wrap_dim(norm_axis.value_or(0), x.dim());
    TORCH_CHECK(at::maybe_wrap_dim(params_axis.value_or(0), x.dim()) == axis,
                "begin_params_axis must be begin_norm_axis, got ", params_axis.value_or(0), " and ", axis);
    const auto rstd = statistic(x, mean.sizes());
    call_aclnn("aclnnLayerNorm", x, x.sizes().slice(axis), gamma, beta, epsilon.value_or(1e-7), y, mean,
               rstd);
    std::vector<int64_t> dims;
    for (auto dim = axis; dim < x.dim(); ++dim) dims.push_back(dim);
    write_reshaped(variance, at::var(widen(x), IntArrayRef(dims), Scalar(0), true));
}

void layer_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& mean,
                     const Tensor& gamma, const BoolList& given, const Tensor& dx, const Tensor& dgamma,
                     const Tensor& dbeta) {
    const BoolList mask = given.empty() ? BoolList{true, true, true} : given;
    TORCH_CHECK(mask.size() == 3, "output_mask has ", mask.size(), " flags, three are needed");
    call_aclnn("aclnnLayerNormBackward", dy, x, gamma.sizes(), mean, rstd, gamma, std::nullopt, mask, dx,
               dgamma, dbeta);
    const Tensor* const outputs[] = {&dx, &dgamma, &dbeta};
    for (std::size_t i = 0; i < 3; ++i) {
        if (!mask[i]) outputs[i]->zero_();
    }
}

// --- group ---

// torchair leaves data_format at its default NHWC for tensors (N, C, ...): gamma says where the channels are.
void check_channels(const Tensor& x, const Tensor& gamma) {
    TORCH_CHECK(x.dim() >= 2 && gamma.numel() == x.size(1), "gamma has ", gamma.numel(), " elements, x ",
                x.sizes(), " as many channels in dimension 1 are needed: only NCHW is supported");
}

struct Planes {
    int64_t n, c, hxw;
    explicit Planes(const Tensor& x)
        : n(x.size(0)), c(x.size(1)), hxw(c10::multiply_integers(x.sizes().slice(2))) {}
};

void group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, int64_t groups, double eps,
                const Tensor& y, const Tensor& mean, const Tensor& rstd) {
    check_channels(x, gamma);
    const Planes by(x);
    const auto m = statistic(x, {by.n, groups}), r = statistic(x, {by.n, groups});
    call_aclnn("aclnnGroupNorm", x, gamma, beta, by.n, by.c, by.hxw, groups, eps, y, m, r);
    write_reshaped(mean, m);
    write_reshaped(rstd, r);
}

void group_norm_v1(const Tensor& x, const Tensor& gamma, const Tensor& beta, int64_t groups, Number eps,
                   const Tensor& y, const Tensor& mean, const Tensor& variance) {
    const auto rstd = statistic(x, mean.sizes());
    group_norm(x, gamma, beta, groups, eps.value_or(1e-4), y, mean, rstd);
    write_reshaped(variance, at::var(widen(x).reshape({x.size(0), groups, -1}), IntArrayRef({2}), Scalar(0)));
}

void group_norm_grad(const Tensor& dy, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                     const Tensor& gamma, int64_t groups, Flag want_x, Flag want_gamma, Flag want_beta,
                     const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) {
    check_channels(x, gamma);
    const Planes by(x);
    const BoolList mask{want_x.value_or(true), want_gamma.value_or(true), want_beta.value_or(true)};
    const std::vector<int64_t> sizes{by.n, groups};
    call_aclnn("aclnnGroupNormBackward", dy, x, mean.reshape(sizes), rstd.reshape(sizes), gamma, by.n, by.c,
               by.hxw, groups, mask, dx, dgamma, dbeta);
    const Tensor* const outputs[] = {&dx, &dgamma, &dbeta};
    for (std::size_t i = 0; i < 3; ++i) {
        if (!mask[i]) outputs[i]->zero_();
    }
}

// --- batch: x is (N, C, ...), everything else a value per channel ---

Tensor per_channel(const Tensor& value, const Tensor& x) {
    std::vector<int64_t> shape(x.dim(), 1);
    shape[1] = -1;
    return value.to(wide_type(x.scalar_type())).reshape(shape);
}
std::vector<int64_t> all_but_channels(const Tensor& x) {
    TORCH_CHECK(x.dim() >= 2, "x has shape ", x.sizes(), ", it needs a batch and a channel dimension");
    std::vector<int64_t> dims{0};
    for (int64_t dim = 2; dim < x.dim(); ++dim) dims.push_back(dim);
    return dims;
}
double elements_per_channel(const Tensor& x) {
    return static_cast<double>(x.numel()) / static_cast<double>(std::max<int64_t>(1, x.size(1)));
}
Tensor flat(const Tensor& value) { return value.reshape({-1}); }

void batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                const Tensor& running_var, Number epsilon, Number momentum, Flag training, const Tensor& y,
                const Tensor& new_mean, const Tensor& new_var, const Tensor& mean, const Tensor& rstd) {
    call_aclnn("aclnnBatchNorm", x, weight, bias, running_mean, running_var, training.value_or(true),
               momentum.value_or(0.1), epsilon.value_or(1e-5), y, mean, rstd);
    hand_on(running_mean, new_mean);
    hand_on(running_var, new_var);
}

void batch_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& running_mean,
                     const Tensor& running_var, const Tensor& mean, const Tensor& rstd, Flag training,
                     Number epsilon, const Tensor& dx, const Tensor& dweight, const Tensor& dbias) {
    call_aclnn("aclnnBatchNormBackward", dy, x, weight, running_mean, running_var, mean, rstd,
               training.value_or(true), epsilon.value_or(1e-5), BoolList{true, true, true}, dx, dweight,
               dbias);
}

void infer(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
           const Tensor& variance, double epsilon, const Tensor& y) {
    call_aclnn("aclnnBatchNorm", x, flat(scale), flat(offset), flat(mean), flat(variance), false, 0.0,
               epsilon, y, std::nullopt, std::nullopt);
}

void training_reduce(const Tensor& x, const Tensor& sum, const Tensor& square_sum) {
    const auto dims = all_but_channels(x);
    write_reshaped(sum, widen(x).sum(dims));
    write_reshaped(square_sum, widen(x).square().sum(dims));
}

// The running variance takes the unbiased one of the batch, the output the biased one.
void training_update(const Tensor& x, const Tensor& sum, const Tensor& square_sum, const Tensor& scale,
                     const Tensor& offset, const Tensor& mean, const Tensor& variance, double factor,
                     double epsilon, const Tensor& y, const Tensor& new_mean, const Tensor& new_variance,
                     const Tensor& batch_mean, const Tensor& batch_variance) {
    const auto count = elements_per_channel(x);
    const auto center = flat(sum) / count;
    const auto spread = (flat(square_sum) / count - center.square()).clamp_min(0);
    const auto normal = (widen(x) - per_channel(center, x)) * per_channel(at::rsqrt(spread + epsilon), x);
    write(y, normal * per_channel(scale, x) + per_channel(offset, x));
    const auto unbiased = count > 1 ? spread * (count / (count - 1)) : spread;
    mean.copy_((flat(mean) * (1 - factor) + center * factor).reshape(mean.sizes()));
    variance.copy_((flat(variance) * (1 - factor) + unbiased * factor).reshape(variance.sizes()));
    hand_on(mean, new_mean);
    hand_on(variance, new_variance);
    write_reshaped(batch_mean, center);
    write_reshaped(batch_variance, spread);
}

void update_grad(const Tensor& grads, const Tensor& x, const Tensor& mean, const Tensor& variance,
                 Number epsilon, const Tensor& diff_scale, const Tensor& diff_offset) {
    const auto dims = all_but_channels(x);
    const auto normal = (widen(x) - per_channel(mean, x)) *
                        per_channel(at::rsqrt(widen(variance) + epsilon.value_or(1e-4)), x);
    write_reshaped(diff_scale, (widen(grads) * normal).sum(dims));
    write_reshaped(diff_offset, widen(grads).sum(dims));
}

void reduce_grad(const Tensor& grads, const Tensor& x, const Tensor& diff_scale, const Tensor& diff_offset,
                 const Tensor& scale, const Tensor& mean, const Tensor& variance, Number epsilon,
                 const Tensor& y) {
    const auto count = elements_per_channel(x);
    const auto rstd = per_channel(at::rsqrt(widen(variance) + epsilon.value_or(1e-4)), x);
    const auto normal = (widen(x) - per_channel(mean, x)) * rstd;
    const auto inner =
        widen(grads) - per_channel(diff_offset, x) / count - normal * per_channel(diff_scale, x) / count;
    write(y, inner * per_channel(scale, x) * rstd);
}

const Table table{
    {Ge{"LayerNorm", {"begin_norm_axis", "begin_params_axis", "epsilon"}}, layer_norm},
    {Ge{"LayerNormV4", {"epsilon"}},
     [](const Tensor& x, IntArrayRef shape, Optional gamma, Optional beta, Number epsilon, const Tensor& y,
        const Tensor& mean, const Tensor& rstd) {
         call_aclnn("aclnnLayerNorm", x, shape, gamma, beta, epsilon.value_or(1e-5), y, mean, rstd);
     }},
    {Ge{"LayerNormGradV3", {"output_mask"}}, layer_norm_grad},
    {Ge{"RmsNorm", {"epsilon"}},
     [](const Tensor& x, const Tensor& gamma, Number epsilon, const Tensor& y, const Tensor& rstd) {
         call_aclnn("aclnnRmsNorm", x, gamma, epsilon.value_or(1e-6), y, rstd);
     }},
    {Ge{"RmsNormGrad"},
     [](const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& gamma, const Tensor& dx,
        const Tensor& dgamma) { call_aclnn("aclnnRmsNormGrad", dy, x, rstd, gamma, dx, dgamma); }},
    {Ge{"AddRmsNorm", {"epsilon"}},
     [](const Tensor& x1, const Tensor& x2, const Tensor& gamma, Number epsilon, const Tensor& y,
        const Tensor& rstd, const Tensor& x) {
         call_aclnn("aclnnAddRmsNorm", x1, x2, gamma, epsilon.value_or(1e-6), y, rstd, x);
     }},
    {Ge{"AddRmsNormCast", {"epsilon"}},
     [](const Tensor& x1, const Tensor& x2, const Tensor& gamma, Number epsilon, const Tensor& y1,
        const Tensor& y2, const Tensor& rstd, const Tensor& x) {
         call_aclnn("aclnnAddRmsNormCast", x1, x2, gamma, epsilon.value_or(1e-6), y1, y2, rstd, x);
     }},
    {Ge{"GroupNorm", {"num_groups", "eps", "data_format?=NCHW", "is_training?=true"}}, group_norm_v1},
    {Ge{"GroupNormV2", {"num_groups", "eps", "data_format?=NCHW|NHWC", "is_training?=true"}},
     [](const Tensor& x, const Tensor& gamma, const Tensor& beta, int64_t groups, Number eps, const Tensor& y,
        const Tensor& mean,
        const Tensor& rstd) { group_norm(x, gamma, beta, groups, eps.value_or(1e-5), y, mean, rstd); }},
    {Ge{"GroupNormGrad",
        {"num_groups", "dx_is_require", "dgamma_is_require", "dbeta_is_require", "data_format?=NCHW"}},
     group_norm_grad},
    {Ge{"GroupNormSilu", {"num_groups", "eps", "activate_silu?=true"}},
     [](const Tensor& x, Optional gamma, Optional beta, int64_t groups, Number eps, const Tensor& y,
        const Tensor& mean, const Tensor& rstd) {
         call_aclnn("aclnnGroupNormSilu", x, gamma, beta, groups, eps.value_or(1e-5), y, mean, rstd);
     }},
    {Ge{"BatchNormV3", {"epsilon", "momentum", "is_training"}}, batch_norm},
    {Ge{"BatchNormGradV3", {"is_training", "epsilon"}}, batch_norm_grad},
    {Ge{"BNInfer", {"epsilon"}}, infer},
    {Ge{"BNInferGrad", {"epsilon"}},
     [](const Tensor& grads, const Tensor& scale, const Tensor& variance, Number epsilon, const Tensor& y) {
         const auto slope = widen(scale) * at::rsqrt(widen(variance) + epsilon.value_or(1e-4));
         write(y, widen(grads) * per_channel(slope, grads));
     }},
    {Ge{"BNTrainingReduce"}, training_reduce},
    {Ge{"BNTrainingUpdate", {"factor", "epsilon"}}, training_update},
    {Ge{"BNTrainingUpdateGrad", {"epsilon"}}, update_grad},
    {Ge{"BN3DTrainingUpdateGrad", {"epsilon"}}, update_grad},
    {Ge{"BNTrainingReduceGrad", {"epsilon"}}, reduce_grad},
};

}  // namespace
}  // namespace npu::emulator
