// Handlers and types that the user registered, and the extension by which that is done.
#include <mutex>

#include "graph/wire.h"
#include "pjrt/abi.h"
#include "pjrt/callbacks.h"
#include "pjrt/execute_context.h"
#include "pjrt/extensions.h"
#include "pjrt/ffi.h"
#include "pjrt/topology.h"

namespace npu::pjrt {
namespace {

struct Registry {
    std::mutex mutex;
    std::map<std::string, FfiHandler> handlers;
    std::map<std::string, int64_t> types;
    int64_t last_type = 1'000'000;  // beyond what callers number by themselves

    static Registry& get() {
        static auto* registry = new Registry;  // kept to the end: handlers are called from threads
        return *registry;
    }
};

// A handler asked for its metadata tells which interface it was compiled for.
void check_version(const std::string& target, FfiHandler handler) {
    XLA_FFI_Metadata metadata{};
    metadata.struct_size = kFfiMetadataSize;
    metadata.api_version.struct_size = sizeof metadata.api_version;
    XLA_FFI_Metadata_Extension extension{};
    extension.extension_base = {sizeof extension, XLA_FFI_Extension_Metadata, nullptr};
    extension.metadata = &metadata;
    XLA_FFI_CallFrame frame{};
    frame.struct_size = kFfiCallFrameSize;
    frame.extension_start = &extension.extension_base;
    frame.api = const_cast<XLA_FFI_Api*>(&ffi_api());
    const std::unique_ptr<FfiError> error(static_cast<FfiError*>(handler(&frame)));
    if (error) throw Status(error->failure);
    const auto& version = metadata.api_version;
    if (version.major_version != XLA_FFI_API_MAJOR || version.minor_version > XLA_FFI_API_MINOR)
        throw invalid("the FFI handler " + graph::printable(target) + " is made for version " +
                      std::to_string(version.major_version) + "." + std::to_string(version.minor_version) +
                      " of XLA's FFI; npu has " + std::to_string(XLA_FFI_API_MAJOR) + "." +
                      std::to_string(XLA_FFI_API_MINOR));
}

}  // namespace

FfiHandler ffi_handler(const std::string& target) {
    Registry& registry = Registry::get();
    std::lock_guard lock(registry.mutex);
    const auto found = registry.handlers.find(target);
    if (found == registry.handlers.end())
        throw unimplemented("nobody registered the custom call " + graph::printable(target) +
                            " for npu; use jax.ffi.register_ffi_target(..., platform=\"npu\")");
    return found->second;
}

void register_ffi_handler(const std::string& target, FfiHandler handler) {
    if (handler == nullptr) throw invalid("the FFI handler " + graph::printable(target) + " is null");
    check_version(target, handler);
    Registry& registry = Registry::get();
    std::lock_guard lock(registry.mutex);
    const auto [place, added] = registry.handlers.emplace(target, handler);
    if (!added && place->second != handler)
        throw Status(PJRT_Error_Code_ALREADY_EXISTS,
                     "another FFI handler is registered for " + graph::printable(target) + " on npu");
}

int64_t ffi_type_id(const std::string& name, int64_t wanted) {
    Registry& registry = Registry::get();
    std::lock_guard lock(registry.mutex);
    const auto [place, added] = registry.types.emplace(name, wanted);
    if (added && wanted == 0) place->second = ++registry.last_type;
    if (wanted != 0 && place->second != wanted)
        throw Status(PJRT_Error_Code_ALREADY_EXISTS,
                     "the FFI type " + graph::printable(name) +
                         " has another number: " + std::to_string(place->second));
    return place->second;
}

namespace {

void register_type(PJRT_FFI_Type_Register_Args& args) {
    args.type_id = ffi_type_id(text(args.type_name, args.type_name_size), args.type_id);
}

void add_user_data(PJRT_FFI_UserData_Add_Args& args) {
    need(args.context, "execute context").add(args.user_data.type_id, args.user_data.data);
}

void register_handler(PJRT_FFI_Register_Handler_Args& args) {
    const std::string platform = text(args.platform_name, args.platform_name_size);
    if (!platform.empty() && platform != kPlatformName && platform != "NPU")
        throw invalid("the npu plugin takes FFI handlers for npu, not for " + graph::printable(platform));
    register_ffi_handler(text(args.target_name, args.target_name_size),
                         reinterpret_cast<FfiHandler>(args.handler));
}

}  // namespace

PJRT_Extension_Base* ffi_extension(PJRT_Extension_Base* next) {
    static PJRT_FFI_Extension extension{};
    extension.base = {sizeof extension, PJRT_Extension_Type_FFI, next};
    extension.type_register = extension_slot<register_type>();
    extension.user_data_add = extension_slot<add_user_data>();
    extension.register_handler = extension_slot<register_handler>();
    return &extension.base;
}

}  // namespace npu::pjrt

namespace {

// Runs it and answers what became of it.
template <typename F>
int answer(F&& work, char* message, size_t size) noexcept {
    try {
        work();
        return PJRT_Error_Code_OK;
    } catch (...) {
        const npu::pjrt::Failure failure = npu::pjrt::current_failure();
        if (size > 0) message[failure.message.copy(message, size - 1)] = '\0';
        return failure.code;
    }
}

}  // namespace

int npu_pjrt_register_ffi_target(const char* target, void* handler, char* message, size_t size) {
    const auto function = reinterpret_cast<npu::pjrt::FfiHandler>(handler);
    return answer([&] { npu::pjrt::register_ffi_handler(target, function); }, message, size);
}

int npu_pjrt_register_ffi_type(const char* name, int64_t* type_id, char* message, size_t size) {
    return answer([&] { *type_id = npu::pjrt::ffi_type_id(name, *type_id); }, message, size);
}
