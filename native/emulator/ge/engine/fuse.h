// AutoFuse: chains of elementwise, broadcast, cast and (by pass) reduce operators become regions (region.h).
#pragma once

#include "ge/engine/engine.h"
#include "ge/engine/program.h"

namespace npu::ge {

/// Whether the step computes each element from the matching elements of its inputs, with NumPy's
/// broadcasting.
bool is_pointwise(const Step& step);

/// Whether the step is a sum, mean, product or extreme over some dimensions.
bool is_reduction(const Step& step);

/// Replaces steps of a static program by regions of 2 to 64 of them (CANN's limit). Before plan().
void fuse(Program& program, const CompileOptions& options);

}  // namespace npu::ge
