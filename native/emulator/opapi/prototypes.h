// CANN's aclnn prototypes as letters (kernels/kernel.h), generated from the facts.
#pragma once

#include <string>
#include <vector>

namespace npu::opapi {

struct Prototype {
    std::string name;     // aclnnAbs
    std::string letters;  // TT
};

extern const std::vector<Prototype> prototypes;  // sorted by name

}  // namespace npu::opapi
