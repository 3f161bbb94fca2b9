// Convolutions, pooling, resizing. Dimensions are found by data_format; filters are OIHW where channels come
// second, HWIO where they come last. Operators without data_format (resizing, adaptive pooling) are taken to
// be NCHW, as PyTorch's are.
#include <algorithm>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

/// The places of the channels and of the spatial dimensions.
struct Places {
    std::size_t channels, first, count;
    bool channels_second;
};

Places places_of(const Context& c, std::size_t spatial) {
    const std::string& format = c.text("data_format");
    std::string_view letters = spatial == 2 ? "HW" : "DHW";
    if (format == "NC" + std::string(letters)) return {1, 2, spatial, true};
    if (format == "N" + std::string(letters) + "C") return {spatial + 1, 1, spatial, false};
    c.fail("the data_format " + format + " is not supported");
}

void check_rank(const Context& c, const Dims& dims, std::size_t rank, const char* what) {
    if (dims.size() != rank)
        c.fail(std::string(what) + " should have " + std::to_string(rank) + " dimensions");
}

struct Window {
    int64_t size, stride, dilation, before, after;
    bool same = false;  ///< padded so that the result has size / stride elements
    bool ceil = false;
};

int64_t windows(const Context& c, int64_t size, const Window& window) {
    if (window.stride <= 0 || window.dilation <= 0 || window.size < 0)
        c.fail("sizes, strides and dilations of a window are positive");
    if (size < 0) return kUnknown;
    if (window.same) return plus(c, size, window.stride - 1) / window.stride;
    int64_t reach = times(c, window.dilation, window.size - 1);
    int64_t room = plus(c, plus(c, plus(c, size, window.before), window.after), -1 - reach);
    if (room < 0) c.fail("the window is larger than the padded input");
    return plus(c, room, window.ceil ? window.stride - 1 : 0) / window.stride + 1;
}

/// PyTorch's and MaxPoolV3's: the last window has to begin inside the input or the padding before it.
int64_t clipped(const Context& c, int64_t count, int64_t size, const Window& window) {
    bool outside =
        count >= 0 && window.ceil && times(c, count - 1, window.stride) >= plus(c, size, window.before);
    return outside ? count - 1 : count;
}

Dims list(const Context& c, const char* attribute, std::size_t length) {
    Dims out = c.integers(attribute);
    if (out.size() != length)
        c.fail(std::string("its attribute ") + attribute + " should have " + std::to_string(length) +
               " entries");
    return out;
}

std::vector<Window> convolution_windows(const Context& c, const Places& places, const Dims& filter) {
    std::size_t rank = places.count + 2;
    Dims strides = list(c, "strides", rank), dilations = list(c, "dilations", rank),
         pads = list(c, "pads", 2 * places.count);
    bool same = std::ranges::all_of(pads, [](int64_t pad) { return pad == -1; });
    std::vector<Window> out;
    for (std::size_t at = 0; at < places.count; ++at)
        out.push_back({filter[places.channels_second ? 2 + at : at], strides[places.first + at],
                       dilations[places.first + at], pads[2 * at], pads[2 * at + 1], same});
    return out;
}

DataType convolved_dtype(const Context& c) {
    if (c.dtype("x") != c.dtype("filter"))
        c.fail("x and filter differ in data type; put a Cast before one of them");
    return c.dtype("x") == ACL_INT8 || c.dtype("x") == ACL_INT4 ? ACL_INT32 : c.dtype("x");
}

Dims convolved(const Context& c, std::size_t spatial, bool depthwise) {
    Places places = places_of(c, spatial);
    Dims x = c.dims("x");
    const Dims& filter = c.dims("filter");
    check_rank(c, x, spatial + 2, "x");
    check_rank(c, filter, spatial + 2, "filter");
    int64_t inputs = filter[places.channels_second ? 1 : spatial],
            outputs = filter[places.channels_second ? 0 : spatial + 1];
    int64_t groups = depthwise ? x[places.channels] : c.integer("groups");
    if (groups == 0 && !depthwise) c.fail("its attribute groups is 0");
    if (depthwise && !places.channels_second) {  // HWCM: a multiplier for each channel
        outputs = product(c, Dims{inputs, outputs});
    } else if (x[places.channels] >= 0 && inputs >= 0 && groups > 0 &&
               x[places.channels] != times(c, inputs, groups)) {
        c.fail("x has " + std::to_string(x[places.channels]) + " channels, and the filter takes " +
               std::to_string(times(c, inputs, groups)));
    }
    auto spatial_windows = convolution_windows(c, places, filter);
    for (std::size_t at = 0; at < spatial; ++at) {
        int64_t& size = x[places.first + at];
        size = spatial_windows[at].size < 0 ? kUnknown : windows(c, size, spatial_windows[at]);
    }
    x[places.channels] = outputs;
    return x;
}

void conv_2d(Context& c) {
    c.out(convolved_dtype(c), [&] { return convolved(c, 2, false); });
}

void conv_3d(Context& c) {
    c.out(convolved_dtype(c), [&] { return convolved(c, 3, false); });
}

void depthwise_conv_2d(Context& c) {
    c.out(convolved_dtype(c), [&] { return convolved(c, 2, true); });
}

/// A gradient whose shape is an input: of x (input_size) or of the filter (filter_size).
void backprop(Context& c) {
    c.out(c.dtype("out_backprop"),
          [&] { return c.need_value(c.op.inputs[0].name == "input_size" ? "input_size" : "filter_size"); });
}

void backprop_input_d(Context& c) {
    c.out(c.dtype("out_backprop"), [&] { return c.integers("input_size"); });
}

void backprop_filter_d(Context& c) {
    c.out(ACL_FLOAT, [&] { return c.integers("filter_size"); });
}

/// Zeros in input_size: computed from x.
Dims transposed(const Context& c, std::size_t spatial) {
    Dims size = c.need_value("input_size");
    bool computed = std::ranges::all_of(size, [](int64_t s) { return s == 0; });
    if (!computed) return size;
    Places places = places_of(c, spatial);
    Dims x = c.dims("x"), output_padding = list(c, "output_padding", spatial + 2);
    const Dims& filter = c.dims("filter");
    check_rank(c, x, spatial + 2, "x");
    check_rank(c, filter, spatial + 2, "filter");
    auto spatial_windows = convolution_windows(c, places, filter);
    for (std::size_t at = 0; at < spatial; ++at) {
        const Window& w = spatial_windows[at];
        int64_t& length = x[places.first + at];
        if (length < 0 || w.size < 0) {
            length = kUnknown;
        } else if (w.same) {
            length = times(c, length, w.stride);
        } else {
            int64_t whole =
                plus(c, plus(c, times(c, length - 1, w.stride), times(c, w.dilation, w.size - 1)), 1);
            int64_t padding = plus(c, w.before, w.after);
            length = plus(c, plus(c, whole, times(c, padding, -1)), output_padding[places.first + at]);
            if (length < 0) c.fail("the result would have a negative size");
        }
    }
    int64_t channels = filter[places.channels_second ? 1 : spatial];
    x[places.channels] = product(c, Dims{channels, c.integer("groups")});
    return x;
}

void conv_2d_transpose(Context& c) {
    c.out(convolved_dtype(c), [&] { return transposed(c, 2); });
}

void conv_3d_transpose(Context& c) {
    c.out(convolved_dtype(c), [&] { return transposed(c, 3); });
}

/// `mode`: VALID, SAME or CALCULATED (by pads).
Dims pooled(const Context& c, const std::string& mode, bool clip) {
    Places places = places_of(c, 2);
    Dims x = c.dims("x"), sizes = list(c, "ksize", 4), strides = list(c, "strides", 4), pads(4, 0);
    check_rank(c, x, 4, "x");
    bool by_pads = mode == "CALCULATED" && c.op.attribute("pads");
    if (mode != "VALID" && mode != "SAME" && !by_pads) c.fail("the padding " + mode + " is not supported");
    if (by_pads) pads = list(c, "pads", 4);
    bool global = c.op.attribute("global_pooling") && c.flag("global_pooling");
    bool ceil = c.op.attribute("ceil_mode") && c.flag("ceil_mode");
    for (std::size_t at = 0; at < 2; ++at) {
        std::size_t place = places.first + at;
        if (global) {
            x[place] = 1;
            continue;
        }
        Window window{sizes[place], strides[place], 1, pads[2 * at], pads[2 * at + 1], mode == "SAME", ceil};
        int64_t count = windows(c, x[place], window), inside = clipped(c, count, x[place], window);
        if (!clip && inside != count)
            c.fail(
                "CANN counts a last window that lies in the padding; give pads and ceil_mode that leave "
                "none");
        x[place] = inside;
    }
    return x;
}

/// TensorFlow's MaxPool and AvgPool.
void pool(Context& c) {
    c.out(c.dtype("x"), [&] { return pooled(c, c.text("padding"), true); });
}

void pool_by_mode(Context& c) {
    c.out(c.dtype("x"), [&] { return pooled(c, c.text("padding_mode"), c.op.name == "MaxPoolV3"); });
}

/// ksize, strides, pads and dilation of two entries each.
void max_pool_with_argmax_v3(Context& c) {
    auto shape = [&] {
        bool channels_last = c.text("data_format") == "NHWC";
        Dims x = c.dims("x"), sizes = list(c, "ksize", 2), strides = list(c, "strides", 2),
             pads = list(c, "pads", 2), dilations = list(c, "dilation", 2);
        if (x.size() != 3 && x.size() != 4) c.fail("x should have three or four dimensions");
        for (std::size_t at = 0; at < 2; ++at) {
            int64_t& size = x[x.size() - 2 + at - channels_last];
            Window window{sizes[at], strides[at], dilations[at],      pads[at],
                          pads[at],  false,       c.flag("ceil_mode")};
            size = clipped(c, windows(c, size, window), size, window);
        }
        return x;
    };
    c.out(c.dtype("x"), shape);
    c.out(c.type("dtype"), shape);
}

/// V1 writes a window as [1, height, width, 1] whatever the layout, and has no data_format: NCHW. Its argmax
/// is read by its gradient only; here it has a place for each result, as in V3, where CANN packs a bit mask.
void max_pool_with_argmax_v1(Context& c) {
    auto shape = [&] {
        Dims x = c.dims("x"), sizes = list(c, "ksize", 4), strides = list(c, "strides", 4),
             pads = list(c, "pads", 4), dilations = list(c, "dilation", 4);
        check_rank(c, x, 4, "x");
        for (std::size_t at = 0; at < 2; ++at) {
            int64_t& size = x[2 + at];
            Window window{sizes[1 + at], strides[1 + at], dilations[1 + at],  pads[1 + at],
                          pads[1 + at],  false,           c.flag("ceil_mode")};
            size = clipped(c, windows(c, size, window), size, window);
        }
        return x;
    };
    c.out(c.dtype("x"), shape);
    c.out(c.type("dtype"), shape);
}

void like_first(Context& c) { c.out(c.in(0).type); }

void pool_grad_by_shape(Context& c) {
    c.out(c.dtype("input_grad"), [&] { return c.need_value("orig_input_shape"); });
}

Dims with_last_two(const Context& c, Key x, const Dims& size) {
    Dims out = c.dims(x);
    if (out.size() < 2 || size.size() != 2) c.fail("height and width are two sizes of an image");
    std::copy(size.begin(), size.end(), out.end() - 2);
    return out;
}

void adaptive_pool(Context& c) {
    c.out(c.dtype("x"), [&] { return with_last_two(c, "x", c.integers("output_size")); });
}

void adaptive_pool_grad(Context& c) {
    c.out(c.dtype("input_grad"), [&] { return c.integers("orig_input_shape"); });
}

Dims resized(const Context& c) {
    if (c.ranked(0)) check_rank(c, c.dims(0), 4, "the image");
    return with_last_two(c, 0, c.value("size").value_or(Dims(2, kUnknown)));
}

void resize_bilinear(Context& c) {
    c.out(c.type("dtype"), [&] { return resized(c); });
}

void resize(Context& c) {
    c.out(c.dtype(0), [&] { return resized(c); });
}

void resize_bilinear_grad(Context& c) { c.out(c.in("original_image").type); }

constexpr Rule kRules[] = {
    {"AdaptiveAvgPool2d", adaptive_pool},
    {"AdaptiveAvgPool2dGrad", adaptive_pool_grad},
    {"AvgPool", pool},
    {"AvgPoolGrad", pool_grad_by_shape, {"orig_input_shape"}},
    {"AvgPoolV2", pool_by_mode},
    {"AvgPoolV2Grad", pool_grad_by_shape, {"orig_input_shape"}},
    {"Conv2D", conv_2d},
    {"Conv2DBackpropFilter", backprop, {"filter_size"}},
    {"Conv2DBackpropFilterD", backprop_filter_d},
    {"Conv2DBackpropInput", backprop, {"input_size"}},
    {"Conv2DBackpropInputD", backprop_input_d},
    {"Conv2DTranspose", conv_2d_transpose, {"input_size"}},
    {"Conv3D", conv_3d},
    {"Conv3DBackpropFilter", backprop, {"filter_size"}},
    {"Conv3DBackpropInput", backprop, {"input_size"}},
    {"Conv3DTranspose", conv_3d_transpose, {"input_size"}},
    {"DepthwiseConv2D", depthwise_conv_2d},
    {"DepthwiseConv2DBackpropFilter", backprop, {"filter_size"}},
    {"DepthwiseConv2DBackpropInput", backprop, {"input_size"}},
    {"MaxPool", pool},
    {"MaxPoolGrad", like_first},
    {"MaxPoolGradWithArgmaxV1", like_first},
    {"MaxPoolGradWithArgmaxV2", like_first},
    {"MaxPoolGradWithArgmaxV3", like_first},
    {"MaxPoolV3", pool_by_mode},
    {"MaxPoolV3Grad", like_first},
    {"MaxPoolWithArgmaxV1", max_pool_with_argmax_v1},
    {"MaxPoolWithArgmaxV3", max_pool_with_argmax_v3},
    {"ResizeBilinearV2", resize_bilinear, {"size"}},
    {"ResizeBilinearV2Grad", resize_bilinear_grad},
    {"ResizeNearestNeighborV2", resize, {"size"}},
    {"ResizeNearestNeighborV2Grad", resize, {"size"}},
};

}  // namespace

std::span<const Rule> conv_rules() { return kRules; }

}  // namespace npu::graph
