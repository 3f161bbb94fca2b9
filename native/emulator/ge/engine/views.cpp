#include "ge/engine/views.h"

#include <ATen/TensorUtils.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/strided_slice.h"

namespace npu::ge {
namespace {

using Tensors = std::vector<at::Tensor>;
using Types = std::vector<graph::Inferred>;
using Rule = std::optional<Tensors> (*)(const Step&, const Tensors&, const Types&);

std::vector<int64_t> numbers(const at::Tensor& tensor) {
    const at::Tensor wide = tensor.reshape({-1}).to(at::kLong).contiguous();
    return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

/// A list from the attribute of the D form, or from input `position`.
std::vector<int64_t> list(const Step& step, const Tensors& inputs, std::size_t position,
                          const char* attribute) {
    if (inputs.size() > position && inputs[position].defined()) return numbers(inputs[position]);
    return std::get<std::vector<int64_t>>(step.attributes.at(attribute));
}

int64_t attribute(const Step& step, const char* name) { return std::get<int64_t>(step.attributes.at(name)); }

std::optional<Tensors> reshape(const Step&, const Tensors& inputs, const Types& types) {
    const auto& dims = types[0].type.dims;
    const auto strides = at::detail::computeStride(inputs[0].sizes(), inputs[0].strides(), dims);
    if (!strides) return std::nullopt;
    return Tensors{inputs[0].as_strided(dims, *strides, inputs[0].storage_offset())};
}

std::optional<Tensors> transpose(const Step& step, const Tensors& inputs, const Types&) {
    return Tensors{inputs[0].permute(list(step, inputs, 1, "perm"))};
}

std::optional<Tensors> broadcast(const Step&, const Tensors& inputs, const Types& types) {
    return Tensors{inputs[0].expand(types[0].type.dims)};
}

/// Whether an input that decides the view is known: while compiling, what an operator computes is not.
bool has_value(const Tensors& inputs, std::size_t position) {
    return inputs.size() <= position || !inputs[position].defined() || !inputs[position].is_meta();
}

std::optional<Tensors> slice(const Step& step, const Tensors& inputs, const Types& types) {
    if (!has_value(inputs, 1)) return std::nullopt;
    const auto begin = list(step, inputs, 1, "offsets");
    at::Tensor view = inputs[0];
    for (std::size_t i = 0; i < begin.size(); ++i)
        view = view.narrow(static_cast<int64_t>(i), begin[i], types[0].type.dims[i]);
    return Tensors{view};
}

/// Nothing where it goes backwards, for which there are no views.
std::optional<Tensors> strided_slice(const Step& step, const Tensors& inputs, const Types& types) {
    for (std::size_t i = 1; i < inputs.size(); ++i)
        if (!has_value(inputs, i)) return std::nullopt;
    const auto begin = list(step, inputs, 1, "begin"), end = list(step, inputs, 2, "end");
    const bool spelt = inputs.size() > 3 || step.attributes.contains("strides");
    const auto strides = spelt ? list(step, inputs, 3, "strides") : std::vector<int64_t>(begin.size(), 1);
    if (std::ranges::any_of(strides, [](int64_t stride) { return stride <= 0; })) return std::nullopt;
    const auto mask = [&](const char* name) { return attribute(step, name); };
    at::Tensor view =
        emulator::strided_slice(inputs[0], begin, end, strides, mask("begin_mask"), mask("end_mask"),
                                mask("ellipsis_mask"), mask("new_axis_mask"), mask("shrink_axis_mask"));
    if (view.sizes() != at::IntArrayRef(types[0].type.dims)) return std::nullopt;
    return Tensors{std::move(view)};
}

/// The same bits under a type of the same size.
std::optional<Tensors> bitcast(const Step&, const Tensors& inputs, const Types& types) {
    const auto type = scalar_type(types[0].type.dtype);
    if (static_cast<int64_t>(at::elementSize(type)) != inputs[0].element_size()) return std::nullopt;
    return Tensors{inputs[0].view(type)};
}

/// Pieces one after the other along the one dimension in which they are smaller than the input.
std::optional<Tensors> split(const at::Tensor& input, int64_t dim, const Types& types) {
    Tensors views;
    int64_t start = 0;
    for (const auto& type : types) {
        const int64_t size = type.type.dims.at(dim);
        views.push_back(input.narrow(dim, start, size));
        start += size;
    }
    return views;
}

int64_t wrapped(int64_t dim, const at::Tensor& tensor) { return dim < 0 ? dim + tensor.dim() : dim; }

const std::map<std::string_view, Rule>& rules() {
    static const std::map<std::string_view, Rule> table{
        {"Transpose", transpose},
        {"TransposeD", transpose},
        {"BroadcastTo", broadcast},
        {"BroadcastToD", broadcast},
        {"Bitcast", bitcast},
        {"Slice", slice},
        {"SliceD", slice},
        {"StridedSlice", strided_slice},
        {"StridedSliceD", strided_slice},
        {"SplitV", [](const Step&, const Tensors& x,
                      const Types& types) { return split(x[0], wrapped(numbers(x[2]).at(0), x[0]), types); }},
        {"SplitVD",
         [](const Step& step, const Tensors& x, const Types& types) {
             return split(x[0], wrapped(attribute(step, "split_dim"), x[0]), types);
         }},
        {"SplitD",
         [](const Step& step, const Tensors& x, const Types& types) {
             return split(x[0], wrapped(attribute(step, "split_dim"), x[0]), types);
         }},
    };
    return table;
}

}  // namespace

bool only_reshapes(std::string_view type) {
    static const std::set<std::string_view> types{"Identity",   "Reshape",   "Squeeze",     "SqueezeV2",
                                                  "SqueezeV3",  "Unsqueeze", "UnsqueezeV2", "UnsqueezeV3",
                                                  "ExpandDims", "Flatten",   "FlattenV2"};
    return types.contains(type);
}

bool makes_views(std::string_view type) { return only_reshapes(type) || rules().contains(type); }

std::optional<Tensors> make_views(const Step& step, const Tensors& inputs, const Types& types) {
    if (only_reshapes(step.op->name)) return reshape(step, inputs, types);
    return rules().at(step.op->name)(step, inputs, types);
}

at::Tensor shape_of(const Value& value) {
    const auto options = at::TensorOptions().dtype(scalar_type(value.type.dtype)).device(at::kMeta);
    return at::empty({0}, options).as_strided(value.type.dims, value.strides, value.offset);
}

}  // namespace npu::ge
