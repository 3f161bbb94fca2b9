// CANN's operator catalogue: 1,996 operators, generated from ../cann/facts/ge_ops.json, and what the model
// adds (Data, NetOutput, control flow).
#pragma once

#include <optional>
#include <string_view>

#include "graph/types.h"

namespace npu::graph {

enum class Arity { required, optional, dynamic };

struct Port {
    std::string name;
    Arity arity;
    std::vector<DataType> types;  ///< what the catalogue lists; empty: it could not be read, anything goes
};

struct AttributeDef {
    std::string name;
    std::string type;  ///< "Int", "ListInt", "Float", "Bool", "String", "Type", "Tensor", "ListListInt", ...
                       ///< as in the catalogue
    bool required;
    std::optional<Attribute> fallback;  ///< the default; nullopt: required, or not read
};

struct OperatorDef {
    std::string name;
    std::vector<Port> inputs, outputs;
    std::vector<AttributeDef> attributes;
    std::vector<std::string> subgraphs;

    const AttributeDef* attribute(std::string_view name) const;
    bool dynamic_subgraphs = false;  ///< any number of them, from one up (Case: branches)
};

/// The operator of that type, or null. Thread-safe; the first call parses the table.
const OperatorDef* find_operator(std::string_view type);
std::vector<std::string> operator_names();  ///< sorted

/// Where each catalogue input begins in a node's flattened inputs, and how many it takes.
struct Span {
    std::size_t first = 0, count = 0;
};
/// `names` (of input descriptors: "x0", "x1", "axis") tell several dynamic inputs apart; may be empty where
/// at most one input is dynamic. Trailing optional inputs may be missing. Throws GraphError.
std::vector<Span> input_spans(const OperatorDef& op, std::size_t count, std::span<const std::string> names);

}  // namespace npu::graph
