// Which operators can be computed in pieces: what a piece of the result along one dimension needs of each
// input.
#pragma once

#include <optional>

#include "ge/engine/program.h"

namespace npu::ge {

constexpr int kWhole = -1;  ///< an input that every piece reads entirely

/// For each input of the step the dimension along which it is cut as outputs are along `dim`, or kWhole.
/// Nothing where the operator computes an output's piece from more than that, or is not known to. Static
/// types.
std::optional<std::vector<int>> cut_inputs(const Program& program, const Step& step, int dim);

/// Matrix products: the multiplications of one, 0 for any other operator.
int64_t multiplications(const Program& program, const Step& step);

}  // namespace npu::ge
