// Operators that join tensors or take them apart.
#include <algorithm>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

/// The operands of a dynamic input agree in data type; returned.
DataType element_dtype(const Context& c) {
    auto operands = c.all("x");
    if (operands.empty()) c.fail("it needs at least one x");
    for (const Operand& operand : operands)
        if (operand.type.dtype != operands[0].type.dtype) c.fail("the elements of x differ in data type");
    return operands[0].type.dtype;
}

Dims concatenated(const Context& c, std::optional<int64_t> axis) {
    Dims out;
    bool first = true;
    for (const Operand& operand : c.all("x")) {
        if (!operand.type.ranked) c.unknown();
        const Dims& x = operand.type.dims;
        if (first) {
            out = axis ? x : Dims(x.size(), kUnknown);
            first = false;
            continue;
        }
        if (x.size() != out.size()) c.fail("the elements of x differ in rank");
        if (!axis) continue;
        std::size_t along = axis_of(c, *axis, out.size());
        for (std::size_t at = 0; at < out.size(); ++at) {
            if (at == along) {
                out[at] = sum_sizes(c, out[at], x[at]);
            } else {
                if (!same_size(out[at], x[at]))
                    c.fail("the elements of x differ in dimension " + std::to_string(at));
                if (out[at] < 0) out[at] = x[at];
            }
        }
    }
    if (axis) axis_of(c, *axis, out.size());
    return out;
}

void concat(Context& c) {
    c.out(element_dtype(c), [&] {
        return concatenated(
            c, c.value("concat_dim") ? std::optional(c.need_scalar("concat_dim")) : std::nullopt);
    });
}

void concat_d(Context& c) {
    c.out(element_dtype(c), [&] { return concatenated(c, c.integer("concat_dim")); });
}

void pack(Context& c) {
    c.out(element_dtype(c), [&] {
        Dims x = c.dims("x");
        for (const Operand& operand : c.all("x")) {
            if (!operand.type.ranked) c.unknown();
            x = agreed(c, x, operand.type.dims);
        }
        std::size_t axis = axis_of(c, c.integer("axis"), x.size() + 1);
        x.insert(x.begin() + axis, static_cast<int64_t>(c.all("x").size()));
        return x;
    });
}

constexpr int64_t kMostOutputs = 1 << 20;

int64_t output_number(const Context& c, const char* attribute) {
    int64_t count = c.integer(attribute);
    if (count < 0 || count > kMostOutputs)
        c.fail(std::string("its attribute ") + attribute + " is " + std::to_string(count));
    if (c.output_count && static_cast<int64_t>(c.output_count) != count)
        c.fail(std::string("its attribute ") + attribute + " is " + std::to_string(count) +
               ", and the node has " + std::to_string(c.output_count) + " outputs");
    return count;
}

void unpack(Context& c) {
    int64_t count = output_number(c, "num");
    for (int64_t output = 0; output < count; ++output)
        c.out(c.dtype("x"), [&] {
            const Dims& x = c.dims("x");
            if (x.empty()) c.fail("a scalar cannot be taken apart");
            std::size_t axis = axis_of(c, c.integer("axis"), x.size());
            if (!same_size(x[axis], count))
                c.fail("its attribute num is " + std::to_string(count) + ", and the axis has " +
                       std::to_string(x[axis]) + " elements");
            return reduced(c, x, {c.integer("axis")}, false);
        });
}

Dims part_of(const Context& c, std::optional<int64_t> axis, int64_t parts) {
    Dims x = c.dims("x");
    if (!axis) return Dims(x.size(), kUnknown);
    if (x.empty()) c.fail("a scalar cannot be split");
    int64_t& size = x[axis_of(c, *axis, x.size())];
    if (parts == 0 || (size >= 0 && size % parts != 0))
        c.fail(std::to_string(size) + " elements do not split into " + std::to_string(parts) +
               " equal parts");
    if (size >= 0) size /= parts;
    return x;
}

std::optional<int64_t> split_dim(const Context& c) {
    return c.value("split_dim") ? std::optional(c.need_scalar("split_dim")) : std::nullopt;
}

void split(Context& c) {
    int64_t parts = output_number(c, "num_split");
    auto axis = split_dim(c);
    for (int64_t output = 0; output < parts; ++output)
        c.out(c.dtype("x"), [&] { return part_of(c, axis, parts); });
}

void split_d(Context& c) {
    int64_t parts = output_number(c, "num_split");
    for (int64_t output = 0; output < parts; ++output)
        c.out(c.dtype("x"), [&] { return part_of(c, c.integer("split_dim"), parts); });
}

/// The sizes with their one -1 filled in, against the size of the axis.
Dims filled_sizes(const Context& c, Dims sizes, int64_t whole) {
    int64_t known = 0, open = std::ranges::count(sizes, -1);
    for (int64_t size : sizes) {
        if (size < -1) c.fail("size_splits has the entry " + std::to_string(size));
        if (size > 0) known = plus(c, known, size);
    }
    if (open > 1) c.fail("size_splits has more than one -1");
    if (whole < 0) return sizes;
    if (open ? known > whole : known != whole)
        c.fail("size_splits adds up to " + std::to_string(known) + ", and the axis has " +
               std::to_string(whole) + " elements");
    std::ranges::replace(sizes, -1, whole - known);
    return sizes;
}

void split_by_sizes(Context& c, const std::optional<Dims>& sizes, std::optional<int64_t> axis) {
    int64_t parts = output_number(c, "num_split");
    if (sizes && static_cast<int64_t>(sizes->size()) != parts)
        c.fail("size_splits has " + std::to_string(sizes->size()) + " entries, and num_split is " +
               std::to_string(parts));
    for (int64_t output = 0; output < parts; ++output)
        c.out(c.dtype("x"), [&] {
            Dims x = c.dims("x");
            if (!axis) return Dims(x.size(), kUnknown);
            if (x.empty()) c.fail("a scalar cannot be split");
            int64_t& size = x[axis_of(c, *axis, x.size())];
            size = sizes ? filled_sizes(c, *sizes, size)[output] : kUnknown;
            return x;
        });
}

void split_v(Context& c) { split_by_sizes(c, c.value("size_splits"), split_dim(c)); }
void split_v_d(Context& c) { split_by_sizes(c, c.integers("size_splits"), c.integer("split_dim")); }

constexpr Rule kRules[] = {
    {"Concat", concat, {"concat_dim"}},
    {"ConcatD", concat_d},
    {"ConcatV2", concat, {"concat_dim"}},
    {"ConcatV2D", concat_d},
    {"Pack", pack},
    {"Split", split, {"split_dim"}},
    {"SplitD", split_d},
    {"SplitV", split_v, {"size_splits", "split_dim"}},
    {"SplitVD", split_v_d},
    {"Unpack", unpack},
};

}  // namespace

std::span<const Rule> joining_rules() { return kRules; }

}  // namespace npu::graph
