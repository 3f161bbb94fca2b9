// The state of graph capture: no stream is ever captured, since aclmdlRICaptureBegin is refused.
#include <utility>

#include "runtime.h"

using namespace npu::emulator;

namespace {
thread_local aclmdlRICaptureMode mode_of_thread = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
}

/// status: always ACL_MODEL_RI_CAPTURE_STATUS_NONE, and no model.
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
    constexpr const char* name = "aclmdlRICaptureGetInfo";
    NPU_RETURN_IF_ERROR(use(name));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    if (status != nullptr) *status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    if (modelRI != nullptr) *modelRI = nullptr;
    return ACL_SUCCESS;
}

/// Sets the calling thread's mode and hands back the one before: what is forbidden while a capture runs.
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
    constexpr const char* name = "aclmdlRICaptureThreadExchangeMode";
    NPU_RETURN_IF_ERROR(require(mode, name, "mode"));
    if (*mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": the mode is not one of aclmdlRICaptureMode");
    *mode = std::exchange(mode_of_thread, *mode);
    return ACL_SUCCESS;
}
