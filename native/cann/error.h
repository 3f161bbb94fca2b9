// What a call of CANN that failed throws: the code, CANN's name for it, CANN's own sentence, and what was
// being done.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace npu::cann {

/// Whose codes: aclError (aclnn's statuses are among its names as far as the headers have them), HcclResult,
/// or the graph engine's graphStatus.
enum class Family { acl, hccl, graph };

class Error : public std::runtime_error {
  public:
    /// Reads aclGetRecentErrMsg of the calling thread, or the graph engine's last message: construct it where
    /// the call failed.
    Error(Family family, int64_t code, std::string_view call, std::string_view doing);

    Family family() const { return family_; }
    int64_t code() const { return code_; }
    const std::string& code_name() const { return code_name_; }
    const std::string& call() const { return call_; }
    const std::string& detail() const { return detail_; }  ///< CANN's sentence, may be empty

    /// Whether the device (not the host) had no memory left.
    bool out_of_memory() const;

  private:
    struct Parts;
    Error(Parts parts, Family family, int64_t code, std::string_view call);

    Family family_;
    int64_t code_;
    std::string code_name_, call_, detail_;
};

/// A function that this CANN does not have: in none of the libraries where it belongs.
class SymbolError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// An object that was closed is used again, or twice closed where that matters.
class ClosedError : public std::logic_error {
    using std::logic_error::logic_error;
};

/// `doing`: text, or a function that makes it, called on failure only.
template <typename Doing>
void check(Family family, int64_t code, std::string_view call, const Doing& doing) {
    if (code == 0) return;
    if constexpr (std::invocable<const Doing&>)
        throw Error(family, code, call, doing());
    else
        throw Error(family, code, call, doing);
}

}  // namespace npu::cann
