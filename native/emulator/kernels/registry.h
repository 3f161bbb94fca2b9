// The names in the table of kernels, for the doors and the documentation.
#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)  // used by the doors, other libraries
namespace npu::emulator {

std::vector<std::string> aclnn_names();  // rows only, without derived in-place forms; sorted
std::vector<std::string> ge_names();     // sorted

}  // namespace npu::emulator
#pragma GCC visibility pop
