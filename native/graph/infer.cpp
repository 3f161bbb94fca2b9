#include "graph/infer.h"

#include <algorithm>
#include <unordered_map>

#include "graph/context.h"

namespace npu::graph {
namespace {

using RuleMap = std::unordered_map<std::string_view, const Rule*>;

const RuleMap& rules() {
    static const RuleMap all = [] {
        RuleMap map;
        for (auto table : {elementwise_rules, reduce_rules, movement_rules, joining_rules, slice_rules,
                           indexing_rules, creation_rules, matmul_rules, norm_rules, attention_rules,
                           conv_rules, loss_rules, collective_rules, state_rules})
            for (const Rule& rule : table())
                if (!map.emplace(rule.type, &rule).second)
                    throw std::logic_error(std::string("two rules of ") + rule.type);
        return map;
    }();
    return all;
}

const Rule* find_rule(std::string_view type) {
    auto found = rules().find(type);
    return found == rules().end() ? nullptr : found->second;
}

/// A result that the catalogue does not list: the operator does not do this, whatever its rule says.
void check_outputs(const Context& context) {
    const OperatorDef& op = context.op;
    bool dynamic =
        std::ranges::any_of(op.outputs, [](const Port& port) { return port.arity == Arity::dynamic; });
    for (std::size_t at = 0; at < context.results.size(); ++at) {
        const Port& port = op.outputs.at(dynamic ? 0 : at);
        DataType type = context.results[at].type.dtype;
        if (dynamic && op.outputs.size() > 1) return;
        if (port.types.empty() || type == ACL_DT_UNDEFINED ||
            std::ranges::find(port.types, type) != port.types.end())
            continue;
        context.fail("its output " + port.name + " would be " + dtype_name(type) +
                     ", which CANN's catalogue does not list");
    }
}

}  // namespace

std::vector<Inferred> infer(const OperatorDef& op, const Attributes& attributes,
                            std::span<const Operand> inputs, std::span<const std::string> input_names,
                            std::size_t outputs) {
    const Rule* rule = find_rule(op.name);
    if (!rule)
        throw GraphError("there is no rule yet for the shapes of the operator " + op.name +
                         " (native/graph/infer_*.cpp)");
    Context context(op, attributes, inputs, input_names, outputs);
    rule->infer(context);
    check_outputs(context);
    return std::move(context.results);
}

bool has_rule(std::string_view type) { return find_rule(type) != nullptr; }

std::span<const char* const> value_inputs(std::string_view type) {
    const Rule* rule = find_rule(type);
    if (!rule) return {};
    return {rule->values, static_cast<std::size_t>(std::ranges::find(rule->values, nullptr) - rule->values)};
}

std::vector<std::string> inferred_operators() {
    std::vector<std::string> names;
    for (const auto& [name, rule] : rules()) names.emplace_back(name);
    std::ranges::sort(names);
    return names;
}

}  // namespace npu::graph
