// What is known about a step before it runs: its row, and its result where the inputs are constants.
#pragma once

#include "ge/engine/program.h"

namespace npu::ge {

/// Finds the row of the table of kernels and the attributes it takes. Throws GraphError naming node and
/// operator.
void bind_row(Step& step);

/// An input as far as it is known: its type (absent: no dtype), and its elements (undefined: not yet).
struct Known {
    TensorType type;
    at::Tensor elements;
};
/// The types of the step's outputs. Throws GraphError naming node and operator.
std::vector<graph::Inferred> infer(const Step& step, const std::vector<Known>& inputs);

/// Shape, ShapeN, Size, Rank.
bool answers_shape(std::string_view type);
/// Their outputs, from the inputs' shapes. `types` are the outputs'.
std::vector<at::Tensor> shape_values(const Step& step, const std::vector<TensorType>& inputs,
                                     const std::vector<graph::Inferred>& types);

/// The outputs of a step whose inputs are constants (of a question for a static shape); nullopt where it has
/// to run.
std::optional<std::vector<at::Tensor>> fold(const Step& step, const std::vector<Value>& inputs,
                                            const std::vector<graph::Inferred>& types);

/// Output 0 bears the name of input 0: CANN's operators on references (Assign, ScatterUpdate).
bool writes_first_input(const graph::OperatorDef& op);

/// Which subgraph of If (then, else) or Case runs.
std::size_t choose(const at::Tensor& condition, bool is_case, std::size_t branches);
bool is_true(const at::Tensor& condition);

}  // namespace npu::ge
