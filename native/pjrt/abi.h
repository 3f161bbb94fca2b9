// From a function of ours to a slot of PJRT's table: exceptions become errors, and callers of another version
// are met.
#pragma once

#include <algorithm>
#include <cstring>

#include "pjrt/status.h"

namespace npu::pjrt {

/// Bytes that a caller keeps until it calls the deleter that came with them.
struct Bytes {
    std::string text;
};
inline void delete_bytes(Bytes* bytes) { delete bytes; }

namespace detail {

template <auto F>
struct Guarded;

template <typename Args, void (*F)(Args&)>
struct Guarded<F> {
    static ErrorObject* call(Args* args) noexcept {
        try {
            if (args->struct_size >= sizeof(Args)) {
                F(*args);
                return nullptr;
            }
            // The caller's struct ends earlier: what it does not have reads as zero.
            Args whole{};
            std::memcpy(static_cast<void*>(&whole), args, args->struct_size);
            F(whole);
            std::memcpy(static_cast<void*>(args), &whole, args->struct_size);
            return nullptr;
        } catch (...) {
            return make_error(current_failure());
        }
    }
};

}  // namespace detail

/// The function to put into a slot, for `void F(Args&)` that throws.
template <auto F>
constexpr auto slot = &detail::Guarded<F>::call;

/// The same for a field of an extension, which the facts know as an address only.
template <auto F>
void* extension_slot() {
    return reinterpret_cast<void*>(slot<F>);
}

/// Throws Status where a caller gives null for a handle.
template <typename T>
T& need(T* handle, const char* what) {
    if (handle == nullptr) throw invalid(std::string("the caller gave no ") + what);
    return *handle;
}

/// Zeroes a struct's results, which begin at `offset`.
template <typename Args>
void clear_from(Args& args, std::size_t offset) {
    std::memset(reinterpret_cast<char*>(&args) + offset, 0, sizeof(Args) - offset);
}

inline std::string text(const char* data, std::size_t size) {
    return size == 0 ? "" : std::string(data, size);
}

}  // namespace npu::pjrt
