// XLA_FFI_Api: what handlers call.
#include <new>

#include "pjrt/ffi.h"
#include "pjrt/topology.h"

namespace npu::pjrt {
namespace {

template <auto F>
struct FfiGuarded;

template <typename Args, void (*F)(Args&)>
struct FfiGuarded<F> {
    static void* call(Args* args) noexcept {
        try {
            F(*args);
            return nullptr;
        } catch (...) {
            return new (std::nothrow) FfiError{current_failure()};
        }
    }
};

template <auto F>
void* entry() {
    return reinterpret_cast<void*>(&FfiGuarded<F>::call);
}

FfiContext& context(void* handle) {
    if (handle == nullptr) throw invalid("the FFI handler gave no execution context");
    return *static_cast<FfiContext*>(handle);
}

std::string text(const XLA_FFI_ByteSpan& span) { return {static_cast<const char*>(span.ptr), span.len}; }

// These three answer something else than an error.
void* make_error(XLA_FFI_Error_Create_Args* args) noexcept {
    return new (std::nothrow) FfiError{
        {static_cast<int>(args->errc), args->message == nullptr ? "" : static_cast<char*>(args->message)}};
}

void error_message(XLA_FFI_Error_GetMessage_Args* args) noexcept {
    args->message = static_cast<FfiError*>(args->error)->failure.message.data();
}

void destroy_error(XLA_FFI_Error_Destroy_Args* args) noexcept { delete static_cast<FfiError*>(args->error); }

void register_bundle(XLA_FFI_Handler_Register_Args& args) {
    if (text(args.platform) != kPlatformName) throw invalid("npu takes FFI handlers for npu");
    if (args.bundle.instantiate != nullptr || args.bundle.prepare != nullptr ||
        args.bundle.initialize != nullptr)
        throw unimplemented("FFI handlers with other stages than execute are not possible on npu");
    register_ffi_handler(text(args.name), reinterpret_cast<FfiHandler>(args.bundle.execute));
}

void stream(XLA_FFI_Stream_Get_Args& args) { args.stream = context(args.ctx).device.stream()->handle(); }

void register_type(XLA_FFI_Type_Register_Args& args) {
    auto* id = static_cast<XLA_FFI_TypeId*>(args.type_id);
    id->type_id = ffi_type_id(text(args.name), id->type_id);
}

void user_data(XLA_FFI_ExecutionContext_Get_Args& args) {
    const auto& data = context(args.ctx).run.user_data;
    const auto found = data.find(static_cast<XLA_FFI_TypeId*>(args.type_id)->type_id);
    if (found == data.end())
        throw Status(PJRT_Error_Code_NOT_FOUND, "the run has no data of that type for its custom calls");
    args.data = found->second;
}

void set_state(XLA_FFI_State_Set_Args&) {
    throw unimplemented("FFI handlers with state are not possible on npu");
}

void get_state(XLA_FFI_State_Get_Args&) {
    throw unimplemented("FFI handlers with state are not possible on npu");
}

void allocate(XLA_FFI_DeviceMemory_Allocate_Args& args) {
    FfiContext& asked = context(args.ctx);
    auto storage = Storage::allocate(asked.device.default_memory(), args.size);
    args.data = storage->address();
    asked.allocated[args.data] = std::move(storage);
}

void free_memory(XLA_FFI_DeviceMemory_Free_Args& args) {
    if (context(args.ctx).allocated.erase(args.data) == 0)
        throw invalid("the FFI handler frees memory that it was not given");
}

// No threads of ours: the task is done within the call.
void schedule(XLA_FFI_ThreadPool_Schedule_Args& args) {
    reinterpret_cast<void (*)(void*)>(args.task)(args.data);
}

void thread_count(XLA_FFI_ThreadPool_NumThreads_Args& args) { *static_cast<int64_t*>(args.num_threads) = 1; }

void create_future(XLA_FFI_Future_Create_Args& args) { args.future = new FfiFuture; }

void future_available(XLA_FFI_Future_SetAvailable_Args& args) {
    static_cast<FfiFuture*>(args.future)->signal->set(std::nullopt);
}

void future_error(XLA_FFI_Future_SetError_Args& args) {
    const std::unique_ptr<FfiError> error(static_cast<FfiError*>(args.error));
    static_cast<FfiFuture*>(args.future)->signal->set(error->failure);
}

void run_id(XLA_FFI_RunId_Get_Args& args) { args.run_id = context(args.ctx).run.launch_id; }

void device_ordinal(XLA_FFI_DeviceOrdinal_Get_Args& args) {
    args.device_ordinal = context(args.ctx).device.number();
}

XLA_FFI_Api make_api() {
    XLA_FFI_Api api{};
    api.struct_size = sizeof api;
    api.api_version = {sizeof api.api_version, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    api.XLA_FFI_Error_Create = reinterpret_cast<void*>(&make_error);
    api.XLA_FFI_Error_GetMessage = reinterpret_cast<void*>(&error_message);
    api.XLA_FFI_Error_Destroy = reinterpret_cast<void*>(&destroy_error);
    api.XLA_FFI_Handler_Register = entry<register_bundle>();
    api.XLA_FFI_Stream_Get = entry<stream>();
    api.XLA_FFI_Type_Register = entry<register_type>();
    api.XLA_FFI_ExecutionContext_Get = entry<user_data>();
    api.XLA_FFI_State_Set = entry<set_state>();
    api.XLA_FFI_State_Get = entry<get_state>();
    api.XLA_FFI_DeviceMemory_Allocate = entry<allocate>();
    api.XLA_FFI_DeviceMemory_Free = entry<free_memory>();
    api.XLA_FFI_ThreadPool_Schedule = entry<schedule>();
    api.XLA_FFI_ThreadPool_NumThreads = entry<thread_count>();
    api.XLA_FFI_Future_Create = entry<create_future>();
    api.XLA_FFI_Future_SetAvailable = entry<future_available>();
    api.XLA_FFI_Future_SetError = entry<future_error>();
    api.XLA_FFI_RunId_Get = entry<run_id>();
    api.XLA_FFI_DeviceOrdinal_Get = entry<device_ordinal>();
    return api;
}

}  // namespace

const XLA_FFI_Api& ffi_api() {
    static const XLA_FFI_Api api = make_api();
    return api;
}

}  // namespace npu::pjrt
