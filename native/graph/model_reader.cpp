#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "graph/model_attributes.h"

namespace npu::graph {
namespace {

/// More than any real model has: what a few hostile bytes may make us allocate stays bounded.
constexpr std::size_t kMostNodes = 1'000'000, kMostGraphs = 10'000;

/// Numbers of the fields in ge_ir.proto.
namespace model_def {
enum : uint32_t { name = 1, graph = 7, attr = 11 };
}
namespace graph_def {
enum : uint32_t { name = 1, op = 6, attr = 11 };
}
namespace op_def {
enum : uint32_t {
    name = 1,
    type = 2,
    input = 5,
    attr = 10,
    input_name = 23,
    input_desc = 33,
    output_desc = 34,
    subgraph_name = 35
};
}

std::string label(const Node& node) {
    return "node " + quoted(node.name) + " (" + printable(node.type) + ")";
}

/// A node whose inputs are still text.
struct RawNode {
    Node node;
    std::vector<std::string_view> inputs;
};

/// GE's own serialisation names inputs in two attributes, not in the descriptors.
std::vector<std::string> names_from_attributes(const Node& node) {
    auto keys = node.attributes.find("_input_name_key"), values = node.attributes.find("_input_name_value");
    if (keys == node.attributes.end() || values == node.attributes.end()) return {};
    auto* names = std::get_if<std::vector<std::string>>(&keys->second);
    auto* places = std::get_if<std::vector<int64_t>>(&values->second);
    if (!names || !places || names->size() != places->size()) return {};
    std::vector<std::string> out(names->size());
    for (std::size_t i = 0; i < names->size(); ++i)
        if ((*places)[i] >= 0 && (*places)[i] < static_cast<int64_t>(out.size()))
            out[(*places)[i]] = (*names)[i];
    return out;
}

void read_op_field(const Field& field, RawNode& out, std::vector<std::string>& names) {
    Node& node = out.node;
    switch (field.number) {
        case op_def::input:
            out.inputs.push_back(field.text());
            break;
        case op_def::attr:
            read_attribute(field.message(), node.attributes);
            break;
        case op_def::input_name:
            names.emplace_back(field.text());
            break;
        case op_def::input_desc: {
            auto [name, type] = read_descriptor(field.message());
            node.input_names.push_back(std::move(name));
            node.input_descs.push_back(std::move(type));
            break;
        }
        case op_def::output_desc:
            node.output_descs.push_back(read_descriptor(field.message()).type);
            break;
        case op_def::subgraph_name:
            node.subgraphs.emplace_back(field.text());
            break;
    }
}

RawNode read_op(Bytes bytes) {
    RawNode out;
    Message head(bytes);
    for (Field field; head.next(field);) {  // first, so that errors can name the node
        if (field.number == op_def::name) out.node.name = field.text();
        if (field.number == op_def::type) out.node.type = field.text();
    }
    if (out.node.name.empty() || out.node.type.empty())
        throw GraphError("a node has no name or no operator: the bytes are not a model of package ge.proto");
    std::vector<std::string> names;
    try {
        Message message(bytes);
        for (Field field; message.next(field);) read_op_field(field, out, names);
    } catch (const GraphError& error) {
        throw GraphError(label(out.node) + ": " + error.what());
    }
    auto nameless = [&] { return std::ranges::all_of(out.node.input_names, &std::string::empty); };
    if (nameless()) out.node.input_names = names;
    if (nameless()) out.node.input_names = names_from_attributes(out.node);
    return out;
}

int parse_index(std::string_view text) {
    if (text == "-1") return -1;
    if (text.empty() || text.size() > 6 ||
        !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
        return -2;
    return std::stoi(std::string(text));
}

void connect(RawNode& raw, const std::unordered_map<std::string_view, int>& places) {
    for (std::string_view text : raw.inputs) {
        if (text.empty()) {
            raw.node.inputs.emplace_back();
            continue;
        }
        std::size_t colon = text.rfind(':');
        int index = colon == text.npos ? -2 : parse_index(text.substr(colon + 1));
        auto source = index == -2 ? places.end() : places.find(text.substr(0, colon));
        if (source == places.end())
            throw GraphError(label(raw.node) + ": its input " + quoted(text) +
                             (index == -2 ? " is not written as \"node:output\""
                                          : " comes from a node that is not in the graph"));
        if (index == -1)
            raw.node.controls.push_back(source->second);
        else
            raw.node.inputs.push_back({source->second, index});
    }
}

/// The nodes' places in topological order; the model's own order where it is one.
std::vector<int> sorted(const std::vector<RawNode>& nodes) {
    std::vector<std::vector<int>> users(nodes.size());
    std::vector<int> waiting(nodes.size(), 0);
    for (std::size_t at = 0; at < nodes.size(); ++at) {
        std::set<int> sources(nodes[at].node.controls.begin(), nodes[at].node.controls.end());
        for (const Edge& edge : nodes[at].node.inputs)
            if (edge.node >= 0) sources.insert(edge.node);
        for (int source : sources) users[source].push_back(static_cast<int>(at));
        waiting[at] = static_cast<int>(sources.size());
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t at = 0; at < nodes.size(); ++at)
        if (!waiting[at]) ready.push(static_cast<int>(at));
    std::vector<int> order;
    while (!ready.empty()) {
        order.push_back(ready.top());
        ready.pop();
        for (int user : users[order.back()])
            if (--waiting[user] == 0) ready.push(user);
    }
    if (order.size() < nodes.size()) {
        auto stuck = std::ranges::find_if(waiting, [](int count) { return count > 0; }) - waiting.begin();
        throw GraphError(label(nodes[stuck].node) + " waits for its own result: the graph has a cycle");
    }
    return order;
}

void find_data(Graph& graph) {
    std::map<int64_t, int> by_index;
    for (std::size_t at = 0; at < graph.nodes.size(); ++at) {
        const Node& node = graph.nodes[at];
        if (node.type == "NetOutput") {
            if (graph.net_output >= 0)
                throw GraphError("graph " + quoted(graph.name) + " has two nodes of type NetOutput");
            graph.net_output = static_cast<int>(at);
        }
        if (node.type != "Data" && node.type != "RefData") continue;
        auto found = node.attributes.find("index");
        const int64_t* index =
            found == node.attributes.end() ? nullptr : std::get_if<int64_t>(&found->second);
        if (!by_index.emplace(index ? *index : 0, at).second)
            throw GraphError(label(node) + ": another input of the graph has the index " +
                             std::to_string(index ? *index : 0) +
                             " too; each Data node needs its own attribute \"index\"");
    }
    if (graph.net_output < 0)
        throw GraphError("graph " + quoted(graph.name) +
                         " has no NetOutput: nothing says what its results are");
    for (auto [index, at] : by_index) {
        if (index != static_cast<int64_t>(graph.data.size()))
            throw GraphError("graph " + quoted(graph.name) + " has no Data node of index " +
                             std::to_string(graph.data.size()) + " but one of index " +
                             std::to_string(index));
        graph.data.push_back(at);
    }
}

Graph read_graph(Bytes bytes) {
    Graph graph;
    std::vector<RawNode> raw;
    Message message(bytes);
    for (Field field; message.next(field);) {
        if (field.number == graph_def::name) graph.name = field.text();
        if (field.number == graph_def::attr) read_attribute(field.message(), graph.attributes);
        if (field.number == graph_def::op) raw.push_back(read_op(field.message()));
        if (raw.size() > kMostNodes) throw GraphError("the model has more than a million nodes");
    }
    std::unordered_map<std::string_view, int> places;
    for (std::size_t at = 0; at < raw.size(); ++at)
        if (!places.emplace(raw[at].node.name, at).second)
            throw GraphError(label(raw[at].node) + ": another node of the graph has the same name");
    for (RawNode& node : raw) connect(node, places);

    std::vector<int> order = sorted(raw), place(raw.size());
    for (std::size_t at = 0; at < order.size(); ++at) place[order[at]] = static_cast<int>(at);
    for (int from : order) {
        Node node = std::move(raw[from].node);
        for (Edge& edge : node.inputs)
            if (edge.node >= 0) edge.node = place[edge.node];
        for (int& control : node.controls) control = place[control];
        graph.nodes.push_back(std::move(node));
    }
    find_data(graph);
    return graph;
}

/// A ModelDef holds graphs in field 7, which a GraphDef does not have; a GraphDef holds nodes in field 6,
/// which a ModelDef does not.
bool is_bare_graph(Bytes bytes) {
    bool nodes = false;
    Message message(bytes);
    for (Field field; message.next(field);) {
        if (field.number == model_def::graph) return false;
        nodes |= field.number == graph_def::op;
    }
    return nodes;
}

}  // namespace

const Graph* Model::find(std::string_view graph) const {
    for (const Graph& candidate : graphs)
        if (candidate.name == graph) return &candidate;
    return nullptr;
}

Model read_model(std::span<const std::byte> bytes) {
    Model model;
    if (is_bare_graph(bytes)) {
        model.graphs.push_back(read_graph(bytes));
        model.name = model.graphs[0].name;
        return model;
    }
    std::set<std::string, std::less<>> names;
    Message message(bytes);
    for (Field field; message.next(field);) {
        if (field.number == model_def::name) model.name = field.text();
        if (field.number == model_def::attr) read_attribute(field.message(), model.attributes);
        if (field.number != model_def::graph) continue;
        model.graphs.push_back(read_graph(field.message()));
        if (!names.insert(model.graphs.back().name).second)
            throw GraphError("the model has two graphs named " + quoted(model.graphs.back().name));
        if (model.graphs.size() > kMostGraphs)
            throw GraphError("the model has more than ten thousand graphs");
    }
    if (model.graphs.empty())
        throw GraphError("the bytes hold no graph: they are not a model of package ge.proto");
    return model;
}

}  // namespace npu::graph
