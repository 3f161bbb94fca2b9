// Where a static program's temporaries live.
#pragma once

#include "ge/engine/program.h"

namespace npu::ge {

/// Fills `dies`; of static programs also offsets, result_of and workspace: temporaries whose lives do not
/// overlap share memory, an elementwise step or an update writes over an input that dies with it, and a
/// result is computed in its own buffer where possible.
void plan(Program& program);

}  // namespace npu::ge
