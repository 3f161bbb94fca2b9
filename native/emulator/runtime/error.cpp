// The calling thread's last error and its sentence (aclGetRecentErrMsg).
#include <string>
#include <utility>

#include "cann/acl.h"
#include "cann/error_names.h"
#include "launch.h"

namespace npu::emulator {
namespace {
thread_local std::string recent_message;
}  // namespace

aclError fail(aclError code, std::string sentence) {
    recent_message = std::string(npu::cann::error_name(code)) + " (" + std::to_string(code) + "): " + std::move(sentence);
    return code;
}

}  // namespace npu::emulator

extern "C" const char* aclGetRecentErrMsg() {
    static thread_local std::string handed_out;
    handed_out = std::exchange(npu::emulator::recent_message, {});
    return handed_out.c_str();
}
