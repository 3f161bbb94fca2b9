// Finds CANN's functions at run time: nothing of ours links to CANN, so that one build serves every version
// and provider.
//
// A library is taken, in this order: the one that is loaded already under its SONAME (npu_common.toolkit
// loads them; so does torch_npu), ASCEND_HOME_PATH/lib64, the dynamic linker's own search. All functions here
// are thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cann/error.h"

namespace npu::cann {

/// Where a function belongs. Each part is one library or several that CANN has split it into over time.
enum class Part { runtime, hccl, aclnn, operators, graph, count };

/// Where a function came from.
struct Origin {
    std::string symbol;
    std::string file;     ///< path of the library that holds it
    std::string version;  ///< of the CANN that the library belongs to, "unknown" where it does not say
};

/// The address of a function. Throws SymbolError: no library of the part has it (names the function, the
/// libraries that were searched and their CANN version), or none of them could be loaded.
void* find(Part part, const char* name);

/// The same, null instead of an exception.
void* find_if_any(Part part, const char* name) noexcept;

/// Which library and version the function is from. Throws SymbolError as find does.
Origin origin(Part part, const char* name);

/// The functions bound so far through Function, in the order of their first use.
std::vector<Origin> bound();

/// The version of the CANN whose runtime is loaded, as its files or aclsysGetCANNVersion state it.
std::string version();

void remember(Part part, const char* name);

template <typename F>
class Function;

/// A function of CANN with our own prototype of it, bound at its first call.
template <typename R, typename... A>
class Function<R(A...)> {
  public:
    constexpr Function(Part part, const char* name) : part_(part), name_(name) {}
    Function(const Function&) = delete;
    Function& operator=(const Function&) = delete;

    const char* name() const { return name_; }

    /// Throws SymbolError.
    R operator()(A... arguments) { return get()(arguments...); }

    bool exists() { return address_.load(std::memory_order_acquire) != nullptr || find_if_any(part_, name_); }

  private:
    using Pointer = R (*)(A...);

    Pointer get() {
        void* address = address_.load(std::memory_order_acquire);
        if (address == nullptr) [[unlikely]] {
            address = find(part_, name_);
            if (address_.exchange(address, std::memory_order_acq_rel) == nullptr) remember(part_, name_);
        }
        return reinterpret_cast<Pointer>(address);
    }

    Part part_;
    const char* name_;
    std::atomic<void*> address_ = nullptr;
};

}  // namespace npu::cann
