// The graph engine's last error, one for the process as in GE (GEGetErrorMsg and its versions).
#pragma once

#include <string>

#pragma GCC visibility push(default)
namespace npu::ge {

void set_error(const std::string& sentence);
const char* last_error();  ///< stays valid until the calling thread asks again
/// set_error, and GE's code for failure.
uint32_t failed(const std::string& sentence);

}  // namespace npu::ge
#pragma GCC visibility pop
