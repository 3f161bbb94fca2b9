// Time-outs of the C interface: milliseconds, -1 for ever.
#pragma once

#include <chrono>
#include <string>

#include "error.h"
#include "scheduler.h"

namespace npu::emulator {

inline aclError read_timeout(int32_t milliseconds, const char* function, Deadline* deadline) {
    if (milliseconds < -1) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": the time-out is " +
                                                 std::to_string(milliseconds) +
                                                 " ms; use -1 to wait for ever");
    }
    *deadline =
        milliseconds == -1 ? Deadline{} : Deadline{Clock::now() + std::chrono::milliseconds(milliseconds)};
    return ACL_SUCCESS;
}

}  // namespace npu::emulator
