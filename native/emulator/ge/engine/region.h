// Fused regions: several operators run tile by tile, so that what passes between them stays in the cache (as
// the NPU keeps it in its unified buffer). Each tile runs the very rows of the table of kernels, so a region
// computes what its steps would.
#pragma once

#include <functional>

#include "ge/engine/program.h"

namespace npu::ge {

/// The command that runs a step of Kind::fused. `tensor_of` gives the memory of the step's inputs and
/// outputs.
std::function<void()> bind_region(const Step& step, const std::function<at::Tensor(int)>& tensor_of);

}  // namespace npu::ge
