// Operators that move elements: reshapes, permutations, joins and splits. Cut-outs and paddings are in
// infer_slice.cpp.
#include <algorithm>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

void like_x(Context& c) { c.out(c.in(0).type); }

/// One -1 takes what is left. 0 copies the size of x, unless x is empty: then it is a size.
Dims reshaped(const Context& c, const Dims& x, Dims shape) {
    bool empty = std::ranges::find(x, 0) != x.end();
    std::ptrdiff_t rest = -1;
    for (std::size_t at = 0; at < shape.size(); ++at) {
        if (shape[at] < -1) c.fail("the shape has the size " + std::to_string(shape[at]));
        if (shape[at] == 0 && !empty) {
            if (at >= x.size()) c.fail("a size 0 copies that of x, which has not so many dimensions");
            shape[at] = x[at];
            if (shape[at] < 0) return shape[at] = kUnknown, shape;  // cannot be checked any further
        } else if (shape[at] == -1) {
            if (rest >= 0) c.fail("the shape has more than one -1");
            rest = static_cast<std::ptrdiff_t>(at);
        }
    }
    int64_t have = product(c, x), known = 1;
    for (std::size_t at = 0; at < shape.size(); ++at)
        if (static_cast<std::ptrdiff_t>(at) != rest) known = product(c, Dims{known, shape[at]});
    if (have < 0 || known < 0) return shape;
    if (rest < 0 ? known != have : known == 0 || have % known != 0)
        c.fail("x has " + std::to_string(have) + " elements, and the shape " +
               TensorType{c.dtype("x"), shape, true}.text() + " does not hold them");
    if (rest >= 0) shape[rest] = have / known;
    return shape;
}

/// `axis` and `num_axes` (of Caffe) limit the reshape to some dimensions.
void reshape(Context& c) {
    c.out(c.dtype("x"), [&] {
        auto target = c.value("shape");
        int64_t count = c.integer("num_axes"), axis = c.integer("axis");
        if (!target) {
            if (axis != 0 || count != -1) c.unknown();
            return unknown_of_length(c, "shape");
        }
        if (axis == 0 && count == -1) {
            if (!c.ranked("x") && std::ranges::all_of(*target, [](int64_t size) { return size != 0; }))
                return *target;
            return reshaped(c, c.dims("x"), *target);
        }
        const Dims& x = c.dims("x");
        auto rank = static_cast<int64_t>(x.size());
        if (axis < 0) axis = plus(c, axis, rank + 1);
        int64_t end = count == -1 ? rank : plus(c, axis, count);
        if (axis < 0 || axis > end || end > rank)
            c.fail("its attributes axis and num_axes do not fit the rank of x");
        Dims out(x.begin(), x.begin() + axis),
            middle = reshaped(c, Dims(x.begin() + axis, x.begin() + end), *target);
        out.insert(out.end(), middle.begin(), middle.end());
        out.insert(out.end(), x.begin() + end, x.end());
        return out;
    });
}

Dims squeezed(const Context& c, const Dims& axes) {
    const Dims& x = c.dims("x");
    Dims out;
    std::vector<bool> gone(x.size() + 1, false);
    for (int64_t axis : axes) gone[axis_of(c, axis, x.size())] = true;
    for (std::size_t at = 0; at < x.size(); ++at) {
        if (axes.empty() && x[at] < 0) c.unknown();
        bool one = same_size(x[at], 1);
        if (gone[at] && !one)
            c.fail("axis " + std::to_string(at) + " has the size " + std::to_string(x[at]) + ", not 1");
        if (axes.empty() ? !one : !gone[at]) out.push_back(x[at]);
    }
    return out;
}

void squeeze(Context& c) {
    c.out(c.dtype("x"), [&] { return squeezed(c, c.integers("axis")); });
}

Dims unsqueezed(const Context& c, const Dims& x, const Dims& axes) {
    std::size_t rank = x.size() + axes.size();
    std::vector<bool> added(rank, false);
    for (int64_t axis : axes) {
        std::size_t at = axis_of(c, axis, rank);
        if (added[at]) c.fail("the axis " + std::to_string(axis) + " is given twice");
        added[at] = true;
    }
    Dims out;
    auto size = x.begin();
    for (std::size_t at = 0; at < rank; ++at) out.push_back(added[at] ? 1 : *size++);
    return out;
}

void unsqueeze(Context& c) {
    c.out(c.dtype("x"), [&] { return unsqueezed(c, c.dims("x"), c.integers("axes")); });
}

void expand_dims(Context& c) {
    c.out(c.dtype("x"), [&] {
        if (!c.value("axis")) return Dims(c.dims("x").size() + 1, kUnknown);
        return unsqueezed(c, c.dims("x"), {c.need_scalar("axis")});
    });
}

/// Two dimensions: those before the axis, and the rest.
void flatten(Context& c) {
    c.out(c.dtype("x"), [&] {
        const Dims& x = c.dims("x");
        int64_t axis = c.integer("axis"), rank = c.rank("x");
        if (axis < -rank || axis > rank) c.fail("there is no axis " + std::to_string(axis));
        auto middle = x.begin() + (axis < 0 ? axis + rank : axis);
        return Dims{product(c, {x.begin(), middle}), product(c, {middle, x.end()})};
    });
}

void flatten_v2(Context& c) {
    c.out(c.dtype("x"), [&] {
        const Dims& x = c.dims("x");
        if (x.empty()) return Dims{1};
        std::size_t first = axis_of(c, c.rank("x") == 1 ? 0 : c.integer("axis"), x.size()),
                    last = axis_of(c, c.integer("end_axis"), x.size());
        if (first > last) c.fail("its attribute axis lies behind end_axis");
        Dims out(x.begin(), x.begin() + first);
        out.push_back(product(c, std::span(x).subspan(first, last - first + 1)));
        out.insert(out.end(), x.begin() + last + 1, x.end());
        return out;
    });
}

Dims permuted(const Context& c, const Dims& x, const Dims& perm) {
    if (perm.size() != x.size())
        c.fail("perm has " + std::to_string(perm.size()) + " entries, and x " + std::to_string(x.size()) +
               " dimensions");
    std::vector<bool> used(x.size(), false);
    Dims out;
    for (int64_t axis : perm) {
        std::size_t at = axis_of(c, axis, x.size());
        if (used[at]) c.fail("perm names axis " + std::to_string(axis) + " twice");
        used[at] = true;
        out.push_back(x[at]);
    }
    return out;
}

void transpose(Context& c) {
    c.out(c.dtype("x"), [&] {
        auto perm = c.value("perm");
        return perm ? permuted(c, c.dims("x"), *perm) : Dims(c.dims("x").size(), kUnknown);
    });
}

void transpose_d(Context& c) {
    c.out(c.dtype("x"), [&] { return permuted(c, c.dims("x"), c.integers("perm")); });
}

/// A transpose and a reshape in one.
void confusion_transpose_d(Context& c) {
    c.out(c.dtype("x"), [&] {
        Dims perm = c.integers("perm"), shape = c.integers("shape");
        if (c.flag("transpose_first")) return reshaped(c, permuted(c, c.dims("x"), perm), shape);
        return permuted(c, reshaped(c, c.dims("x"), shape), perm);
    });
}

/// -1 keeps the size of x.
Dims broadcast_to(const Context& c, const Dims& x, Dims shape) {
    if (shape.size() < x.size()) c.fail("the shape has fewer dimensions than x");
    std::size_t offset = shape.size() - x.size();
    for (std::size_t at = 0; at < shape.size(); ++at) {
        int64_t have = at < offset ? 1 : x[at - offset];
        if (shape[at] == -1) shape[at] = have;
        if (shape[at] < -1 || (have != 1 && !same_size(have, shape[at])))
            c.fail("x does not broadcast to the shape " + TensorType{c.dtype("x"), shape, true}.text());
    }
    return shape;
}

void broadcast_to_input(Context& c) {
    c.out(c.dtype("x"), [&] {
        auto shape = c.value("shape");
        return shape ? broadcast_to(c, c.dims("x"), *shape) : unknown_of_length(c, "shape");
    });
}

/// ONNX's: both sides broadcast.
void expand(Context& c) {
    c.out(c.dtype("x"), [&] { return broadcast(c, c.dims("x"), c.need_value("shape")); });
}

void expand_d(Context& c) {
    c.out(c.dtype("x"), [&] { return broadcast(c, c.dims("x"), c.integers("shape")); });
}

Dims tiled(const Context& c, Dims x, const Dims& multiples) {
    if (multiples.size() < x.size()) c.fail("multiples has fewer entries than x has dimensions");
    x.insert(x.begin(), multiples.size() - x.size(), 1);
    for (std::size_t at = 0; at < x.size(); ++at) {
        if (multiples[at] < 0) c.fail("multiples has the entry " + std::to_string(multiples[at]));
        x[at] = product(c, Dims{x[at], multiples[at]});
    }
    return x;
}

void tile(Context& c) {
    c.out(c.dtype("x"), [&] {
        auto multiples = c.value("multiples");
        return multiples ? tiled(c, c.dims("x"), *multiples) : unknown_of_length(c, "multiples");
    });
}

void tile_d(Context& c) {
    c.out(c.dtype("x"), [&] { return tiled(c, c.dims("x"), c.integers("multiples")); });
}

void permute(Context& c) {
    c.out(c.dtype("x"), [&] { return permuted(c, c.dims("x"), c.integers("order")); });
}

/// The rank of an output whose sizes are an input.
void as_strided(Context& c) {
    c.out(c.dtype("x"), [&] { return c.value("size").value_or(unknown_of_length(c, "size")); });
}

void broadcast_to_d(Context& c) {
    c.out(c.dtype("x"), [&] { return broadcast_to(c, c.dims("x"), c.integers("shape")); });
}

void squeeze_v3(Context& c) {
    c.out(c.dtype("x"), [&] { return squeezed(c, c.has("axes") ? c.need_value("axes") : Dims{}); });
}

void unsqueeze_v2(Context& c) {
    c.out(c.dtype("x"), [&] { return unsqueezed(c, c.dims("x"), c.integers("axis")); });
}

void unsqueeze_v3(Context& c) {
    c.out(c.dtype("x"), [&] { return unsqueezed(c, c.dims("x"), c.need_value("axes")); });
}

/// The bytes read as another type: a wider one takes the last dimension, a narrower one adds one. With
/// keep_dim the last one scales.
void bitcast(Context& c) {
    DataType to = c.type("type");
    auto from_size = static_cast<int64_t>(element_size(c.dtype("x"))),
         to_size = static_cast<int64_t>(element_size(to));
    c.out(to, [&]() -> Dims {
        Dims x = c.dims("x");
        if (from_size == to_size && from_size > 0) return x;
        if (from_size == 0 || to_size == 0)
            c.fail(std::string("a cast of bits to ") + dtype_name(to) + " is not supported");
        if (c.flag("keep_dim")) {
            if (x.empty() || (x.back() >= 0 && times(c, x.back(), from_size) % to_size != 0))
                c.fail("the last dimension does not fit the other type");
            if (x.back() >= 0) x.back() = x.back() * from_size / to_size;
        } else if (from_size > to_size) {
            x.push_back(from_size / to_size);
        } else {
            if (x.empty() || !same_size(x.back(), to_size / from_size))
                c.fail("the last dimension should be one element of the other type");
            x.pop_back();
        }
        return x;
    });
}

constexpr Rule kRules[] = {
    {"AsStrided", as_strided, {"size"}},
    {"Bitcast", bitcast},
    {"BroadcastToD", broadcast_to_d},
    {"Permute", permute},
    {"SqueezeV2", squeeze},
    {"SqueezeV3", squeeze_v3, {"axes"}},
    {"Trilu", like_x},
    {"UnsqueezeV2", unsqueeze_v2},
    {"UnsqueezeV3", unsqueeze_v3, {"axes"}},
    {"BroadcastTo", broadcast_to_input, {"shape"}},
    {"ConfusionTransposeD", confusion_transpose_d},
    {"Expand", expand, {"shape"}},
    {"ExpandD", expand_d},
    {"ExpandDims", expand_dims, {"axis"}},
    {"Flatten", flatten},
    {"FlattenV2", flatten_v2},
    {"Reshape", reshape, {"shape"}},
    {"ReverseV2", like_x},
    {"ReverseV2D", like_x},
    {"Roll", like_x},
    {"RollV2", like_x},
    {"Squeeze", squeeze},
    {"Tile", tile, {"multiples"}},
    {"TileD", tile_d},
    {"Transpose", transpose, {"perm"}},
    {"TransposeD", transpose_d},
    {"Tril", like_x},
    {"Triu", like_x},
    {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const Rule> movement_rules() { return kRules; }

}  // namespace npu::graph
