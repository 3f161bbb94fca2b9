// From a verified model to a program: inference of every type, constants folded, calls inlined, nodes bound
// to rows. The bodies of branches and loops are planned (plan.h), the program itself is not.
#pragma once

#include "ge/engine/program.h"

namespace npu::ge {

/// Throws graph::GraphError naming node and operator: a shape that does not fit, an operator that the table
/// of kernels lacks.
Program lower(const graph::Model& model);

}  // namespace npu::ge
