// Group normalisation of (N, C, ...), alone and followed by Swish or SiLU. mean and rstd are (N, groups).
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Optional = const std::optional<Tensor>&;

struct Shape {
    int64_t n, c, hxw, groups;

    static Shape of(const Tensor& x, int64_t groups) {
        TORCH_CHECK(x.dim() >= 2, "the input has shape ", x.sizes(),
                    ", it needs a batch and a channel dimension");
        const auto plane = x.size(0) * x.size(1);
        return {x.size(0), x.size(1), plane == 0 ? 1 : x.numel() / plane, groups};
    }
};

struct Result {
    Tensor y, mean, rstd;
};

// ATen reads weights as if they were contiguous.
std::optional<Tensor> per_channel(Optional weight, ScalarType type) {
    return weight ? std::optional<Tensor>(weight->to(type).contiguous()) : std::nullopt;
}

Result forward(const Tensor& x, Optional gamma, Optional beta, const Shape& by, double eps) {
    const auto input = widen(x).contiguous();
    const auto type = input.scalar_type();
    auto [y, mean, rstd] = at::native_group_norm(input, per_channel(gamma, type), per_channel(beta, type),
                                                 by.n, by.c, by.hxw, by.groups, eps);
    return {y, mean, rstd};
}

struct Gradients {
    Tensor input, weight, bias;
};

Gradients backward(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, Optional gamma,
                   const Shape& by, std::array<bool, 3> mask) {
    const auto input = widen(x).contiguous();
    const auto type = input.scalar_type();
    auto [dx, dgamma, dbeta] = at::native_group_norm_backward(
        dy.to(type).contiguous(), input, mean.to(type).contiguous(), rstd.to(type).contiguous(),
        per_channel(gamma, type), by.n, by.c, by.hxw, by.groups, mask);
    return {dx, dgamma, dbeta};
}

void write_asked(bool asked, Optional out, const Tensor& value, const char* name) {
    if (!asked) return;
    TORCH_CHECK(out, name, " is asked for, but it is null");
    write(*out, value);
}

void check_format(const std::string& format) {
    TORCH_CHECK(format.empty() || format == "NCHW", "dataFormat is ", format, ", only NCHW is supported");
}

const Table table{
    {"aclnnGroupNorm",
     [](const Tensor& self, Optional gamma, Optional beta, int64_t n, int64_t c, int64_t hxw, int64_t groups,
        double eps, const Tensor& out, const Tensor& mean, const Tensor& rstd) {
         const auto by = forward(self, gamma, beta, {n, c, hxw, groups}, eps);
         write(out, by.y);
         write(mean, by.mean);
         write(rstd, by.rstd);
     }},
    {"aclnnGroupNormBackward",
     [](const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& rstd, Optional gamma,
        int64_t n, int64_t c, int64_t hxw, int64_t groups, const BoolList& mask, Optional dx, Optional dgamma,
        Optional dbeta) {
         TORCH_CHECK(mask.size() == 3, "outputMask has ", mask.size(), " flags, three are needed");
         const auto by =
             backward(grad, input, mean, rstd, gamma, {n, c, hxw, groups}, {mask[0], mask[1], mask[2]});
         write_asked(mask[0], dx, by.input, "gradInput");
         write_asked(mask[1], dgamma, by.weight, "gradGammaOut");
         write_asked(mask[2], dbeta, by.bias, "gradBetaOut");
     }},
    {"aclnnGroupNormSilu",
     [](const Tensor& self, Optional gamma, Optional beta, int64_t groups, double eps, const Tensor& out,
        const Tensor& mean, const Tensor& rstd) {
         const auto by = forward(self, gamma, beta, Shape::of(self, groups), eps);
         write(out, at::silu(by.y));
         write(mean, by.mean);
         write(rstd, by.rstd);
     }},
    {"aclnnGroupNormSwish",
     [](const Tensor& x, Optional gamma, Optional beta, int64_t groups, const std::string& format, double eps,
        bool activate, double scale, const Tensor& out, const Tensor& mean, const Tensor& rstd) {
         check_format(format);
         const auto by = forward(x, gamma, beta, Shape::of(x, groups), eps);
         write(out, activate ? by.y * at::sigmoid(by.y * scale) : by.y);
         write(mean, by.mean);
         write(rstd, by.rstd);
     }},
    {"aclnnGroupNormSwishGrad",
     [](const Tensor& dy, const Tensor& mean, const Tensor& rstd, const Tensor& x, const Tensor& gamma,
        const Tensor& beta, int64_t groups, const std::string& format, double scale, bool need_gamma,
        bool need_beta, const Tensor& dx, Optional dgamma, Optional dbeta) {
         check_format(format);
         const auto shape = Shape::of(x, groups);
         const auto input = widen(x);
         const auto type = input.scalar_type();
         const auto grouped = input.reshape({shape.n, groups, -1});
         const auto normal = ((grouped - mean.to(type).unsqueeze(-1)) * rstd.to(type).unsqueeze(-1))
                                 .reshape({shape.n, shape.c, -1});
         const auto y =
             (normal * gamma.to(type).view({1, -1, 1}) + beta.to(type).view({1, -1, 1})).reshape(x.sizes());
         const auto gate = at::sigmoid(y * scale);
         const auto through = dy.to(type) * gate * (1 + scale * y * (1 - gate));
         const auto by = backward(through, x, mean, rstd, gamma, shape, {true, need_gamma, need_beta});
         write(dx, by.input);
         write_asked(need_gamma, dgamma, by.weight, "dgammaOut");
         write_asked(need_beta, dbeta, by.bias, "dbetaOut");
     }},
};

}  // namespace
}  // namespace npu::emulator
