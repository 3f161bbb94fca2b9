// Convolutions in one, two and three dimensions, plain, transposed and depthwise, with their gradients.
// cubeMathType allows the hardware less precision than the operands have: it is never taken.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Ints = std::vector<int64_t>;

// One value for all spatial dimensions may be written once.
Ints spread(IntArrayRef values, int64_t dims, const char* name) {
    if (values.size() == 1) return Ints(dims, values[0]);
    TORCH_CHECK(static_cast<int64_t>(values.size()) == dims, name, " has ", values.size(), " values, one or ",
                dims, " are needed");
    return values.vec();
}

// ATen's CPU code has no convolution of halves on every machine.
Tensor operand(const Tensor& tensor) {
    return tensor.scalar_type() == at::kHalf ? tensor.to(at::kFloat) : tensor;
}
std::optional<Tensor> operand(const std::optional<Tensor>& tensor) {
    return tensor ? std::optional<Tensor>(operand(*tensor)) : std::nullopt;
}

struct Geometry {
    int64_t dims;
    Ints stride, padding, dilation, output_padding;
    Ints extra;  // constant_pad_nd's argument where before and after differ, else empty

    Geometry(const Tensor& weight, IntArrayRef stride_, IntArrayRef padding_, IntArrayRef dilation_,
             bool transposed, IntArrayRef output_padding_)
        : dims(weight.dim() - 2) {
        stride = spread(stride_, dims, "stride");
        dilation = spread(dilation_, dims, "dilation");
        output_padding = transposed ? spread(output_padding_, dims, "outputPadding") : Ints(dims, 0);
        if (static_cast<int64_t>(padding_.size()) != 2 * dims || dims == 0) {
            padding = spread(padding_, dims, "padding");
            return;
        }
        TORCH_CHECK(!transposed, "padding has ", padding_.size(), " values, a transposed convolution takes ",
                    dims);
        padding.assign(dims, 0);
        for (int64_t dim = dims - 1; dim >= 0; --dim) {
            extra.push_back(padding_[2 * dim]);
            extra.push_back(padding_[2 * dim + 1]);
        }
    }
};

void convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                 IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                 IntArrayRef output_padding, int64_t groups, const Tensor& output) {
    const Geometry by(weight, stride, padding, dilation, transposed, output_padding);
    const bool batched = input.dim() == weight.dim();
    auto x = operand(batched ? input : input.unsqueeze(0));
    if (!by.extra.empty()) x = at::constant_pad_nd(x, by.extra);
    const auto w = operand(weight);
    auto b = operand(bias);
    if (b && b->scalar_type() != x.scalar_type()) b = b->to(x.scalar_type());
    const auto result =
        at::convolution(x, w, b, by.stride, by.padding, by.dilation, transposed, by.output_padding, groups);
    write(output, batched ? result : result.squeeze(0));
}

using Optional = const std::optional<Tensor>&;

void write_masked(bool asked, Optional out, const Tensor& value, const char* name) {
    if (!asked) return;
    TORCH_CHECK(out, "outputMask asks for ", name, ", but it is null");
    write(*out, value);
}

void convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                          IntArrayRef bias_sizes, IntArrayRef stride, IntArrayRef padding,
                          IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
                          const BoolList& mask, Optional grad_input, Optional grad_weight,
                          Optional grad_bias) {
    TORCH_CHECK(mask.size() == 3, "outputMask has ", mask.size(), " flags, three are needed");
    const Geometry by(weight, stride, padding, dilation, transposed, output_padding);
    auto x = operand(input);
    if (!by.extra.empty()) x = at::constant_pad_nd(x, by.extra);
    const auto channels = bias_sizes.empty() ? Ints{grad.size(1)} : bias_sizes.vec();
    auto [dx, dw, db] = at::convolution_backward(operand(grad), x, operand(weight), IntArrayRef(channels),
                                                 by.stride, by.padding, by.dilation, transposed,
                                                 by.output_padding, groups, {mask[0], mask[1], mask[2]});
    if (mask[0] && !by.extra.empty()) {
        auto crop = by.extra;
        for (auto& value : crop) value = -value;
        dx = at::constant_pad_nd(dx, crop);
    }
    write_masked(mask[0], grad_input, dx, "gradInput");
    write_masked(mask[1], grad_weight, dw, "gradWeight");
    write_masked(mask[2], grad_bias, db, "gradBias");
}

const Table table{
    {"aclnnConvolution",
     [](const Tensor& input, const Tensor& weight, Optional bias, IntArrayRef stride, IntArrayRef padding,
        IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
        const Tensor& output, int64_t) {
         convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                     output);
     }},
    {"aclnnConvolutionBackward",
     [](const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef bias_sizes,
        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
        IntArrayRef output_padding, int64_t groups, const BoolList& mask, int64_t, Optional grad_input,
        Optional grad_weight, Optional grad_bias) {
         convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
                              output_padding, groups, mask, grad_input, grad_weight, grad_bias);
     }},
    {"aclnnConvDepthwise2d",
     [](const Tensor& self, const Tensor& weight, IntArrayRef kernel, Optional bias, IntArrayRef stride,
        IntArrayRef padding, IntArrayRef dilation, const Tensor& out, int64_t) {
         TORCH_CHECK(weight.sizes().slice(2) == kernel, "kernelSize is ", kernel, ", weight has shape ",
                     weight.sizes());
         convolution(self, weight, bias, stride, padding, dilation, false, {}, self.size(-3), out);
     }},
    // self (time, batch, channels), weight (width, channels in, channels out).
    {"aclnnConvTbc",
     [](const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad, const Tensor& out,
        int64_t) { write(out, at::conv_tbc(widen(self), widen(weight), widen(bias), pad)); }},
    {"aclnnConvTbcBackward",
     [](const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t pad,
        int64_t, const Tensor& grad_input, const Tensor& grad_weight, const Tensor& grad_bias) {
         const auto [dx, dw, db] =
             at::conv_tbc_backward(widen(grad), widen(input), widen(weight), widen(bias), pad);
         write(grad_input, dx);
         write(grad_weight, dw);
         write(grad_bias, db);
     }},
};

}  // namespace
}  // namespace npu::emulator
