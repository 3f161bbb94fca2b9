// Where values are computed: a concatenation's parts straight into their places in it, what is only read
// transposed in that order.
#pragma once

#include "ge/engine/program.h"

namespace npu::ge {

/// Static programs, after fuse() and before plan(): values that had memory of their own become views of the
/// value that they are joined into or transposed to, and the concatenations go, or copy what is left.
/// `transposes`: regions write in the order in which their results are read.
void place_outputs(Program& program, bool transposes);

}  // namespace npu::ge
