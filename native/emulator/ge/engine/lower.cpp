#include "ge/engine/lower.h"

#include <algorithm>
#include <set>

#include "ge/engine/fold.h"
#include "ge/engine/plan.h"
#include "ge/engine/views.h"

namespace npu::ge {
namespace {

using graph::Graph;
using graph::Model;
using graph::Node;

constexpr int kMaxDepth = 64;  // of calls and branches within each other
/// The types that both branches, or two turns of a loop, agree on.
TensorType merge(const TensorType& a, const TensorType& b, const Node& node) {
    if (a.dtype != b.dtype) fail_at(node, "its subgraphs return " + a.text() + " and " + b.text());
    if (!a.ranked || !b.ranked || a.dims.size() != b.dims.size()) return {a.dtype, {}, false};
    TensorType merged = a;
    for (std::size_t i = 0; i < a.dims.size(); ++i)
        if (a.dims[i] != b.dims[i]) merged.dims[i] = graph::kUnknown;
    return merged;
}

/// Drops steps whose outputs nobody reads, unless they change an input or talk to other ranks.
void drop_dead(Program& program) {
    std::vector<bool> needed(program.values.size());
    for (const int result : program.results) needed[result] = true;
    std::vector<Step> kept;
    for (auto step = program.steps.rbegin(); step != program.steps.rend(); ++step) {
        const bool read = std::ranges::any_of(step->outputs, [&](int output) { return needed[output]; });
        if (!read && !step->writes_input && step->kind != Kind::collective) continue;
        for (const int input : step->inputs)
            if (input >= 0) needed[input] = true;
        kept.push_back(std::move(*step));
    }
    program.steps.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

class Lowering {
  public:
    Lowering(const Model& model, Program& program, int depth)
        : model_(model), program_(program), depth_(depth) {}

    /// A program of its own for a graph that is called with arguments of these types (constants: their
    /// values).
    Program body(const std::string& name, const std::vector<Value>& arguments, const Node& caller) const;

    std::vector<int> graph(const Graph& graph, const std::vector<int>& arguments);
    int add(Value value) { return add_value(program_, std::move(value)); }

  private:
    using Outputs = std::vector<std::vector<int>>;

    std::vector<int> node(const Node& node, const std::vector<int>& inputs);
    std::vector<int> plain(const Node& node, const std::vector<int>& inputs);
    std::vector<int> call(const Node& node, const std::vector<int>& inputs);
    std::vector<int> branch(const Node& node, const std::vector<int>& inputs);
    std::vector<int> loop(const Node& node, const std::vector<int>& inputs);
    std::vector<int> emit(Step step, const std::vector<graph::Inferred>& types);
    std::vector<int> constants(const Node& node, const std::vector<at::Tensor>& values,
                               const std::vector<graph::Inferred>& types);
    bool changes_nothing(const Step& step, const std::vector<graph::Inferred>& types) const;
    bool as_views(Step& step, const std::vector<graph::Inferred>& types, std::vector<int>& outputs);

    std::vector<graph::Inferred> infer(const Step& step) const;
    std::vector<Value> values(const std::vector<int>& numbers) const;
    const Graph& subgraph(const std::string& name, const Node& caller) const;
    void check_depth(const Node& node) const {
        if (depth_ >= kMaxDepth) fail_at(node, "graphs call each other more than 64 deep");
    }

    const Model& model_;
    Program& program_;
    const int depth_;
    std::set<std::string_view> result_nodes_;  ///< whose outputs the graph returns
};

const Graph& Lowering::subgraph(const std::string& name, const Node& caller) const {
    const Graph* found = model_.find(name);
    if (found == nullptr) fail_at(caller, "the model has no graph '" + name + "'");
    return *found;
}

std::vector<Value> Lowering::values(const std::vector<int>& numbers) const {
    std::vector<Value> found;
    for (const int number : numbers) found.push_back(program_.values[number]);
    return found;
}

Program Lowering::body(const std::string& name, const std::vector<Value>& arguments,
                       const Node& caller) const {
    Program program;
    Lowering lowering(model_, program, depth_ + 1);
    std::vector<int> numbers;
    for (const Value& argument : arguments) {
        const int index = static_cast<int>(numbers.size());
        Value value{argument.type, argument.constant.defined() ? Place::constant : Place::input};
        value.constant = argument.constant;
        value.index = index;
        value.name = "argument " + std::to_string(index);
        numbers.push_back(lowering.add(std::move(value)));
    }
    program.inputs = numbers;
    program.results = lowering.graph(subgraph(name, caller), numbers);
    drop_dead(program);
    return program;
}

std::vector<int> Lowering::graph(const Graph& graph, const std::vector<int>& arguments) {
    Outputs outputs(graph.nodes.size());
    std::vector<int> results;
    for (const Node& last : graph.nodes) {
        if (last.type != "NetOutput") continue;
        for (const auto& edge : last.inputs)
            if (edge.node >= 0) result_nodes_.insert(graph.nodes[edge.node].name);
    }
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& current = graph.nodes[i];
        std::vector<int> inputs;
        for (const auto& edge : current.inputs) {
            if (edge.node >= 0 && static_cast<std::size_t>(edge.output) >= outputs[edge.node].size())
                fail_at(current, "takes output " + std::to_string(edge.output) + " of '" +
                                     graph.nodes[edge.node].name + "', which has " +
                                     std::to_string(outputs[edge.node].size()));
            inputs.push_back(edge.node < 0 ? -1 : outputs[edge.node][edge.output]);
        }
        if (current.type == "NetOutput") {
            results = inputs;
        } else if (current.type == "Data") {
            const auto at = std::ranges::find(graph.data, static_cast<int>(i));
            const std::size_t index = at - graph.data.begin();
            if (index >= arguments.size())
                fail_at(current, "is argument " + std::to_string(index) + ", the caller gives " +
                                     std::to_string(arguments.size()));
            outputs[i] = {arguments[index]};
        } else {
            outputs[i] = node(current, inputs);
        }
    }
    if (std::ranges::count(results, -1) != 0)
        throw graph::GraphError("graph '" + graph.name + "': a result is absent");
    return results;
}

std::vector<int> Lowering::node(const Node& node, const std::vector<int>& inputs) {
    const std::string& type = node.type;
    if (type == "Const" || type == "Constant") {
        const auto found = node.attributes.find("value");
        const auto* value = found == node.attributes.end()
                                ? nullptr
                                : std::get_if<std::shared_ptr<const graph::Constant>>(&found->second);
        if (value == nullptr || *value == nullptr) fail_at(node, "has no value");
        return constants(node, {from_constant(**value)}, {{(*value)->type, {}}});
    }
    if (type == "NoOp") return {};
    if (type == "PartitionedCall" || type == "StatefulPartitionedCall") return call(node, inputs);
    if (type == "If" || type == "StatelessIf" || type == "Case" || type == "StatelessCase")
        return branch(node, inputs);
    if (type == "While" || type == "StatelessWhile") return loop(node, inputs);
    return plain(node, inputs);
}

std::vector<graph::Inferred> Lowering::infer(const Step& step) const {
    std::vector<Known> known;
    for (const int input : step.inputs) {
        if (input < 0) {
            known.emplace_back();
        } else {
            known.push_back({program_.values[input].type, program_.values[input].constant});
        }
    }
    return ge::infer(step, known);
}

std::vector<int> Lowering::constants(const Node& node, const std::vector<at::Tensor>& tensors,
                                     const std::vector<graph::Inferred>& types) {
    std::vector<int> numbers;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        Value value{{types[i].type.dtype, tensors[i].sizes().vec()}, Place::constant};
        value.constant = tensors[i];
        value.name = node.name + ":" + std::to_string(i);
        numbers.push_back(add(std::move(value)));
    }
    return numbers;
}

std::vector<int> Lowering::plain(const Node& node, const std::vector<int>& inputs) {
    Step step;
    step.node = node.name;
    step.op = graph::find_operator(node.type);
    if (step.op == nullptr) fail_at(node, "is no operator of CANN's catalogue");
    step.attributes = node.attributes;
    step.input_names = node.input_names;
    step.inputs = inputs;
    if (node.type.starts_with("Hcom")) {
        step.kind = Kind::collective;
        program_.has_collectives = true;
    } else if (answers_shape(node.type)) {
        step.kind = Kind::shape;
    } else {
        bind_row(step);
    }
    const auto types = infer(step);
    const std::vector<Value> given = [&] {
        std::vector<Value> found;
        for (const int input : inputs) found.push_back(input < 0 ? Value{} : program_.values[input]);
        return found;
    }();
    if (changes_nothing(step, types)) return {inputs[0]};
    if (const auto folded = fold(step, given, types)) return constants(node, *folded, types);
    if (step.op->name == "Split" && given[0].constant.defined()) {  // its views are of the first input
        step.attributes["split_dim"] = given[0].constant.reshape({-1})[0].item<int64_t>();
        step.op = graph::find_operator("SplitD");
        step.inputs = {inputs[1]};
        step.input_names.clear();
    }
    std::vector<int> outputs;
    if (as_views(step, types, outputs)) return outputs;
    return emit(std::move(step), types);
}

/// A Cast to the type that is there (torchair writes one after most operators). Results keep theirs, which
/// names them, and so do inputs, which Assign may write to.
bool Lowering::changes_nothing(const Step& step, const std::vector<graph::Inferred>& types) const {
    if (step.op->name != "Cast" || step.inputs[0] < 0 || result_nodes_.contains(step.node)) return false;
    const Value& source = program_.values[step.inputs[0]];
    return source.type == types[0].type && program_.values[source.root].place == Place::temporary;
}

bool Lowering::as_views(Step& step, const std::vector<graph::Inferred>& types, std::vector<int>& outputs) {
    if (!makes_views(step.op->name) || step.inputs.empty() || step.inputs[0] < 0) return false;
    std::vector<at::Tensor> shapes;
    bool known = true;
    for (const int input : step.inputs) {
        if (input < 0) {
            shapes.emplace_back();
            continue;
        }
        const Value& value = program_.values[input];
        known = known && value.type.is_static();
        if (known) shapes.push_back(value.constant.defined() ? value.constant : shape_of(value));
    }
    for (const auto& type : types) known = known && type.type.is_static();
    if (!known) {
        step.kind = Kind::view;  // whether memory is shared turns out when it runs
        return false;
    }
    if (shapes[0].device().is_cpu()) shapes[0] = shape_of(program_.values[step.inputs[0]]);
    const auto views = make_views(step, shapes, types);
    if (!views) return false;
    step.kind = Kind::view;
    const Value source = program_.values[step.inputs[0]];
    for (std::size_t i = 0; i < views->size(); ++i) {
        Value value{types[i].type, source.place, source.root};
        value.strides = (*views)[i].strides().vec();
        value.offset = (*views)[i].storage_offset();
        value.index = source.index;
        value.name = step.node + ":" + std::to_string(i);
        outputs.push_back(add(std::move(value)));
    }
    step.outputs = outputs;
    program_.steps.push_back(std::move(step));
    return true;
}

/// Adds the step with an output of its own memory for each type, or its input's memory where it writes into
/// it.
std::vector<int> Lowering::emit(Step step, const std::vector<graph::Inferred>& types) {
    for (std::size_t i = 0; i < types.size(); ++i) {
        Value value{types[i].type};
        value.name = step.node + ":" + std::to_string(i);
        if (!types[i].bound.empty()) program_.is_static = false;
        if (i == 0 && step.op != nullptr && writes_first_input(*step.op) && !step.inputs.empty() &&
            step.inputs[0] >= 0) {
            const Value& target = program_.values[step.inputs[0]];
            const bool whole = !target.type.is_static() || target.contiguous();
            if (program_.values[target.root].place == Place::input && whole) {
                step.writes_input = true;
                value.root = target.root;
                value.place = Place::input;
                value.index = target.index;
            }
        }
        step.outputs.push_back(add(std::move(value)));
    }
    for (const int input : step.inputs)
        if (input >= 0 && !program_.values[input].type.is_static()) program_.is_static = false;
    program_.steps.push_back(step);
    return step.outputs;
}

std::vector<int> Lowering::call(const Node& node, const std::vector<int>& inputs) {
    check_depth(node);
    if (node.subgraphs.size() != 1)
        fail_at(node, "has " + std::to_string(node.subgraphs.size()) + " subgraphs, not 1");
    Lowering inner(model_, program_, depth_ + 1);
    return inner.graph(subgraph(node.subgraphs[0], node), inputs);
}

std::vector<int> Lowering::branch(const Node& node, const std::vector<int>& inputs) {
    check_depth(node);
    const bool is_case = node.type.ends_with("Case");
    if (inputs.empty() || inputs[0] < 0) fail_at(node, "has no condition");
    if (node.subgraphs.size() < (is_case ? 1u : 2u)) fail_at(node, "lacks the subgraphs to choose from");
    const std::vector<int> arguments(inputs.begin() + 1, inputs.end());
    if (const at::Tensor condition = program_.values[inputs[0]].constant; condition.defined()) {
        Lowering inner(model_, program_, depth_ + 1);
        return inner.graph(subgraph(node.subgraphs[choose(condition, is_case, node.subgraphs.size())], node),
                           arguments);
    }
    Step step;
    step.kind = Kind::branch;
    step.node = node.name;
    step.op = graph::find_operator(node.type);
    step.inputs = inputs;
    std::vector<graph::Inferred> types;
    for (std::size_t i = 0; i < node.subgraphs.size(); ++i) {
        auto program = std::make_shared<Program>(body(node.subgraphs[i], values(arguments), node));
        if (program->has_collectives)
            fail_at(node,
                    "has a collective in a branch, which the host emulator does not run; use real CANN");
        if (i > 0 && program->results.size() != types.size())
            fail_at(node, "its subgraphs return different numbers of values");
        for (std::size_t k = 0; k < program->results.size(); ++k) {
            const TensorType& type = program->values[program->results[k]].type;
            if (i == 0)
                types.push_back({type, {}});
            else
                types[k].type = merge(types[k].type, type, node);
        }
        program_.is_static = program_.is_static && program->is_static;
        step.bodies.push_back(std::move(program));
    }
    return emit(std::move(step), types);
}

std::vector<int> Lowering::loop(const Node& node, const std::vector<int>& inputs) {
    check_depth(node);
    if (node.subgraphs.size() != 2) fail_at(node, "needs the subgraphs cond and body");
    std::vector<Value> state = values(inputs);
    for (Value& value : state) value.constant = at::Tensor();
    Program body_program;
    for (bool settled = false; !settled;) {  // ends: each turn makes a size unknown that was known
        body_program = body(node.subgraphs[1], state, node);
        if (body_program.results.size() != state.size())
            fail_at(node, "its body returns " + std::to_string(body_program.results.size()) +
                              " values, takes " + std::to_string(state.size()));
        settled = true;
        for (std::size_t i = 0; i < state.size(); ++i) {
            const TensorType merged =
                merge(state[i].type, body_program.values[body_program.results[i]].type, node);
            settled = settled && merged == state[i].type;
            state[i].type = merged;
        }
    }
    Step step;
    step.kind = Kind::loop;
    step.node = node.name;
    step.op = graph::find_operator(node.type);
    step.inputs = inputs;
    Program condition = body(node.subgraphs[0], state, node);
    if (condition.results.size() != 1)
        fail_at(node, "its condition returns " + std::to_string(condition.results.size()) + " values, not 1");
    if (condition.has_collectives || body_program.has_collectives)
        fail_at(node, "has a collective in a loop, which the host emulator does not run; use real CANN");
    program_.is_static = program_.is_static && condition.is_static && body_program.is_static;
    step.bodies = {std::make_shared<Program>(std::move(condition)),
                   std::make_shared<Program>(std::move(body_program))};
    std::vector<graph::Inferred> types;
    for (const Value& value : state) types.push_back({value.type, {}});
    return emit(std::move(step), types);
}

}  // namespace

Program lower(const graph::Model& model) {
    if (model.graphs.empty()) throw graph::GraphError("the model has no graph");
    const Graph& root = model.graphs.front();
    Program program;
    Lowering lowering(model, program, 0);
    for (const int data : root.data) {
        const Node& node = root.nodes[data];
        if (node.output_descs.empty()) fail_at(node, "has no output descriptor, which gives its type");
        Value value{node.output_descs.front(), Place::input};
        value.index = static_cast<int>(program.inputs.size());
        value.name = node.name;
        program.inputs.push_back(lowering.add(std::move(value)));
    }
    program.results = lowering.graph(root, program.inputs);
    drop_dead(program);
    return program;
}

}  // namespace npu::ge
