// Where fused regions write: a concatenation's parts straight into their places in it, what is only read
// transposed in that order.
#pragma once

#include "ge/engine/engine.h"
#include "ge/engine/program.h"

namespace npu::ge {

/// Static programs, after fuse() and before plan(): values that had memory of their own become views of the
/// value that they are joined into or transposed to, and the concatenations go, or copy what is left.
void place_outputs(Program& program, const CompileOptions& options);

}  // namespace npu::ge
