// GetPjrtApi: the table of functions, and what the plugin says of itself.
#include "pjrt/abi.h"
#include "pjrt/buffer.h"
#include "pjrt/callbacks.h"
#include "pjrt/client.h"
#include "pjrt/event.h"
#include "pjrt/executable.h"
#include "pjrt/execute_context.h"
#include "pjrt/extensions.h"
#include "pjrt/loaded_executable.h"
#include "pjrt/transfer_manager.h"

namespace npu::pjrt {
namespace {

// jaxlib calls through tables inside PJRT_Memory and PJRT_Error from 106 on, which ours have not.
constexpr int kReportedMinor = 104;

// Without the versions the caller sends its oldest dialect.
void attributes(PJRT_Plugin_Attributes_Args& args) {
    static const auto* values = [] {
        auto* made = new NamedValues;
        const StableHloVersions versions = stablehlo_versions();
        made->add("xla_version", int64_t{2});
        if (!versions.current.empty()) {
            made->add("stablehlo_current_version", versions.current);
            made->add("stablehlo_minimum_version", versions.minimum);
        }
        return made;
    }();
    args.attributes = values->data();
    args.num_attributes = values->size();
}

void initialise(PJRT_Plugin_Initialize_Args&) { cann::initialise(); }

// The slots that nothing below fills.
void bind_unimplemented(PJRT_Api& api) {
#define NPU_PJRT_UNIMPLEMENTED(name)                                                            \
    api.name = [](name##_Args*) -> ErrorObject* {                                               \
        return make_error({PJRT_Error_Code_UNIMPLEMENTED, #name " is not implemented by npu"}); \
    };
    NPU_PJRT_SLOTS(NPU_PJRT_UNIMPLEMENTED)
#undef NPU_PJRT_UNIMPLEMENTED
}

PJRT_Api make_api() {
    PJRT_Api api{};
    api.struct_size = sizeof api;
    api.pjrt_api_version.struct_size = sizeof api.pjrt_api_version;
    api.pjrt_api_version.major_version = PJRT_API_MAJOR;
    api.pjrt_api_version.minor_version = kReportedMinor;
    bind_unimplemented(api);
    api.PJRT_Plugin_Initialize = slot<initialise>;
    api.PJRT_Plugin_Attributes = slot<attributes>;
    for (const auto bind :
         {bind_errors, bind_event, bind_client, bind_device, bind_device_description, bind_memory,
          bind_topology, bind_buffer, bind_buffer_creation, bind_buffer_copies, bind_buffer_promises,
          bind_execute_context, bind_executable, bind_loaded_executable, bind_transfer_manager})
        bind(api);
    for (const auto extend : {layouts_extension, memory_descriptions_extension, shardings_extension,
                              stream_extension, raw_buffer_extension, ffi_extension, abi_version_extension})
        api.extension_start = extend(api.extension_start);
    return api;
}

}  // namespace
}  // namespace npu::pjrt

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
    static const PJRT_Api api = npu::pjrt::make_api();
    return &api;
}
