// XLA's foreign function interface: functions of the user's that programs call with device memory and the
// device's stream.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/program.h"
#include "pjrt/work.h"

namespace npu::pjrt {

/// What travels with one run. The data for custom calls is the caller's.
struct RunInfo {
    int32_t launch_id = 0;
    std::map<int64_t, void*> user_data;  ///< by the number of its type
    std::vector<uint32_t> donated;       ///< parameters whose memory the caller gives up
};

using FfiHandler = void* (*)(XLA_FFI_CallFrame*);  // answers an XLA_FFI_Error, null for none

/// Throws Status: nobody registered the target for npu.
FfiHandler ffi_handler(const std::string& target);
/// Throws Status: the name is taken by another one, or it is made for another version of the interface.
void register_ffi_handler(const std::string& target, FfiHandler handler);
/// The number of a type by its name, given out at first need. `wanted`: the number it must have, 0 for any.
/// Throws Status: it has another one.
int64_t ffi_type_id(const std::string& name, int64_t wanted);

/// Has the handler put its work on the device's stream. Throws Status: what it answered.
Storages run_ffi(Device& device, const HostCall& call, const Storages& inputs,
                 const std::vector<Shape>& shapes, const std::vector<Shape>& results, const RunInfo& run);

/// A handler that has not finished: its end is told through this. What callers know as XLA_FFI_Future.
struct FfiFuture {
    std::shared_ptr<Signal> signal = std::make_shared<Signal>();
};
/// What callers know as XLA_FFI_Error, made by handlers.
struct FfiError {
    Failure failure;
};
/// What callers know as XLA_FFI_ExecutionContext.
struct FfiContext {
    Device& device;
    const RunInfo& run;
    std::map<void*, std::shared_ptr<Storage>> allocated;
};

/// The functions that handlers call.
const XLA_FFI_Api& ffi_api();

/// The number that XLA's FFI has for PJRT's element type. Throws Status: it has none.
uint32_t ffi_type(int pjrt_type);

/// The sizes that handlers compare with: XLA's headers leave these structs' last fields out of them.
inline constexpr std::size_t kFfiCallFrameSize = offsetof(XLA_FFI_CallFrame, future);
inline constexpr std::size_t kFfiMetadataSize = offsetof(XLA_FFI_Metadata, traits) + sizeof(uint32_t);

/// Attributes of a call in the form in which handlers read them. Keeps what it points to.
class FfiAttributes {
  public:
    /// Throws Status: the bytes are no message FfiAttributes (README.md).
    explicit FfiAttributes(std::string_view bytes, int depth = 0);
    FfiAttributes(FfiAttributes&&) = default;
    XLA_FFI_Attrs frame();

  private:
    struct Entry;
    struct DeleteEntry {
        void operator()(Entry* entry) const;
    };
    std::vector<std::unique_ptr<Entry, DeleteEntry>> entries_;
    std::vector<uint32_t> types_;
    std::vector<void*> names_, values_;
};

}  // namespace npu::pjrt
