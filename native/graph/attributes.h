// An operator's attributes against the catalogue (internal to this folder; ../bindings uses it too).
#pragma once

#include "graph/catalogue.h"

namespace npu::graph {

/// The value as the catalogue's type: what means the same is converted (3 -> 3.0, 1 -> true, ge::DataType's
/// number -> the type, an empty list of any kind -> one of the right kind). nullopt where it cannot be.
std::optional<Attribute> converted(const AttributeDef& def, const Attribute& value);

/// Converts every attribute and adds the missing ones' defaults. Throws GraphError naming the operator:
/// unknown, missing or mistyped attribute. Attributes that begin with "_" are the engine's and pass.
void complete(const OperatorDef& op, Attributes& attributes);

/// The operator, or a GraphError that suggests the nearest names.
const OperatorDef& operator_named(std::string_view type);

/// Throws GraphError where the catalogue lists the input's types and this is none of them.
void check_type(const OperatorDef& op, const Port& port, DataType type);

}  // namespace npu::graph
