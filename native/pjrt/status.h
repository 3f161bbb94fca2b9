// Errors on their way to PJRT's caller: thrown inside as Status, handed over as ErrorObject, kept in events
// as Failure.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

/// A PJRT_Error_Code and a sentence.
struct Failure {
    int code;
    std::string message;
};

class Status : public std::runtime_error {
  public:
    Status(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
    explicit Status(const Failure& failure) : Status(failure.code, failure.message) {}
    int code() const { return code_; }

  private:
    int code_;
};

inline Status invalid(const std::string& message) { return {PJRT_Error_Code_INVALID_ARGUMENT, message}; }
inline Status unimplemented(const std::string& message) { return {PJRT_Error_Code_UNIMPLEMENTED, message}; }
inline Status precondition(const std::string& message) {
    return {PJRT_Error_Code_FAILED_PRECONDITION, message};
}

/// What the exception in flight says.
Failure current_failure() noexcept;

/// What callers know as PJRT_Error.
struct ErrorObject {
    Failure failure;
};
/// Null without memory for it, which PJRT reads as success: nothing better can be answered then.
ErrorObject* make_error(Failure failure) noexcept;

void bind_errors(PJRT_Api& api);

}  // namespace npu::pjrt
