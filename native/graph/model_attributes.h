// Attributes, descriptors and constants of the model protobuf (internal to this folder).
#pragma once

#include "graph/model.h"
#include "graph/wire.h"

namespace npu::graph {

struct Descriptor {
    std::string name;
    TensorType type;
};

/// A TensorDescriptor: name, dtype and shape ([-2] is an unknown rank). The rest of it is GE's own.
Descriptor read_descriptor(Bytes bytes);
/// Adds an entry of a map<string, AttrDef>. Kinds that no operator of the catalogue takes (graphs, functions,
/// descriptors) are left out.
void read_attribute(Bytes entry, Attributes& out);

}  // namespace npu::graph
