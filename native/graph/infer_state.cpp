// Operators that write into their inputs: an output named like an input is that input.
#include "graph/shapes.h"

namespace npu::graph {
namespace {

void references(Context& c) {
    for (const Port& output : c.op.outputs) c.out(c.in(output.name.c_str()).type);
}

/// Assign gives the reference the shape of the value unless validate_shape wants them equal.
void assign(Context& c) {
    if (c.dtype("ref") != c.dtype("value")) c.fail("ref and value differ in data type");
    if (c.flag("validate_shape") && c.ranked("ref") && c.ranked("value"))
        agreed(c, c.dims("ref"), c.dims("value"));
    c.out(c.in("ref").type);
}

void nothing(Context&) {}

constexpr Rule kRules[] = {
    {"ApplyAdagrad", references},
    {"ApplyAdagradD", references},
    {"ApplyAdam", references},
    {"ApplyAdamD", references},
    {"ApplyAdamV2", references},
    {"ApplyAdamW", references},
    {"ApplyAdamWV2", nothing},
    {"ApplyAdamWithAmsgradD", references},
    {"ApplyAdamWithAmsgradV2", references},
    {"ApplyGradientDescent", references},
    {"ApplyMomentum", references},
    {"ApplyMomentumD", references},
    {"ApplyRMSProp", references},
    {"ApplyRMSPropD", references},
    {"Assign", assign},
    {"AssignAdd", references},
    {"AssignSub", references},
    {"FillV2", references},
    {"NetOutput", nothing},
    {"NoOp", nothing},
    {"Print", nothing},
    {"ScatterPaKvCache", references},
    {"StridedSliceAssign", references},
    {"StridedSliceAssignD", references},
    {"StridedSliceAssignV2", references},
    {"ViewCopy", references},
};

}  // namespace

std::span<const Rule> state_rules() { return kRules; }

}  // namespace npu::graph
