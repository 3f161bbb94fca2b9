// GE's gradients of activations, softmaxes and biases. What is named features is the forward's input, what is
// named activations, outputs or y its output.
#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Number = std::optional<double>;

// The gradient where the condition on the features holds, else zero.
template <class F>
Entry gated(const char* type, F open) {
    return Entry(Ge{type},
                 [open](const Tensor& gradients, const Tensor& features, const Tensor& out) {
                     write(out, gradients.masked_fill(at::logical_not(open(features)), 0));
                 })
        .elementwise();
}

void hard_sigmoid(const Tensor& grads, const Tensor& x, Number alpha, Number beta, const Tensor& y) {
    const double slope = alpha.value_or(1.0 / 6);
    const auto line = widen(x) * slope + beta.value_or(0.5);
    write(y, (widen(grads) * slope).masked_fill(at::logical_or(line <= 0, line >= 1), 0));
}

std::vector<int64_t> last_if_empty(IntArrayRef axes) {
    return axes.empty() ? std::vector<int64_t>{-1} : axes.vec();
}

void softmax_grad(const Tensor& softmax, const Tensor& grad, IntArrayRef given, const Tensor& out) {
    const auto axes = last_if_empty(given);
    if (axes.size() == 1) return call_aclnn("aclnnSoftmaxBackward", grad, softmax, axes[0], out);
    const auto y = widen(softmax), dy = widen(grad);
    write(out, (dy - (dy * y).sum(axes, /*keepdim=*/true)) * y);
}

// x is the forward's output, the logarithm of the softmax.
void log_softmax_grad(const Tensor& grad, const Tensor& x, IntArrayRef given, const Tensor& out) {
    const auto axes = last_if_empty(given);
    if (axes.size() == 1) return call_aclnn("aclnnLogSoftmaxBackward", grad, x, axes[0], out);
    const auto dy = widen(grad);
    write(out, dy - at::exp(widen(x)) * dy.sum(axes, /*keepdim=*/true));
}

// Which dimension of x (N, C, ...) or (N, ..., C) the channels are.
int64_t channel_dim(const Tensor& x, const std::optional<std::string>& format) {
    const auto text = format.value_or("NHWC");
    TORCH_CHECK(x.dim() >= 2, "x has shape ", x.sizes(), ", it needs two dimensions");
    if (text == "NHWC" || text == "NDHWC") return x.dim() - 1;
    TORCH_CHECK(text == "NCHW" || text == "NCDHW", "data_format is ", text,
                "; known are NCHW, NCDHW, NHWC and NDHWC");
    return 1;
}

void bias_add(const Tensor& x, const Tensor& bias, const std::optional<std::string>& format,
              const Tensor& y) {
    std::vector<int64_t> shape(x.dim(), 1);
    shape[channel_dim(x, format)] = -1;
    write(y, x + bias.view(shape));
}

void bias_add_grad(const Tensor& x, const std::optional<std::string>& format, const Tensor& y) {
    const auto channel = channel_dim(x, format);
    std::vector<int64_t> others;
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
        if (dim != channel) others.push_back(dim);
    }
    call_aclnn("aclnnReduceSum", x, IntArrayRef(others), false, std::nullopt, y);
}

const Table table{
    gated("Relu6Grad", [](const Tensor& x) { return at::logical_and(x > 0, x < 6); }),
    Entry(Ge{"ThresholdGradV2D", {"threshold"}},
          [](const Tensor& gradients, const Tensor& features, double threshold, const Tensor& out) {
              call_aclnn("aclnnThresholdBackward", gradients, features, threshold, out);
          })
        .elementwise(),
    Entry(Ge{"HardtanhGrad", {"min_val", "max_val"}},
          [](const Tensor& x, const Tensor& grad, Number low, Number high, const Tensor& y) {
              call_aclnn("aclnnHardtanhBackward", grad, x, low.value_or(-1), high.value_or(1), y);
          })
        .elementwise(),
    Entry(Ge{"HardSigmoidGrad", {"alpha", "beta"}}, hard_sigmoid).elementwise(),
    Entry(Ge{"HardShrinkGrad", {"lambd"}},
          [](const Tensor& gradients, const Tensor& features, Number lambd, const Tensor& out) {
              call_aclnn("aclnnHardshrinkBackward", gradients, features, lambd.value_or(0.5), out);
          })
        .elementwise(),
    Entry(Ge{"SoftShrinkGrad", {"lambd"}},
          [](const Tensor& grad, const Tensor& x, Number lambd, const Tensor& out) {
              call_aclnn("aclnnSoftshrinkBackward", grad, x, lambd.value_or(0.5), out);
          })
        .elementwise(),
    Entry(Ge{"EluGrad"},
          [](const Tensor& grads, const Tensor& activations, const Tensor& y) {
              call_aclnn("aclnnEluBackward", grads, 1.0, 1.0, 1.0, true, activations, y);
          })
        .elementwise(),
    Entry(Ge{"EluGradV2", {"alpha", "scale", "input_scale", "is_result"}},
          [](const Tensor& grads, const Tensor& activations, Number alpha, Number scale, Number input_scale,
             std::optional<bool> is_result, const Tensor& y) {
              call_aclnn("aclnnEluBackward", grads, alpha.value_or(1), scale.value_or(1),
                         input_scale.value_or(1), is_result.value_or(false), activations, y);
          })
        .elementwise(),
    Entry(Ge{"LeakyReluGrad", {"negative_slope"}},
          [](const Tensor& gradients, const Tensor& features, Number slope, const Tensor& out) {
              call_aclnn("aclnnLeakyReluBackward", gradients, features, slope.value_or(0), false, out);
          })
        .elementwise(),
    Entry(Ge{"SoftplusGrad"},
          [](const Tensor& gradients, const Tensor& features, const Tensor& out) {
              call_aclnn("aclnnSoftplusBackward", gradients, features, 1.0, 20.0, out);
          })
        .elementwise(),
    Entry(Ge{"SoftplusV2Grad", {"beta", "threshold"}},
          [](const Tensor& gradients, const Tensor& features, Number beta, Number threshold,
             const Tensor& out) {
              call_aclnn("aclnnSoftplusBackward", gradients, features, beta.value_or(1),
                         threshold.value_or(20), out);
          })
        .elementwise(),
    Entry(Ge{"GLUGrad", {"dim"}},
          [](const Tensor& grad, const Tensor& x, std::optional<int64_t> dim, const Tensor& out) {
              call_aclnn("aclnnGluBackward", grad, x, dim.value_or(-1), out);
          }),
    {Ge{"SoftmaxGrad", {"axes"}}, softmax_grad},
    {Ge{"LogSoftmaxGrad", {"axis"}}, log_softmax_grad},
    {Ge{"BiasAdd", {"data_format"}}, bias_add},
    {Ge{"BiasAddGrad", {"data_format"}}, bias_add_grad},
};

}  // namespace
}  // namespace npu::emulator
