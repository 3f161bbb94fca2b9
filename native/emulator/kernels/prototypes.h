// CANN's aclnn prototypes, generated from the facts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)  // used by the doors, other libraries
namespace npu::emulator {

struct Prototype {
    std::string name;                     // aclnnAbs
    std::string letters;                  // TT, as kernel.h spells them
    std::vector<std::string> parameters;  // self, out
};

const std::vector<Prototype>& prototypes();               // sorted by name
const Prototype* find_prototype(std::string_view aclnn);  // or null

}  // namespace npu::emulator
#pragma GCC visibility pop
