#include "ge/engine/fold.h"

#include <algorithm>

namespace npu::ge {
namespace {

constexpr int64_t kKnownValue = 4096;  // elements: larger tensors never decide a shape
constexpr std::size_t kLargestFolded = 1
                                       << 20;  // bytes of one result: more is cheaper to compute than to keep

struct ToRow {
    const Step& step;
    const std::string& name;
    using Out = aclop::AttributeValues::mapped_type;
    template <class T>
    Out operator()(const T& value) const {
        return value;
    }
    Out operator()(const graph::TypeAttribute& type) const { return static_cast<int64_t>(type.value); }
    Out operator()(const std::vector<graph::TypeAttribute>& types) const {
        std::vector<int64_t> numbers;
        for (const auto& type : types) numbers.push_back(type.value);
        return numbers;
    }
    Out operator()(const std::shared_ptr<const graph::Constant>&) const {
        fail_at(step, "its attribute " + name + " is a tensor, which no kernel takes");
    }
};

bool is_default(const graph::OperatorDef& op, const std::string& name, const graph::Attribute& value) {
    const auto* definition = op.attribute(name);
    return definition != nullptr && definition->fallback && *definition->fallback == value;
}

/// A new number each time, or a state: never folded.
bool is_pure(std::string_view type) {
    for (const char* word : {"Random", "DropOut", "Dropout", "Multinomial", "Assign", "Print"})
        if (type.find(word) != std::string_view::npos) return false;
    return true;
}

at::Tensor as_type(const std::vector<int64_t>& numbers, const TensorType& type) {
    at::Tensor tensor = at::empty({static_cast<int64_t>(numbers.size())}, at::kLong);
    std::ranges::copy(numbers, tensor.mutable_data_ptr<int64_t>());
    return tensor.reshape(type.dims).to(scalar_type(type.dtype));
}

}  // namespace

void bind_row(Step& step) {
    step.kernel = emulator::find_ge(step.op->name);
    if (step.kernel == nullptr)
        fail_at(
            step,
            "this operator is not implemented by the host emulator of CANN; docs/operators.md lists what is");
    for (const auto& span : graph::input_spans(*step.op, step.inputs.size(), step.input_names))
        step.spans.push_back({span.first, span.count});
    for (const auto& [name, value] : step.attributes) {
        const bool named = aclop::names_attribute(*step.kernel, name);
        const bool hint =
            name.starts_with('_') || step.op->attribute(name) == nullptr;  // verify() let it pass
        if (!named && (hint || is_default(*step.op, name, value))) continue;
        step.row_attributes.emplace(name, std::visit(ToRow{step, name}, value));
    }
}

std::vector<graph::Inferred> infer(const Step& step, const std::vector<Known>& inputs) {
    const bool by_value = !graph::value_inputs(step.op->name).empty();
    std::vector<graph::Constant> values;  // stays put: operands point into it
    values.reserve(inputs.size());
    std::vector<graph::Operand> operands;
    for (const auto& [type, elements] : inputs) {
        operands.push_back({type});
        if (!by_value || !elements.defined() || elements.numel() > kKnownValue) continue;
        values.push_back(to_constant(elements, type.dtype));
        operands.back().value = &values.back();
    }
    try {
        return graph::infer(*step.op, step.attributes, operands, step.input_names);
    } catch (const std::exception& error) {
        fail_at(step, error.what());
    }
}

bool answers_shape(std::string_view type) {
    return type == "Shape" || type == "ShapeN" || type == "Size" || type == "Rank";
}

std::vector<at::Tensor> shape_values(const Step& step, const std::vector<TensorType>& inputs,
                                     const std::vector<graph::Inferred>& types) {
    std::vector<at::Tensor> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::vector<int64_t> numbers = inputs[i].dims;
        if (step.op->name == "Size") numbers = {inputs[i].elements()};
        if (step.op->name == "Rank") numbers = {static_cast<int64_t>(inputs[i].dims.size())};
        values.push_back(as_type(numbers, types[i].type));
    }
    return values;
}

std::optional<std::vector<at::Tensor>> fold(const Step& step, const std::vector<Value>& inputs,
                                            const std::vector<graph::Inferred>& types) {
    const auto all = [&](auto&& holds) { return std::ranges::all_of(inputs, holds); };
    if (step.kind == Kind::shape) {
        if (!all([](const Value& value) { return value.type.is_static(); })) return std::nullopt;
        std::vector<TensorType> shapes;
        for (const Value& value : inputs) shapes.push_back(value.type);
        return shape_values(step, shapes, types);
    }
    if (step.kind != Kind::row || !is_pure(step.op->name)) return std::nullopt;
    if (!all([](const Value& value) { return !value.type.present() || value.constant.defined(); }))
        return std::nullopt;
    std::vector<at::Tensor> outputs, arguments;
    std::vector<emulator::TensorArg> targets;
    for (const auto& [type, bound] : types) {
        if (!type.is_static() || !bound.empty() ||
            type.elements() * graph::element_size(type.dtype) > kLargestFolded)
            return std::nullopt;
        outputs.push_back(empty(type));
        targets.push_back({outputs.back()});
    }
    for (const Value& value : inputs) arguments.push_back(value.constant);
    try {
        aclop::RowCall(*step.kernel, arguments, step.row_attributes, targets, step.spans).run();
    } catch (const std::exception& error) {
        fail_at(step, error.what());
    }
    return outputs;
}

bool writes_first_input(const graph::OperatorDef& op) {
    return !op.inputs.empty() && !op.outputs.empty() && op.inputs[0].name == op.outputs[0].name &&
           op.inputs[0].arity == graph::Arity::required;
}

bool is_true(const at::Tensor& condition) {
    if (condition.numel() != 1)
        return condition.numel() > 0;  // as in TensorFlow: a tensor is true if it is not empty
    return condition.item().toDouble() != 0;
}

std::size_t choose(const at::Tensor& condition, bool is_case, std::size_t branches) {
    if (!is_case) return is_true(condition) ? 0 : 1;
    const int64_t index = condition.item().toLong();
    return index < 0 || static_cast<std::size_t>(index) >= branches ? branches - 1
                                                                    : static_cast<std::size_t>(index);
}

}  // namespace npu::ge
