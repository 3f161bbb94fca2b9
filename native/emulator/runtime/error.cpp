// The calling thread's last error and its sentence (aclGetRecentErrMsg, aclrtGetLastError).
#include "error.h"

#include <utility>

#include "cann/error_names.h"
#include "launch.h"

namespace npu::emulator {
namespace {

thread_local std::string recent_message;
thread_local aclError last_error = ACL_SUCCESS;

std::string with_code(aclError code, std::string sentence) {
    const std::string name = npu::cann::error_name(code);
    const std::string number = std::to_string(code);
    return (name == "unknown error code" ? "error " + number : name + " (" + number + ")") + ": " +
           std::move(sentence);
}

}  // namespace

aclError fail(aclError code, std::string sentence) {
    recent_message = with_code(code, std::move(sentence));
    last_error = code;
    return code;
}

void set_recent_sentence(std::string sentence) { recent_message = std::move(sentence); }

const char* recent_sentence() { return recent_message.c_str(); }

aclError unsupported(const char* name, const char* advice) {
    return fail(ACL_ERROR_API_NOT_SUPPORT,
                std::string(name) + " is not implemented by the host emulator of CANN. " + advice);
}

}  // namespace npu::emulator

using namespace npu::emulator;

/// The message is handed out once, as CANN does; the pointer is valid until the thread's next call.
const char* aclGetRecentErrMsg() {
    static thread_local std::string handed_out;
    if (recent_message.empty()) return nullptr;
    handed_out = std::exchange(recent_message, {});
    return handed_out.c_str();
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
    if (level != ACL_RT_THREAD_LEVEL)
        return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetLastError: the only level is ACL_RT_THREAD_LEVEL");
    return std::exchange(last_error, ACL_SUCCESS);
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
    if (level != ACL_RT_THREAD_LEVEL)
        return fail(ACL_ERROR_INVALID_PARAM, "aclrtPeekAtLastError: the only level is ACL_RT_THREAD_LEVEL");
    return last_error;
}
