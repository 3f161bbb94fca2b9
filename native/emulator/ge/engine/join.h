// Concatenations without a copy: their parts are computed where they belong.
#pragma once

#include "ge/engine/program.h"

namespace npu::ge {

/// Turns a concatenation along the outermost dimension, of parts that are temporaries of their own, into
/// views: the parts' memory becomes stretches of the result's. Static programs only; before plan().
void join(Program& program);

}  // namespace npu::ge
