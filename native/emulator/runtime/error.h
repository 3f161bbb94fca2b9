// Errors of the C interface: a code, and a sentence kept for the calling thread.
#pragma once

#include <string>

#include "cann/acl.h"
#include "launch.h"

namespace npu::emulator {

/// `pointer` must not be null: ACL_ERROR_INVALID_PARAM naming the function and the argument.
inline aclError require(const void* pointer, const char* function, const char* argument) {
    if (pointer != nullptr) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(function) + ": " + argument + " is null; pass an address");
}

}  // namespace npu::emulator

#define NPU_RETURN_IF_ERROR(expression)                                              \
    do {                                                                             \
        if (const aclError code_ = (expression); code_ != ACL_SUCCESS) return code_; \
    } while (false)
