// Branches and loops of static programs, bound ahead like every other step.
#pragma once

#include <functional>

#include "ge/engine/program.h"

namespace npu::ge {

/// Which arguments the program writes to (Assign to its Data): by value means that the caller's do not
/// change.
std::vector<bool> written_arguments(const Program& program);

/// One run of the step on these tensors. The bodies are bound now: to the inputs and `outputs` themselves
/// where possible, their own memory is kept with the command. Outputs are dense and share no memory with
/// inputs or each other.
std::function<void()> bind_control_flow(const Step& step, const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& outputs);

}  // namespace npu::ge
