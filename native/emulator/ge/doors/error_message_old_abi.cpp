// GEGetErrorMsg returns a std::string by value, of the ABI that GE is built with: this file is compiled with
// _GLIBCXX_USE_CXX11_ABI=0, and no std::string may pass between it and another file.
#include <string>

namespace npu::ge {
__attribute__((visibility("default"))) const char* last_error();
}

namespace ge {
__attribute__((visibility("default"))) std::string GEGetErrorMsg() { return npu::ge::last_error(); }
}  // namespace ge
