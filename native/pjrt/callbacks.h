// What the Python side hands over: the compiler, what programs call on the host, how to let go of Python's
// lock, and handlers of custom calls. Exported functions of this library, beside GetPjrtApi; README.md has
// the contract.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" {

struct NpuPjrtReply;

/// An array in host memory, dense and row-major. `pjrt_type`: PJRT_Buffer_Type.
struct NpuHostArray {
    void* data;
    int32_t pjrt_type;
    int32_t rank;
    const int64_t* dims;
};

using NpuPjrtCompiler = void (*)(const char* artefact, size_t size, const char* compile_options,
                                 size_t options_size, NpuPjrtReply* reply);
using NpuPjrtHostCall = void (*)(const char* target, const void* attributes, size_t attributes_size,
                                 int n_inputs, const NpuHostArray* inputs, int n_outputs,
                                 NpuHostArray* outputs, NpuPjrtReply* reply);

/// The caller's lock that lets one of its threads run at a time: whether this thread holds it, letting go of
/// it, and taking it again with what letting go gave. PyGILState_Check, PyEval_SaveThread,
/// PyEval_RestoreThread.
using NpuPjrtLockHeld = int (*)();
using NpuPjrtLockRelease = void* (*)();
using NpuPjrtLockTake = void (*)(void* released);

#pragma GCC visibility push(default)
/// Null takes it away. From any thread; a call that is under way ends with the former one.
void npu_pjrt_set_compiler(NpuPjrtCompiler compiler);
void npu_pjrt_set_host_call(NpuPjrtHostCall host_call);
/// All three or none; while no call is under way.
void npu_pjrt_set_caller_lock(NpuPjrtLockHeld held, NpuPjrtLockRelease release, NpuPjrtLockTake take);
/// Answers a callback, within it: `code` 0 and the result's bytes, or a PJRT_Error_Code and a sentence
/// (UTF-8).
void npu_pjrt_reply(NpuPjrtReply* reply, int code, const void* bytes, size_t size);
/// The StableHLO versions that the compiler reads, {major, minor, patch} each; before the plugin is first
/// asked for its attributes. Without it the caller takes its oldest.
void npu_pjrt_set_stablehlo_versions(const int64_t* current, const int64_t* minimum);
/// What PJRT_FFI_Register_Handler and PJRT_FFI_Type_Register do, for callers who have no PJRT_Api. `type_id`:
/// the type's number, 0 to be given one. Answer a PJRT_Error_Code, and a sentence in `message`, cut to its
/// size.
int npu_pjrt_register_ffi_target(const char* target, void* handler, char* message, size_t size);
int npu_pjrt_register_ffi_type(const char* name, int64_t* type_id, char* message, size_t size);
#pragma GCC visibility pop
}

namespace npu::pjrt {

/// A serialised Program. Throws Status: no compiler is set, or what it answered.
std::string compile(std::string_view artefact, std::string_view options);

/// Throws Status.
void call_host(const std::string& target, std::string_view attributes,
               const std::vector<NpuHostArray>& inputs, std::vector<NpuHostArray>& outputs);

/// Throws Status within a host call, on its thread: what it starts on the device would wait for it forever.
void outside_host_call();

/// Lets the caller's other threads run while this lives: for waits within calls that JAX makes under Python's
/// lock, since a host call of the program that is waited for needs it.
class CallerUnlocked {
  public:
    CallerUnlocked();
    ~CallerUnlocked();
    CallerUnlocked(const CallerUnlocked&) = delete;
    CallerUnlocked& operator=(const CallerUnlocked&) = delete;

  private:
    void* released_ = nullptr;
};

struct StableHloVersions {
    std::vector<int64_t> current, minimum;
};
/// Empty where nobody said.
StableHloVersions stablehlo_versions();

}  // namespace npu::pjrt
