#include <algorithm>

#include "graph/attributes.h"
#include "graph/model.h"
#include "graph/wire.h"

namespace npu::graph {
namespace {

/// The type of what feeds an edge where the model is to be trusted on it: descriptors between other nodes are
/// not.
DataType stated_type(const Graph& graph, const Edge& edge) {
    const Node& source = graph.nodes[edge.node];
    if (source.type == "Data" && !source.output_descs.empty()) return source.output_descs[0].dtype;
    auto value = source.attributes.find("value");
    if (value != source.attributes.end() && (source.type == "Const" || source.type == "Constant"))
        if (auto* constant = std::get_if<std::shared_ptr<const Constant>>(&value->second))
            return (*constant)->type.dtype;
    return ACL_DT_UNDEFINED;
}

void check_source(const Graph& graph, const Edge& edge) {
    const Node& source = graph.nodes[edge.node];
    const OperatorDef& op = operator_named(source.type);
    bool dynamic =
        std::ranges::any_of(op.outputs, [](const Port& port) { return port.arity == Arity::dynamic; });
    if (!dynamic && edge.output >= static_cast<int>(op.outputs.size()))
        throw GraphError("its input comes from output " + std::to_string(edge.output) + " of " +
                         quoted(source.name) + ", and " + op.name + " has " +
                         std::to_string(op.outputs.size()) + " outputs");
}

void check_inputs(const Graph& graph, const Node& node, const OperatorDef& op) {
    auto spans = input_spans(op, node.inputs.size(), node.input_names);
    for (std::size_t at = 0; at < spans.size(); ++at) {
        const Port& port = op.inputs[at];
        for (std::size_t place = spans[at].first; place < spans[at].first + spans[at].count; ++place) {
            const Edge& edge = node.inputs[place];
            if (edge.node >= 0) {
                check_source(graph, edge);
                check_type(op, port, stated_type(graph, edge));
            } else if (port.arity != Arity::optional) {
                throw GraphError(op.name + " needs its input " + port.name);
            }
        }
        if (port.arity == Arity::required && spans[at].count == 0)
            throw GraphError(op.name + " needs its input " + port.name);
    }
}

void check_subgraphs(const Model& model, const Node& node, const OperatorDef& op) {
    bool fits = op.dynamic_subgraphs ? !node.subgraphs.empty() : node.subgraphs.size() == op.subgraphs.size();
    if (!fits) {
        std::string wanted;
        for (const std::string& name : op.subgraphs) wanted += " " + name;
        throw GraphError(
            op.name + " has " + std::to_string(node.subgraphs.size()) +
            " subgraphs, and CANN's catalogue asks for " +
            (wanted.empty() ? "none" : (op.dynamic_subgraphs ? "one or more:" : "these:") + wanted));
    }
    for (const std::string& name : node.subgraphs)
        if (!model.find(name))
            throw GraphError("the model has no graph named " + quoted(name) + ", its subgraph");
}

}  // namespace

void verify(Model& model) {
    for (Graph& graph : model.graphs)
        for (Node& node : graph.nodes) try {
                const OperatorDef& op = operator_named(node.type);
                complete(op, node.attributes);
                check_inputs(graph, node, op);
                check_subgraphs(model, node, op);
            } catch (const GraphError& error) {
                throw GraphError("node " + quoted(node.name) + " (" + printable(node.type) + ") of graph " +
                                 quoted(graph.name) + ": " + error.what());
            }
}

}  // namespace npu::graph
