// The model protobuf (package ge.proto) as plain data.
#pragma once

#include <optional>

#include "graph/types.h"

namespace npu::graph {

/// The output of a node that feeds an input. node < 0: an absent optional input.
struct Edge {
    int node = -1;
    int output = 0;
    bool operator==(const Edge&) const = default;
};

struct Node {
    std::string name, type;
    std::vector<Edge> inputs;   ///< data edges in the order of the catalogue's inputs, dynamic ones flattened
    std::vector<int> controls;  ///< nodes that must run before
    Attributes attributes;
    std::vector<TensorType> input_descs,
        output_descs;  ///< as written in the model: reliable for Data, Const, NetOutput only
    std::vector<std::string> input_names;  ///< of input_descs ("x0", "x1", "concat_dim"), may be empty
    std::vector<std::string>
        subgraphs;  ///< names of graphs of the model, in the order of the catalogue's subgraphs
};

/// Nodes in topological order. NetOutput is kept as a node, its inputs are the results.
struct Graph {
    std::string name;
    std::vector<Node> nodes;
    std::vector<int> data;  ///< Data nodes by their attribute `index`
    int net_output = -1;
    Attributes attributes;
};

struct Model {
    std::string name;
    std::vector<Graph> graphs;  ///< the first is the root
    Attributes attributes;

    const Graph* find(std::string_view graph) const;
};

/// Reads ge.proto.ModelDef (a bare GraphDef too). Never crashes on any bytes.
/// Throws GraphError: truncated or not a model, an edge to no node, a cycle, no NetOutput, a data index
/// twice.
Model read_model(std::span<const std::byte> bytes);

/// The numbers of the protobuf's own DataType. Throws GraphError for a number without a type.
DataType from_proto(int64_t number);
int64_t to_proto(DataType type);

/// Checks every node of every graph against the catalogue and completes attributes with their defaults.
/// Throws GraphError naming node and operator: unknown operator, unknown or missing or mistyped attribute,
/// missing input, too many inputs, an input dtype that the operator does not list, a missing subgraph.
/// Attributes that begin with "_" are the engine's and pass.
void verify(Model& model);

}  // namespace npu::graph
