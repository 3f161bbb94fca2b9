// Operators whose result can share the memory of their first input.
#pragma once

#include "ge/engine/program.h"

namespace npu::ge {

bool makes_views(std::string_view type);

/// Whether the result is the first input under other sizes, element by element in row-major order.
bool only_reshapes(std::string_view type);

/// The outputs as views of inputs[0]; nullopt where a copy is needed (a Reshape of a transposed tensor). The
/// other inputs hold values. `types` are the outputs' types, static.
std::optional<std::vector<at::Tensor>> make_views(const Step& step, const std::vector<at::Tensor>& inputs,
                                                  const std::vector<graph::Inferred>& types);

/// A tensor without memory that has the sizes, strides and offset of a static value.
at::Tensor shape_of(const Value& value);

}  // namespace npu::ge
