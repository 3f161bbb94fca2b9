// GE's pooling and resizing. A window is written once per dimension of the input (ksize [1, 1, 3, 3] for
// NCHW), its padding is a number before and after (CALCULATED) or TensorFlow's SAME and VALID.
#include <limits>

#include "kernels/delegate.h"
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Flag = std::optional<bool>;
using Number = std::optional<int64_t>;
using Text = const std::optional<std::string>&;
using Ints = std::vector<int64_t>;

// Where height and width are.
struct Format {
    bool channels_last;

    Format(Text given, const char* otherwise) {
        const auto text = given.value_or(otherwise);
        TORCH_CHECK(text == "NCHW" || text == "NHWC", "data_format is ", text, "; known are NCHW and NHWC");
        channels_last = text == "NHWC";
    }
    Tensor to_nchw(const Tensor& x) const { return channels_last ? x.permute({0, 3, 1, 2}) : x; }
    Tensor from_nchw(const Tensor& x) const { return channels_last ? x.permute({0, 2, 3, 1}) : x; }
    Ints spatial(IntArrayRef values, const char* name) const {
        const std::size_t at = channels_last ? 1 : 2;
        TORCH_CHECK(values.size() == 4 && values[0] == 1 && values[channels_last ? 3 : 1] == 1, name, " is ",
                    values, ": four values, 1 for batch and channels, are needed");
        return {values[at], values[at + 1]};
    }
};

struct Window {
    Format format;
    Ints kernel, stride, before{0, 0}, after{0, 0};

    Window(Format by, const Tensor& x, IntArrayRef ksize, IntArrayRef strides, const std::string& mode,
           IntArrayRef pads)
        : format(by), kernel(by.spatial(ksize, "ksize")), stride(by.spatial(strides, "strides")) {
        TORCH_CHECK(x.dim() == 4, "the input has shape ", x.sizes(), ", it needs four dimensions");
        TORCH_CHECK(mode == "CALCULATED" || mode == "SAME" || mode == "VALID", "padding is ", mode,
                    "; known are CALCULATED, SAME and VALID");
        if (mode == "VALID") return;
        if (mode == "CALCULATED" && pads.empty()) return;
        TORCH_CHECK(mode == "SAME" || pads.size() == 4, "pads is ", pads, ", four values are needed");
        const auto plane = by.to_nchw(x);
        for (std::size_t dim = 0; dim < 2; ++dim) {
            const auto size = plane.size(static_cast<int64_t>(dim) + 2);
            const auto outputs = (size + stride[dim] - 1) / stride[dim];
            const auto total = std::max<int64_t>(0, (outputs - 1) * stride[dim] + kernel[dim] - size);
            before[dim] = mode == "SAME" ? total / 2 : pads[2 * dim];
            after[dim] = mode == "SAME" ? total - total / 2 : pads[2 * dim + 1];
        }
    }
    bool even() const { return before == after; }
    Ints constant_pad() const { return {before[1], after[1], before[0], after[0]}; }
    Tensor crop(const Tensor& padded) const {
        return padded.slice(2, before[0], padded.size(2) - after[0])
            .slice(3, before[1], padded.size(3) - after[1]);
    }
};

void check_ceil(const Window& by, bool ceil) {
    TORCH_CHECK(by.even() || !ceil, "ceil_mode needs the same padding before and after");
}

Scalar lowest(const Tensor& x) {
    if (at::isFloatingType(x.scalar_type())) return -std::numeric_limits<double>::infinity();
    TORCH_CHECK(x.scalar_type() == at::kInt || x.scalar_type() == at::kLong || x.scalar_type() == at::kChar ||
                    x.scalar_type() == at::kByte || x.scalar_type() == at::kShort,
                "no padding exists for type ", x.scalar_type());
    const auto bits = 8 * static_cast<int64_t>(x.element_size());
    return x.scalar_type() == at::kByte ? int64_t{0} : -(int64_t{1} << (bits - 1));
}

void max_pool(const Tensor& x, const Window& by, bool ceil, const Tensor& y) {
    check_ceil(by, ceil);
    const auto plane = by.format.to_nchw(x);
    const auto pooled =
        by.even() ? at::max_pool2d_with_indices(plane, by.kernel, by.stride, by.before, {1, 1}, ceil)
                  : at::max_pool2d_with_indices(at::constant_pad_nd(plane, by.constant_pad(), lowest(x)),
                                                by.kernel, by.stride, {0, 0}, {1, 1}, false);
    write(y, by.format.from_nchw(std::get<0>(pooled)));
}

// The gradient goes to the first of the largest of each window.
void max_pool_grad(const Tensor& x, const Tensor&, const Tensor& grad, IntArrayRef ksize, IntArrayRef strides,
                   const std::string& padding, Text data_format, const Tensor& y) {
    const Window by(Format(data_format, "NHWC"), x, ksize, strides, padding, {});
    const auto padded = at::constant_pad_nd(widen(by.format.to_nchw(x)), by.constant_pad(), lowest(x));
    const auto places =
        std::get<1>(at::max_pool2d_with_indices(padded, by.kernel, by.stride, {0, 0}, {1, 1}, false));
    const auto dx = at::max_pool2d_with_indices_backward(widen(by.format.to_nchw(grad)), padded, by.kernel,
                                                         by.stride, {0, 0}, {1, 1}, false, places);
    write(y, by.format.from_nchw(by.crop(dx)));
}

// exclusive: places in the padding do not count.
void avg_pool(const Tensor& x, const Window& by, bool ceil, bool exclusive, int64_t divisor,
              const Tensor& y) {
    check_ceil(by, ceil);
    const auto plane = widen(by.format.to_nchw(x));
    const auto count = divisor == 0 ? std::nullopt : std::optional<int64_t>(divisor);
    if (by.even()) {
        return write(y, by.format.from_nchw(
                            at::avg_pool2d(plane, by.kernel, by.stride, by.before, ceil, !exclusive, count)));
    }
    const auto pool = [&](const Tensor& of, std::optional<int64_t> over) {
        return at::avg_pool2d(at::constant_pad_nd(of, by.constant_pad()), by.kernel, by.stride, {0, 0}, false,
                              true, over);
    };
    if (!exclusive || count) return write(y, by.format.from_nchw(pool(plane, count)));
    write(y, by.format.from_nchw(pool(plane, 1) / pool(at::ones_like(plane), 1)));
}

Tensor avg_pool_gradient(const Tensor& grad, const Tensor& like, const Window& by, bool ceil, bool exclusive,
                         int64_t divisor) {
    check_ceil(by, ceil);
    const auto plane = by.format.to_nchw(like), up = widen(by.format.to_nchw(grad));
    const auto count = divisor == 0 ? std::nullopt : std::optional<int64_t>(divisor);
    if (by.even()) {
        return at::avg_pool2d_backward(up, plane, by.kernel, by.stride, by.before, ceil, !exclusive, count);
    }
    const auto ones = at::constant_pad_nd(at::ones_like(plane), by.constant_pad());
    const bool counted = exclusive && !count;
    const auto share = counted ? up / at::avg_pool2d(ones, by.kernel, by.stride, {0, 0}, false, true, 1) : up;
    return by.crop(at::avg_pool2d_backward(share, ones, by.kernel, by.stride, {0, 0}, false, true,
                                           counted ? std::optional<int64_t>(1) : count));
}

void avg_pool_grad(IntArrayRef shape, const Tensor& grad, IntArrayRef ksize, IntArrayRef strides,
                   const std::string& mode, IntArrayRef pads, const Format& format, bool ceil, bool exclusive,
                   int64_t divisor, const Tensor& out) {
    const auto like = at::empty(shape, grad.options().dtype(wide_type(grad.scalar_type())));
    const Window by(format, like, ksize, strides, mode, pads);
    write(out, format.from_nchw(avg_pool_gradient(grad, like, by, ceil, exclusive, divisor)));
}

// V1 and V2 write a window as [1, height, width, 1] whatever the layout; V3 writes height and width.
Ints middle(IntArrayRef values, const char* name) {
    TORCH_CHECK(values.size() == 4 || values.size() == 2, name, " is ", values,
                ", two or four values are needed");
    return values.size() == 4 ? Ints{values[1], values[2]} : values.vec();
}

// argmax has the output's shape (places in a plane), or is the mask that only the gradient reads.
void max_pool_with_argmax(const Tensor& x, IntArrayRef ksize, IntArrayRef strides, IntArrayRef pads, Number,
                          IntArrayRef dilation, Flag ceil, const Tensor& y, const Tensor& argmax) {
    const auto kernel = middle(ksize, "ksize"), stride = middle(strides, "strides"),
               padding = middle(pads, "pads"),
               apart = dilation.empty() ? Ints{1, 1} : middle(dilation, "dilation");
    call_aclnn("aclnnMaxPool2dWithMask", x, IntArrayRef(kernel), IntArrayRef(stride), IntArrayRef(padding),
               IntArrayRef(apart), ceil.value_or(false), y, argmax);
}
void max_pool_with_argmax_grad(const Tensor& x, const Tensor& grad, const Tensor& argmax, IntArrayRef ksize,
                               IntArrayRef strides, IntArrayRef pads, Number, IntArrayRef dilation, Flag ceil,
                               const Tensor& y) {
    const auto kernel = middle(ksize, "ksize"), stride = middle(strides, "strides"),
               padding = middle(pads, "pads"),
               apart = dilation.empty() ? Ints{1, 1} : middle(dilation, "dilation");
    call_aclnn("aclnnMaxPool2dWithMaskBackward", grad, x, argmax, IntArrayRef(kernel), IntArrayRef(stride),
               IntArrayRef(padding), IntArrayRef(apart), ceil.value_or(false), y);
}
Entry with_argmax(const char* type) {
    return {Ge{type, {"ksize", "strides", "pads", "dtype", "dilation", "ceil_mode"}}, max_pool_with_argmax};
}
Entry with_argmax_grad(const char* type) {
    return {Ge{type, {"ksize", "strides", "pads", "dtype", "dilation", "ceil_mode"}},
            max_pool_with_argmax_grad};
}

const Table table{
    {Ge{"MaxPool", {"ksize", "strides", "padding", "data_format"}},
     [](const Tensor& x, IntArrayRef ksize, IntArrayRef strides, const std::string& padding, Text format,
        const Tensor& y) {
         max_pool(x, Window(Format(format, "NHWC"), x, ksize, strides, padding, {}), false, y);
     }},
    {Ge{"MaxPoolV3",
        {"ksize", "strides", "padding_mode", "pads", "data_format", "ceil_mode", "global_pooling?=false"}},
     [](const Tensor& x, IntArrayRef ksize, IntArrayRef strides, Text mode, IntArrayRef pads, Text format,
        Flag ceil, const Tensor& y) {
         max_pool(x, Window(Format(format, "NCHW"), x, ksize, strides, mode.value_or("CALCULATED"), pads),
                  ceil.value_or(false), y);
     }},
    {Ge{"MaxPoolGrad", {"ksize", "strides", "padding", "data_format"}}, max_pool_grad},
    with_argmax("MaxPoolWithArgmaxV1"),
    with_argmax("MaxPoolWithArgmaxV2"),
    {Ge{"MaxPoolWithArgmaxV3",
        {"ksize", "strides", "pads", "dtype", "dilation", "ceil_mode", "data_format?=NCHW"}},
     max_pool_with_argmax},
    with_argmax_grad("MaxPoolGradWithArgmaxV1"),
    with_argmax_grad("MaxPoolGradWithArgmaxV2"),
    {Ge{"MaxPoolGradWithArgmaxV3",
        {"ksize", "strides", "pads", "dtype", "dilation", "ceil_mode", "data_format?=NCHW"}},
     max_pool_with_argmax_grad},

    {Ge{"AvgPool", {"ksize", "strides", "padding", "data_format"}},
     [](const Tensor& x, IntArrayRef ksize, IntArrayRef strides, const std::string& padding, Text format,
        const Tensor& y) {
         avg_pool(x, Window(Format(format, "NHWC"), x, ksize, strides, padding, {}), false, true, 0, y);
     }},
    {Ge{"AvgPoolV2",
        {"ksize", "strides", "padding_mode", "pads", "data_format", "ceil_mode", "exclusive",
         "divisor_override", "global_pooling?=false"}},
     [](const Tensor& x, IntArrayRef ksize, IntArrayRef strides, Text mode, IntArrayRef pads, Text format,
        Flag ceil, Flag exclusive, Number divisor, const Tensor& y) {
         avg_pool(x, Window(Format(format, "NCHW"), x, ksize, strides, mode.value_or("CALCULATED"), pads),
                  ceil.value_or(false), exclusive.value_or(true), divisor.value_or(0), y);
     }},
    {Ge{"AvgPoolGrad", {"ksize", "strides", "padding", "data_format"}},
     [](IntArrayRef shape, const Tensor& grad, IntArrayRef ksize, IntArrayRef strides,
        const std::string& padding, Text format, const Tensor& out) {
         avg_pool_grad(shape, grad, ksize, strides, padding, {}, Format(format, "NHWC"), false, true, 0, out);
     }},
    {Ge{"AvgPoolV2Grad",
        {"ksize", "strides", "padding_mode", "pads", "data_format", "ceil_mode", "exclusive",
         "divisor_override", "global_pooling?=false"}},
     [](IntArrayRef shape, const Tensor& grad, IntArrayRef ksize, IntArrayRef strides, Text mode,
        IntArrayRef pads, Text format, Flag ceil, Flag exclusive, Number divisor, const Tensor& out) {
         avg_pool_grad(shape, grad, ksize, strides, mode.value_or("CALCULATED"), pads, Format(format, "NCHW"),
                       ceil.value_or(false), exclusive.value_or(true), divisor.value_or(0), out);
     }},
    {Ge{"AdaptiveAvgPool2d", {"output_size"}},
     [](const Tensor& x, IntArrayRef size, const Tensor& y) {
         call_aclnn("aclnnAdaptiveAvgPool2d", x, size, y);
     }},
    {Ge{"AdaptiveAvgPool2dGrad", {"orig_input_shape"}},
     [](const Tensor& grad, IntArrayRef shape, const Tensor& out) {
         call_aclnn("aclnnAdaptiveAvgPool2dBackward", grad, at::empty(shape, grad.options()), out);
     }},
};

}  // namespace
}  // namespace npu::emulator
