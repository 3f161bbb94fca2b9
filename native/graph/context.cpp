#include "graph/context.h"

#include "graph/attributes.h"
#include "graph/wire.h"

namespace npu::graph {
namespace {

/// The shape that a rule computes cannot be known yet. Never leaves this file.
struct NotKnown {};

constexpr int64_t kGeUndefined = 28;

}  // namespace

Context::Context(const OperatorDef& op, const Attributes& attributes, std::span<const Operand> inputs,
                 std::span<const std::string> names, std::size_t outputs)
    : op(op),
      output_count(outputs),
      attributes_(attributes),
      inputs_(inputs),
      spans_(input_spans(op, inputs.size(), names)) {
    for (std::size_t at = 0; at < spans_.size(); ++at) {
        const Port& port = op.inputs[at];
        auto operands = inputs_.subspan(spans_[at].first, spans_[at].count);
        if (port.arity == Arity::required && operands.empty()) fail("its input " + port.name + " is missing");
        for (const Operand& operand : operands) {
            if (port.arity != Arity::optional && !operand.type.present())
                fail("its input " + port.name + " is missing");
            check_type(op, port, operand.type.dtype);
        }
    }
}

std::size_t Context::place_of(Key input) const {
    if (!input.name) return input.place;
    for (std::size_t at = 0; at < op.inputs.size(); ++at)
        if (op.inputs[at].name == input.name) return at;
    throw std::logic_error("the rule of " + op.name +
                           " asks for an input that it does not have: " + input.name);
}

std::span<const Operand> Context::all(Key input) const {
    const Span& span = spans_.at(place_of(input));
    return inputs_.subspan(span.first, span.count);
}

bool Context::has(Key input) const {
    auto operands = all(input);
    return !operands.empty() && operands[0].type.present();
}

const Operand& Context::in(Key input) const {
    if (!has(input)) fail("its input " + op.inputs.at(place_of(input)).name + " is missing");
    return all(input)[0];
}

const Dims& Context::dims(Key input) const {
    const TensorType& type = in(input).type;
    if (!type.ranked) throw NotKnown{};
    return type.dims;
}

std::optional<Dims> Context::value(Key input) const {
    const Constant* value = in(input).value;
    if (!value) return std::nullopt;
    try {
        return graph::integers(*value);
    } catch (const std::invalid_argument& error) {
        fail("its input " + op.inputs.at(place_of(input)).name + " decides a shape: " + error.what());
    }
}

Dims Context::need_value(Key input) const {
    auto known = value(input);
    if (!known) throw NotKnown{};
    return *std::move(known);
}

int64_t Context::need_scalar(Key input) const {
    Dims known = need_value(input);
    if (known.size() != 1) fail("its input " + op.inputs.at(place_of(input)).name + " should be one number");
    return known[0];
}

void Context::unknown() const { throw NotKnown{}; }

bool Context::given(std::string_view name) const {
    const AttributeDef* def = op.attribute(name);
    return attributes_.contains(name) || (def && def->fallback);
}

const Attribute& Context::attribute(std::string_view name) const {
    auto found = attributes_.find(name);
    if (found != attributes_.end()) return found->second;
    const AttributeDef* def = op.attribute(name);
    if (!def)
        throw std::logic_error("the rule of " + op.name +
                               " asks for an attribute that it does not have: " + std::string(name));
    if (!def->fallback) fail("its attribute " + quoted(name) + " is missing");
    return *def->fallback;
}

template <class T>
const T& Context::attribute_as(std::string_view name) const {
    const Attribute& value = attribute(name);
    if (auto* held = std::get_if<T>(&value)) return *held;
    fail("its attribute " + quoted(name) + " is not of the type " + op.attribute(name)->type);
}

int64_t Context::integer(std::string_view name) const { return attribute_as<int64_t>(name); }
double Context::real(std::string_view name) const { return attribute_as<double>(name); }
bool Context::flag(std::string_view name) const { return attribute_as<bool>(name); }
const std::string& Context::text(std::string_view name) const { return attribute_as<std::string>(name); }
Dims Context::integers(std::string_view name) const { return attribute_as<Dims>(name); }
std::vector<bool> Context::flags(std::string_view name) const {
    return attribute_as<std::vector<bool>>(name);
}

DataType Context::type(std::string_view name) const {
    const Attribute& value = attribute(name);
    if (auto* type = std::get_if<TypeAttribute>(&value)) return type->value;
    int64_t number = attribute_as<int64_t>(name);
    auto type = static_cast<DataType>(number);
    if (number == kGeUndefined || number < 0) return ACL_DT_UNDEFINED;
    if (number > INT32_MAX || dtype_name(type) == std::string_view("undefined"))
        fail("its attribute " + quoted(name) + " is " + std::to_string(number) +
             ", and no data type has that number");
    return type;
}

std::shared_ptr<const Constant> Context::constant(std::string_view name) const {
    auto found = attributes_.find(name);
    if (found == attributes_.end()) return nullptr;
    return attribute_as<std::shared_ptr<const Constant>>(name);
}

void Context::out(DataType dtype, const ShapeRule& shape) {
    TensorType type{dtype, {}, true};
    try {
        type.dims = shape();
    } catch (const NotKnown&) {
        type.ranked = false;
    }
    results.push_back({std::move(type), {}});
}

void Context::out(DataType dtype, const ShapeRule& shape, const ShapeRule& bound) {
    out(dtype, shape);
    if (results.back().type.is_static()) return;
    try {
        Dims largest = bound();
        for (int64_t size : largest)
            if (size < 0) return;
        results.back().bound = std::move(largest);
    } catch (const NotKnown&) {
    }
}

void Context::fail(const std::string& what) const {
    std::string listed;
    for (std::size_t at = 0; at < spans_.size(); ++at)
        for (const Operand& operand : inputs_.subspan(spans_[at].first, spans_[at].count))
            if (operand.type.present())
                listed += (listed.empty() ? "" : ", ") + op.inputs[at].name + " " + operand.type.text();
    throw GraphError(op.name + ": " + what + (listed.empty() ? "" : " (" + listed + ")"));
}

}  // namespace npu::graph
