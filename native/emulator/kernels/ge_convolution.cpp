// GE's convolutions, as torch_npu sends them: channels first, five-dimensional strides and dilations where
// aclnn has the spatial ones alone, and a padding before and after each spatial dimension.
#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Ints = std::vector<int64_t>;

Ints spatial(IntArrayRef values, int64_t dims, const char* name) {
    TORCH_CHECK(static_cast<int64_t>(values.size()) == dims + 2, name, " takes ", dims + 2, " values, got ",
                values.size());
    TORCH_CHECK(values[0] == values[1] && (values[0] == 1 || values[0] == 0), name,
                " must not touch batch and channels, got ", values);
    return values.slice(2).vec();
}

struct Geometry {
    int64_t dims;
    Ints stride, padding, dilation, output_padding;

    Geometry(int64_t rank, IntArrayRef strides, IntArrayRef pads, IntArrayRef dilations,
             IntArrayRef output_pads = {})
        : dims(rank - 2),
          stride(spatial(strides, dims, "strides")),
          dilation(dilations.empty() ? Ints(dims, 1) : spatial(dilations, dims, "dilations")),
          output_padding(output_pads.empty() ? Ints(dims, 0) : spatial(output_pads, dims, "output_padding")) {
        TORCH_CHECK(static_cast<int64_t>(pads.size()) == 2 * dims, "pads takes ", 2 * dims, " values, got ",
                    pads.size());
        for (int64_t dim = 0; dim < dims; ++dim) {
            TORCH_CHECK(pads[2 * dim] == pads[2 * dim + 1], "pads must be the same before and after, got ",
                        pads);
            padding.push_back(pads[2 * dim]);
        }
    }
};

using Bias = const std::optional<Tensor>&;

void check_float(Bias offset) {
    TORCH_CHECK(!offset, "offset_w (a quantised convolution) is not supported: leave it out");
}

void forward(const Tensor& x, const Tensor& filter, Bias bias, Bias offset, IntArrayRef strides,
             IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups, const Tensor& y) {
    check_float(offset);
    const Geometry by(filter.dim(), strides, pads, dilations);
    write(y, at::convolution(widen(x), widen(filter), widen(bias), by.stride, by.padding, by.dilation, false,
                             by.output_padding, groups.value_or(1)));
}

void transposed(IntArrayRef, const Tensor& x, const Tensor& filter, Bias bias, Bias offset,
                IntArrayRef strides, IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups,
                IntArrayRef output_padding, const Tensor& y) {
    check_float(offset);
    const Geometry by(filter.dim(), strides, pads, dilations, output_padding);
    write(y, at::convolution(widen(x), widen(filter), widen(bias), by.stride, by.padding, by.dilation, true,
                             by.output_padding, groups.value_or(1)));
}

Tensor gradient(const Tensor& grad, const Tensor& x, const Tensor& filter, IntArrayRef strides,
                IntArrayRef pads, IntArrayRef dilations, int64_t groups, bool of_input) {
    const Geometry by(filter.dim(), strides, pads, dilations);
    auto [dx, dw, db] =
        at::convolution_backward(widen(grad), widen(x), widen(filter), std::nullopt, by.stride, by.padding,
                                 by.dilation, false, by.output_padding, groups, {of_input, !of_input, false});
    return of_input ? dx : dw;
}

void input_gradient(IntArrayRef size, const Tensor& filter, const Tensor& grad, IntArrayRef strides,
                    IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups, const Tensor& y) {
    write(y, gradient(grad, at::empty(size, filter.options()), filter, strides, pads, dilations,
                      groups.value_or(1),
                      /*of_input=*/true));
}

void filter_gradient(const Tensor& x, IntArrayRef size, const Tensor& grad, IntArrayRef strides,
                     IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups,
                     const Tensor& y) {
    write(y, gradient(grad, x, at::empty(size, x.options()), strides, pads, dilations, groups.value_or(1),
                      /*of_input=*/false));
}

// One group a channel.
void depthwise_input(IntArrayRef size, const Tensor& filter, const Tensor& grad, IntArrayRef strides,
                     IntArrayRef pads, IntArrayRef dilations, const Tensor& y) {
    input_gradient(size, filter, grad, strides, pads, dilations, y.size(1), y);
}
void depthwise_filter(const Tensor& x, IntArrayRef size, const Tensor& grad, IntArrayRef strides,
                      IntArrayRef pads, IntArrayRef dilations, const Tensor& y) {
    filter_gradient(x, size, grad, strides, pads, dilations, x.size(1), y);
}

const Table table{
    {Ge{"Conv2D", {"strides", "pads", "dilations", "groups", "data_format=NCHW", "offset_x?=0"}}, forward},
    {Ge{"Conv3D", {"strides", "pads", "dilations", "groups", "data_format=NCDHW", "offset_x?=0"}}, forward},
    {Ge{"DepthwiseConv2D", {"strides", "dilations", "pads", "data_format=NCHW", "offset_x?=0"}},
     [](const Tensor& x, const Tensor& filter, Bias bias, Bias offset, IntArrayRef strides,
        IntArrayRef dilations, IntArrayRef pads,
        const Tensor& y) { forward(x, filter, bias, offset, strides, pads, dilations, x.size(1), y); }},
    {Ge{"Conv2DTranspose",
        {"strides", "pads", "dilations", "groups", "output_padding", "data_format=NCHW", "offset_x?=0"}},
     transposed},
    {Ge{"Conv3DTranspose",
        {"strides", "pads", "dilations", "groups", "output_padding", "data_format=NCDHW", "offset_x?=0"}},
     transposed},
    {Ge{"Conv2DBackpropInputD", {"input_size", "strides", "pads", "dilations", "groups", "data_format=NCHW"}},
     [](const Tensor& filter, const Tensor& grad, IntArrayRef size, IntArrayRef strides, IntArrayRef pads,
        IntArrayRef dilations, std::optional<int64_t> groups,
        const Tensor& y) { input_gradient(size, filter, grad, strides, pads, dilations, groups, y); }},
    {Ge{"Conv2DBackpropFilterD",
        {"filter_size", "strides", "pads", "dilations", "groups", "data_format=NCHW"}},
     [](const Tensor& x, const Tensor& grad, IntArrayRef size, IntArrayRef strides, IntArrayRef pads,
        IntArrayRef dilations, std::optional<int64_t> groups,
        const Tensor& y) { filter_gradient(x, size, grad, strides, pads, dilations, groups, y); }},
    {Ge{"Conv2DBackpropInput", {"strides", "pads", "dilations", "groups", "data_format=NCHW"}},
     input_gradient},
    {Ge{"Conv3DBackpropInput", {"strides", "pads", "dilations", "groups", "data_format=NCDHW"}},
     input_gradient},
    {Ge{"Conv2DBackpropFilter", {"strides", "pads", "dilations", "groups", "data_format=NCHW"}},
     filter_gradient},
    {Ge{"Conv3DBackpropFilter", {"strides", "pads", "dilations", "groups", "data_format=NCDHW"}},
     filter_gradient},
    {Ge{"DepthwiseConv2DBackpropInput", {"strides", "pads", "dilations", "data_format=NCHW"}},
     depthwise_input},
    {Ge{"DepthwiseConv2DBackpropFilter", {"strides", "pads", "dilations", "data_format=NCHW"}},
     depthwise_filter},
};

}  // namespace
}  // namespace npu::emulator
