// Calls a C function whose argument types are known at run time only, by libffi
// (docs/decisions/0008-libffi-at-run-time.md).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace npu::cann {

enum class ArgumentType { pointer, sint8, uint8, sint32, uint32, sint64, uint64, float32, float64, count };

/// A function type: those arguments, an int32_t result. Immutable, so thread-safe.
class CallInterface {
  public:
    /// Throws SymbolError: this machine has no libffi.
    explicit CallInterface(std::span<const ArgumentType> arguments);
    CallInterface(const CallInterface&) = delete;
    CallInterface& operator=(const CallInterface&) = delete;

    /// arguments[i] points to the value of argument i.
    int call(void* function, void** arguments) const;

  private:
    // ffi_cif: 32 bytes on x86-64 and aarch64 Linux; room for what a later libffi may add.
    alignas(16) mutable std::array<std::byte, 128> cif_{};
    std::vector<void*> types_;
};

}  // namespace npu::cann
