// Stretches of a static graph that the cores compute side by side: each takes a piece of the batch (or of the
// rows, the heads) and runs all of the stretch's steps on it alone, where step by step the cores would meet
// at the end of every operator.
#pragma once

#include <functional>

#include "ge/engine/program.h"

namespace npu::ge {

/// Replaces runs of steps of a static program by steps of Kind::split for so many cores. The step's body is
/// the program of one piece, not planned yet. Before fuse() and plan().
void split(Program& program, int64_t cores);

/// Gives a step of Kind::split, whose body is planned, the memory that its pieces work in: one more output.
void add_scratch(Program& program, Step& step);

/// The command that runs a step of Kind::split on these tensors.
std::function<void()> bind_split(const Step& step, const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& outputs);

}  // namespace npu::ge
