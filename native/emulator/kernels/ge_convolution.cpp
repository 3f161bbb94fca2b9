// GE's convolutions: five-dimensional strides and dilations where aclnn has the spatial ones alone, and a
// padding before and after each spatial dimension. Channels come second, or last and then also in filters
// (spatial dimensions, inputs, outputs).
#include <algorithm>

#include "kernels/widen.h"

namespace npu::emulator {
namespace {

using Ints = std::vector<int64_t>;
using Format = std::optional<std::string>;
using Bias = const std::optional<Tensor>&;

// Between the operator's order of dimensions and ATen's, channels second.
struct Layout {
    bool channels_last;

    Layout(const Format& format, int64_t dims) {
        const auto& text = format.value_or(dims == 2 ? "NHWC" : "NDHWC");
        channels_last = text == (dims == 2 ? "NHWC" : "NDHWC");
        TORCH_CHECK(channels_last || text == (dims == 2 ? "NCHW" : "NCDHW"), "data_format ", text,
                    " is not supported");
    }
    Tensor data(const Tensor& x) const { return channels_last ? x.movedim(-1, 1) : x; }
    Tensor filter(const Tensor& w) const { return channels_last ? w.movedim({-1, -2}, {0, 1}) : w; }
    Tensor from_data(const Tensor& x) const { return channels_last ? x.movedim(1, -1) : x; }
    Tensor from_filter(const Tensor& w) const { return channels_last ? w.movedim({0, 1}, {-1, -2}) : w; }
    Ints data(IntArrayRef sizes) const {
        auto out = sizes.vec();
        if (channels_last) std::rotate(out.begin() + 1, out.end() - 1, out.end());
        return out;
    }
    Ints filter(IntArrayRef sizes) const {
        auto out = sizes.vec();
        if (!channels_last) return out;
        std::rotate(out.begin(), out.end() - 2, out.end());
        std::swap(out[0], out[1]);
        return out;
    }
};

Ints spatial(IntArrayRef values, int64_t dims, const Layout& layout, const char* name) {
    TORCH_CHECK(static_cast<int64_t>(values.size()) == dims + 2, name, " takes ", dims + 2, " values, got ",
                values.size());
    const auto ordered = layout.data(values);
    TORCH_CHECK(ordered[0] == ordered[1] && (ordered[0] == 1 || ordered[0] == 0), name,
                " must not touch batch and channels, got ", values);
    return {ordered.begin() + 2, ordered.end()};
}

struct Geometry {
    int64_t dims;
    Layout layout;
    Ints stride, padding, dilation, output_padding;
    Ints edges;  // what padding there is beyond `padding`, as ATen takes it: the last dimension first
    bool uneven = false;

    Geometry(int64_t rank, const Format& format, IntArrayRef strides, IntArrayRef pads, IntArrayRef dilations,
             IntArrayRef output_pads = {})
        : dims(rank - 2),
          layout(format, dims),
          stride(spatial(strides, dims, layout, "strides")),
          dilation(dilations.empty() ? Ints(dims, 1) : spatial(dilations, dims, layout, "dilations")),
          output_padding(output_pads.empty() ? Ints(dims, 0)
                                             : spatial(output_pads, dims, layout, "output_padding")) {
        TORCH_CHECK(static_cast<int64_t>(pads.size()) == 2 * dims, "pads takes ", 2 * dims, " values, got ",
                    pads.size());
        for (int64_t dim = dims - 1; dim >= 0; --dim) {
            const auto both = std::min(pads[2 * dim], pads[2 * dim + 1]);
            TORCH_CHECK(both >= 0, "pads must not be negative, got ", pads);
            padding.insert(padding.begin(), both);
            edges.push_back(pads[2 * dim] - both);
            edges.push_back(pads[2 * dim + 1] - both);
            uneven = uneven || pads[2 * dim] != pads[2 * dim + 1];
        }
    }
    Tensor padded(const Tensor& x) const { return uneven ? at::constant_pad_nd(x, edges, 0) : x; }
    // The inverse of `padded`.
    Tensor cut(const Tensor& x) const {
        if (!uneven) return x;
        Ints inverse;
        for (const auto edge : edges) inverse.push_back(-edge);
        return at::constant_pad_nd(x, inverse, 0);
    }
    Ints padded(Ints sizes) const {
        for (int64_t dim = 0; dim < dims; ++dim)
            sizes[2 + dim] += edges[2 * (dims - 1 - dim)] + edges[2 * (dims - 1 - dim) + 1];
        return sizes;
    }
    void need_even() const { TORCH_CHECK(!uneven, "pads must be the same before and after"); }
};

void check_float(Bias offset) {
    TORCH_CHECK(!offset, "offset_w (a quantised convolution) is not supported: leave it out");
}

void forward(const Tensor& x, const Tensor& filter, Bias bias, Bias offset, IntArrayRef strides,
             IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups, const Format& format,
             const Tensor& y) {
    check_float(offset);
    const Geometry by(filter.dim(), format, strides, pads, dilations);
    write(y, by.layout.from_data(at::convolution(
                 by.padded(widen(by.layout.data(x))), widen(by.layout.filter(filter)), widen(bias), by.stride,
                 by.padding, by.dilation, false, by.output_padding, groups.value_or(1))));
}

void transposed(IntArrayRef, const Tensor& x, const Tensor& filter, Bias bias, Bias offset,
                IntArrayRef strides, IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups,
                IntArrayRef output_padding, const Tensor& y) {
    check_float(offset);
    const Geometry by(filter.dim(), filter.dim() == 4 ? "NCHW" : "NCDHW", strides, pads, dilations,
                      output_padding);
    by.need_even();
    write(y, at::convolution(widen(x), widen(filter), widen(bias), by.stride, by.padding, by.dilation, true,
                             by.output_padding, groups.value_or(1)));
}

Tensor gradient(const Geometry& by, const Tensor& grad, const Tensor& x, const Tensor& filter, int64_t groups,
                bool of_input) {
    auto [dx, dw, db] =
        at::convolution_backward(widen(grad), widen(x), widen(filter), std::nullopt, by.stride, by.padding,
                                 by.dilation, false, by.output_padding, groups, {of_input, !of_input, false});
    return of_input ? dx : dw;
}

void input_gradient(IntArrayRef size, const Tensor& filter, const Tensor& grad, IntArrayRef strides,
                    IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups,
                    const Format& format, const Tensor& y) {
    const Geometry by(filter.dim(), format, strides, pads, dilations);
    const auto x = at::empty(by.padded(by.layout.data(size)), filter.options());
    const auto dx = gradient(by, by.layout.data(grad), x, by.layout.filter(filter), groups.value_or(1),
                             /*of_input=*/true);
    write(y, by.layout.from_data(by.cut(dx)));
}

void filter_gradient(const Tensor& x, IntArrayRef size, const Tensor& grad, IntArrayRef strides,
                     IntArrayRef pads, IntArrayRef dilations, std::optional<int64_t> groups,
                     const Format& format, const Tensor& y) {
    const Geometry by(x.dim(), format, strides, pads, dilations);
    const auto filter = at::empty(by.layout.filter(size), x.options());
    const auto dw = gradient(by, by.layout.data(grad), by.padded(by.layout.data(x)), filter,
                             groups.value_or(1), /*of_input=*/false);
    write(y, by.layout.from_filter(dw));
}

// One group a channel.
void depthwise_input(IntArrayRef size, const Tensor& filter, const Tensor& grad, IntArrayRef strides,
                     IntArrayRef pads, IntArrayRef dilations, const Tensor& y) {
    input_gradient(size, filter, grad, strides, pads, dilations, y.size(1), "NCHW", y);
}
void depthwise_filter(const Tensor& x, IntArrayRef size, const Tensor& grad, IntArrayRef strides,
                      IntArrayRef pads, IntArrayRef dilations, const Tensor& y) {
    filter_gradient(x, size, grad, strides, pads, dilations, x.size(1), "NCHW", y);
}

const Table table{
    {Ge{"Conv2D", {"strides", "pads", "dilations", "groups", "data_format", "offset_x?=0"}}, forward},
    {Ge{"Conv3D", {"strides", "pads", "dilations", "groups", "data_format", "offset_x?=0"}}, forward},
    {Ge{"DepthwiseConv2D", {"strides", "dilations", "pads", "data_format=NCHW", "offset_x?=0"}},
     [](const Tensor& x, const Tensor& filter, Bias bias, Bias offset, IntArrayRef strides,
        IntArrayRef dilations, IntArrayRef pads, const Tensor& y) {
         forward(x, filter, bias, offset, strides, pads, dilations, x.size(1), "NCHW", y);
     }},
    {Ge{"Conv2DTranspose",
        {"strides", "pads", "dilations", "groups", "output_padding", "data_format=NCHW", "offset_x?=0"}},
     transposed},
    {Ge{"Conv3DTranspose",
        {"strides", "pads", "dilations", "groups", "output_padding", "data_format=NCDHW", "offset_x?=0"}},
     transposed},
    {Ge{"Conv2DBackpropInputD", {"input_size", "strides", "pads", "dilations", "groups", "data_format=NCHW"}},
     [](const Tensor& filter, const Tensor& grad, IntArrayRef size, IntArrayRef strides, IntArrayRef pads,
        IntArrayRef dilations, std::optional<int64_t> groups, const Tensor& y) {
         input_gradient(size, filter, grad, strides, pads, dilations, groups, "NCHW", y);
     }},
    {Ge{"Conv2DBackpropFilterD",
        {"filter_size", "strides", "pads", "dilations", "groups", "data_format=NCHW"}},
     [](const Tensor& x, const Tensor& grad, IntArrayRef size, IntArrayRef strides, IntArrayRef pads,
        IntArrayRef dilations, std::optional<int64_t> groups,
        const Tensor& y) { filter_gradient(x, size, grad, strides, pads, dilations, groups, "NCHW", y); }},
    {Ge{"Conv2DBackpropInput", {"strides", "pads", "dilations", "groups", "data_format"}}, input_gradient},
    {Ge{"Conv3DBackpropInput", {"strides", "pads", "dilations", "groups", "data_format"}}, input_gradient},
    {Ge{"Conv2DBackpropFilter", {"strides", "pads", "dilations", "groups", "data_format"}}, filter_gradient},
    {Ge{"Conv3DBackpropFilter", {"strides", "pads", "dilations", "groups", "data_format"}}, filter_gradient},
    {Ge{"DepthwiseConv2DBackpropInput", {"strides", "pads", "dilations", "data_format=NCHW"}},
     depthwise_input},
    {Ge{"DepthwiseConv2DBackpropFilter", {"strides", "pads", "dilations", "data_format=NCHW"}},
     depthwise_filter},
};

}  // namespace
}  // namespace npu::emulator
