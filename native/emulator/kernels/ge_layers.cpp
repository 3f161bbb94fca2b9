// GE operators of whole layers, and of losses, that torch_npu reaches by aclop only.
#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

// x * sigmoid(scale * x)
void swish(const Tensor& x, std::optional<double> scale, const Tensor& y) {
    call_aclnn("aclnnSwish", x, scale.value_or(1), y);
}

void swish_grad(const Tensor& grad, const Tensor& x, const Tensor&, std::optional<double> scale,
                const Tensor& grad_x) {
    const auto wide = widen(x);
    const auto gate = at::sigmoid(wide * scale.value_or(1));
    write(grad_x, widen(grad) * (gate + scale.value_or(1) * wide * gate * (1 - gate)));
}

// Labels are distributions over the last dimension. backprop: the gradient of the sum of losses.
void softmax_cross_entropy(const Tensor& features, const Tensor& labels, const Tensor& loss,
                           const Tensor& backprop) {
    const auto target = widen(labels);
    const auto log_probability = at::log_softmax(widen(features), -1);
    write(loss, -(target * log_probability).sum(-1));
    write(backprop, log_probability.exp() - target);
}

void layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, std::optional<int64_t> norm_axis,
                std::optional<int64_t> params_axis, std::optional<double> epsilon, const Tensor& y,
                const Tensor& mean, const Tensor& rstd) {
    const int64_t axis = at::maybe_wrap_dim(norm_axis.value_or(0), x.dim());
    TORCH_CHECK(at::maybe_wrap_dim(params_axis.value_or(0), x.dim()) == axis,
                "begin_params_axis must be begin_norm_axis, got ", params_axis.value_or(0), " and ", axis);
    auto [out, center, scale] = at::native_layer_norm(widen(x), x.sizes().slice(axis), widen(gamma),
                                                      widen(beta), epsilon.value_or(1e-5));
    write(y, out);
    write(mean, center.reshape(mean.sizes()));
    write(rstd, scale.reshape(rstd.sizes()));
}

Tensor byte_mask(const Tensor& mask, IntArrayRef sizes) {
    const int64_t count = c10::multiply_integers(sizes);
    TORCH_CHECK(mask.numel() >= count, "needs a mask of ", count, " bytes, got ", mask.numel());
    return mask.reshape({-1}).narrow(0, 0, count).view(sizes).ne(0);
}

double inverse_keep(double keep) {
    TORCH_CHECK(keep > 0 && keep <= 1, "expects input_keep_prob in (0, 1], got ", keep);
    return 1 / keep;
}

int64_t single_axis(IntArrayRef axis) {
    TORCH_CHECK(axis.size() <= 1, "takes one axis, got ", axis.size());
    return axis.empty() ? -1 : axis[0];
}

// softmax(x1 + alpha * x2), and that with dropout by a mask of one byte an element.
void add_softmax_dropout(const Tensor& x1, const Tensor& x2, const Tensor& mask, double alpha, double keep,
                         IntArrayRef axis, const Tensor& softmax, const Tensor& dropped) {
    const auto probability = at::softmax(widen(x1) + alpha * widen(x2), single_axis(axis));
    write(softmax, probability);
    write(dropped, probability * inverse_keep(keep) * byte_mask(mask, probability.sizes()));
}

void add_softmax_dropout_grad(const Tensor& grad, const Tensor& mask, const Tensor& softmax, double keep,
                              double alpha, IntArrayRef axes, const Tensor& out) {
    const auto probability = widen(softmax);
    const auto through = widen(grad) * inverse_keep(keep) * byte_mask(mask, grad.sizes());
    const auto inner = (through * probability).sum(single_axis(axes), /*keepdim=*/true);
    write(out, alpha * probability * (through - inner));
}

const Table table{
    // tanhx is what the forward pass may have kept: it is a function of x.
    Entry(Ge{"MishGrad"},
          [](const Tensor& grad, const Tensor& x, std::optional<Tensor>, const Tensor& x_grad) {
              write(x_grad, at::mish_backward(widen(grad), widen(x)));
          })
        .elementwise(),
    Entry(Ge{"Swish", {"scale"}}, swish).elementwise(),
    Entry(Ge{"SwishGrad", {"scale"}}, swish_grad).elementwise(),
    {Ge{"SoftmaxCrossEntropyWithLogits"}, softmax_cross_entropy},
    {Ge{"LayerNormV3", {"begin_norm_axis", "begin_params_axis", "epsilon"}}, layer_norm},
    {Ge{"AxpyWithSoftmaxAndDropOutDoMask", {"alpha", "input_keep_prob", "axis"}}, add_softmax_dropout},
    {Ge{"DropoutWithMulsAndSoftmaxGrad", {"input_keep_prob", "alpha", "axes"}}, add_softmax_dropout_grad},
};

}  // namespace
}  // namespace npu::emulator
