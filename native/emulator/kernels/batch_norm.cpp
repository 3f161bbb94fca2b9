// Batch normalisation over all dimensions but the second, and the pieces of which the synchronised one is
// made.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

std::vector<int64_t> reduced_dims(const Tensor& input) {
    std::vector<int64_t> dims;
    for (int64_t dim = 0; dim < input.dim(); ++dim) {
        if (dim != 1) dims.push_back(dim);
    }
    return dims;
}

// A value per channel, so that it broadcasts against the input.
Tensor per_channel(const Tensor& value, const Tensor& input) {
    std::vector<int64_t> shape(input.dim(), 1);
    shape[1] = -1;
    return value.to(wide_type(input.scalar_type())).reshape(shape);
}

Tensor statistic(Optional value, const Tensor& input, double otherwise) {
    const auto type = wide_type(input.scalar_type());
    return value ? value->to(type) : at::full({input.size(1)}, otherwise, input.options().dtype(type));
}

void batch_norm(const Tensor& input, Optional weight, Optional bias, Optional running_mean,
                Optional running_var, bool training, double momentum, double eps, const Tensor& output,
                Optional mean, Optional invstd) {
    // As in layer_norm.cpp: float weights make ATen keep float statistics.
    const auto gain = statistic(weight, input, 1), offset = statistic(bias, input, 0);
    const auto type = gain.scalar_type();
    auto mean_so_far = to_type(running_mean, type), var_so_far = to_type(running_var, type);
    TORCH_CHECK(training || (mean_so_far && var_so_far),
                "training is false, but runningMean or runningVar is null");
    const auto [y, m, r] =
        at::native_batch_norm(input, gain, offset, mean_so_far, var_so_far, training, momentum, eps);
    write(output, y);
    if (training) {
        if (running_mean && !running_mean->is_same(*mean_so_far)) running_mean->copy_(*mean_so_far);
        if (running_var && !running_var->is_same(*var_so_far)) running_var->copy_(*var_so_far);
    }
    if (mean && mean->numel() > 0) write(*mean, training ? m : *mean_so_far);
    if (invstd && invstd->numel() > 0) write(*invstd, training ? r : at::rsqrt(*var_so_far + eps));
}

void batch_norm_backward(const Tensor& grad, const Tensor& input, Optional weight, Optional running_mean,
                         Optional running_var, Optional mean, Optional invstd, bool training, double eps,
                         const BoolList& mask, Optional dx, Optional dw, Optional db) {
    TORCH_CHECK(mask.size() == 3, "outputMask has ", mask.size(), " flags, three are needed");
    const auto gain = statistic(weight, input, 1);
    const auto type = gain.scalar_type();
    const auto [gx, gw, gb] = at::native_batch_norm_backward(
        grad.to(input.scalar_type()), input, gain, to_type(running_mean, type), to_type(running_var, type),
        to_type(mean, type), to_type(invstd, type), training, eps, {mask[0], mask[1], mask[2]});
    const auto put = [](bool asked, Optional out, const Tensor& value, const char* name) {
        if (!asked) return;
        TORCH_CHECK(out, "outputMask asks for ", name, ", but it is null");
        write(*out, value);
    };
    put(mask[0], dx, gx, "gradInput");
    put(mask[1], dw, gw, "gradWeight");
    put(mask[2], db, gb, "gradBias");
}

void update(Optional running, double momentum, const Tensor& batch) {
    if (running) running->copy_(running->to(batch.scalar_type()) * (1 - momentum) + batch * momentum);
}

// mean, invstd (ranks, C); counts (ranks): one batch out of what every rank saw.
void gather_stats(const Tensor& mean, const Tensor& invstd, Optional running_mean, Optional running_var,
                  double momentum, double eps, const Tensor& counts, const Tensor& mean_all,
                  const Tensor& invstd_all) {
    const auto n = counts.to(at::kDouble).reshape({-1, 1});
    const auto total = n.sum();
    const auto means = mean.to(at::kDouble);
    const auto average = (means * n).sum(0) / total;
    const auto variances = invstd.to(at::kDouble).pow(-2) - eps;
    const auto squares = ((variances + (means - average).square()) * n).sum(0);
    update(running_mean, momentum, average);
    update(running_var, momentum, squares / (total - 1));
    write(mean_all, average);
    write(invstd_all, at::rsqrt(squares / total + eps));
}

void sync_gather_stats(const Tensor& sum, const Tensor& square_sum, const Tensor& counts,
                       const Tensor& running_mean, const Tensor& running_var, double momentum, double eps,
                       const Tensor& batch_mean, const Tensor& batch_invstd) {
    const auto total = counts.to(at::kDouble).sum();
    const auto mean = sum.to(at::kDouble).sum(0) / total;
    const auto variance = square_sum.to(at::kDouble).sum(0) / total - mean.square();
    update(running_mean, momentum, mean);
    update(running_var, momentum, variance * (total / (total - 1)));
    write(batch_mean, mean);
    write(batch_invstd, at::rsqrt(variance + eps));
}

const Table table{
    {"aclnnBatchNorm",
     [](const Tensor& input, Optional weight, Optional bias, Optional running_mean, Optional running_var,
        bool training, double momentum, double eps, const Tensor& output, Optional mean, Optional invstd) {
         batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, output, mean,
                    invstd);
     }},
    {"aclnnBatchNormBackward",
     [](const Tensor& grad, const Tensor& input, Optional weight, Optional running_mean, Optional running_var,
        Optional mean, Optional invstd, bool training, double eps, const BoolList& mask, Optional dx,
        Optional dw, Optional db) {
         batch_norm_backward(grad, input, weight, running_mean, running_var, mean, invstd, training, eps,
                             mask, dx, dw, db);
     }},
    {"aclnnBatchNormStats",
     [](const Tensor& input, double eps, const Tensor& mean, const Tensor& invstd) {
         const auto [variance, average] = at::var_mean(widen(input), reduced_dims(input), /*unbiased=*/false);
         write(mean, average);
         write(invstd, at::rsqrt(variance + eps));
     }},
    // eps is already in invstd.
    {"aclnnBatchNormElemt",
     [](const Tensor& input, Optional weight, Optional bias, const Tensor& mean, const Tensor& invstd, double,
        const Tensor& output) {
         auto y = (widen(input) - per_channel(mean, input)) * per_channel(invstd, input);
         if (weight) y = y * per_channel(*weight, input);
         if (bias) y = y + per_channel(*bias, input);
         write(output, y);
     }},
    {"aclnnBatchNormElemtBackward",
     [](const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& invstd, Optional weight,
        const Tensor& sum_dy, const Tensor& sum_dy_xmu, const Tensor& counts, const Tensor& out) {
         const auto total = counts.to(wide_type(input.scalar_type())).sum();
         const auto scale = per_channel(invstd, input);
         auto dx = widen(grad) - per_channel(sum_dy, input) / total -
                   (widen(input) - per_channel(mean, input)) *
                       (scale.square() * per_channel(sum_dy_xmu, input) / total);
         dx = dx * scale;
         write(out, weight ? dx * per_channel(*weight, input) : dx);
     }},
    {"aclnnBatchNormReduce",
     [](const Tensor& x, const Tensor& sum, const Tensor& square_sum) {
         const auto wide = widen(x);
         write(sum, wide.sum(reduced_dims(x)));
         write(square_sum, wide.square().sum(reduced_dims(x)));
     }},
    {"aclnnBatchNormReduceBackward",
     [](const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& invstd,
        Optional /*weight*/, bool input_g, bool weight_g, bool bias_g, Optional sum_dy, Optional sum_dy_xmu,
        Optional grad_weight, Optional grad_bias) {
         const auto dims = reduced_dims(input);
         const auto dy = widen(grad), sum = dy.sum(dims);
         const auto sum_xmu = (dy * (widen(input) - per_channel(mean, input))).sum(dims);
         TORCH_CHECK(!input_g || (sum_dy && sum_dy_xmu), "inputG is true, but sumDy or sumDyXmu is null");
         TORCH_CHECK(!weight_g || grad_weight, "weightG is true, but gradWeight is null");
         TORCH_CHECK(!bias_g || grad_bias, "biasG is true, but gradBias is null");
         if (input_g) {
             write(*sum_dy, sum);
             write(*sum_dy_xmu, sum_xmu);
         }
         if (weight_g) write(*grad_weight, sum_xmu * invstd.to(sum_xmu.scalar_type()));
         if (bias_g) write(*grad_bias, sum);
     }},
    {"aclnnBatchNormGatherStatsWithCounts",
     [](const Tensor& /*input*/, const Tensor& mean, const Tensor& invstd, Optional running_mean,
        Optional running_var, double momentum, double eps, const Tensor& counts, const Tensor& mean_all,
        const Tensor& invstd_all) {
         gather_stats(mean, invstd, running_mean, running_var, momentum, eps, counts, mean_all, invstd_all);
     }},
    {"aclnnSyncBatchNormGatherStats",
     [](const Tensor& sum, const Tensor& square_sum, const Tensor& counts, const Tensor& running_mean,
        const Tensor& running_var, double momentum, double eps, const Tensor& batch_mean,
        const Tensor& batch_invstd) {
         sync_gather_stats(sum, square_sum, counts, running_mean, running_var, momentum, eps, batch_mean,
                           batch_invstd);
     }},
};

}  // namespace
}  // namespace npu::emulator
