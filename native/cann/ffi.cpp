#include "cann/ffi.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "cann/error.h"

namespace npu::cann {
namespace {

// libffi's own ABI (ffi.h of 3.x), unchanged since 2008: two functions and the descriptions of the types.
using Prepare = int(void* cif, int abi, unsigned count, void* result, void** arguments);
using Call = void(void* cif, void (*function)(), void* result, void** arguments);

#if defined(__x86_64__)
constexpr int kDefaultAbi = 2;  // FFI_UNIX64
#elif defined(__aarch64__)
constexpr int kDefaultAbi = 1;  // FFI_SYSV
#else
#error \
    "the number of libffi's default ABI on this machine is not known here: see FFI_DEFAULT_ABI in its ffitarget.h"
#endif

constexpr const char* kSonames[] = {"libffi.so.8", "libffi.so.7", "libffi.so.6"};
constexpr const char* kTypes[] = {
    "ffi_type_pointer", "ffi_type_sint8",  "ffi_type_uint8", "ffi_type_sint32", "ffi_type_uint32",
    "ffi_type_sint64",  "ffi_type_uint64", "ffi_type_float", "ffi_type_double",
};
constexpr auto kTypeCount = static_cast<std::size_t>(ArgumentType::count);
static_assert(std::size(kTypes) == kTypeCount);

struct Libffi {
    Prepare* prepare = nullptr;
    Call* call = nullptr;
    std::array<void*, kTypeCount> types{};

    Libffi() {
        void* library = nullptr;
        for (const char* soname : kSonames)
            if (library == nullptr) library = dlopen(soname, RTLD_LAZY);
        if (library == nullptr)
            throw SymbolError(
                "operators are called through libffi, and this machine has none (libffi.so.8, .7 or .6); "
                "on Debian and Ubuntu: apt-get install libffi8, with conda: conda install libffi");
        prepare = reinterpret_cast<Prepare*>(dlsym(library, "ffi_prep_cif"));
        call = reinterpret_cast<Call*>(dlsym(library, "ffi_call"));
        bool complete = prepare != nullptr && call != nullptr;
        for (std::size_t i = 0; i < kTypeCount; ++i)
            complete &= (types[i] = dlsym(library, kTypes[i])) != nullptr;
        if (!complete)
            throw SymbolError("this machine's libffi lacks ffi_call or one of its types; install libffi 3.x");
    }
};

const Libffi& libffi() {
    static const Libffi only;
    return only;
}

}  // namespace

CallInterface::CallInterface(std::span<const ArgumentType> arguments) {
    const Libffi& ffi = libffi();
    for (ArgumentType type : arguments) types_.push_back(ffi.types[static_cast<std::size_t>(type)]);
    const int status = ffi.prepare(cif_.data(), kDefaultAbi, static_cast<unsigned>(types_.size()),
                                   ffi.types[static_cast<std::size_t>(ArgumentType::sint32)], types_.data());
    if (status != 0) throw SymbolError("ffi_prep_cif answered " + std::to_string(status));
}

int CallInterface::call(void* function, void** arguments) const {
    uint64_t result = 0;  // libffi writes a whole register
    libffi().call(cif_.data(), reinterpret_cast<void (*)()>(function), &result, arguments);
    return static_cast<int32_t>(result);
}

}  // namespace npu::cann
