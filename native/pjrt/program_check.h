// Whether a program that was read makes sense. What passes can be run without further checks of its slots.
#pragma once

#include "pjrt/program.h"

namespace npu::pjrt {

/// Throws Status: a sentence that names what does not fit.
void check(const Program& program);

}  // namespace npu::pjrt
