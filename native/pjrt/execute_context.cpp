#include "pjrt/execute_context.h"

#include "pjrt/abi.h"

namespace npu::pjrt {

void ExecuteContext::add(int64_t type, void* data) {
    std::lock_guard lock(mutex_);
    if (!data_.emplace(type, data).second)
        throw Status(PJRT_Error_Code_ALREADY_EXISTS,
                     "the execute context has data of type " + std::to_string(type) + " already");
}

std::map<int64_t, void*> ExecuteContext::all() const {
    std::lock_guard lock(mutex_);
    return data_;
}

namespace {

void create(PJRT_ExecuteContext_Create_Args& args) { args.context = new ExecuteContext; }

void destroy(PJRT_ExecuteContext_Destroy_Args& args) { delete args.context; }

void create_mark(PJRT_Device_CreateAsyncTrackingEvent_Args& args) {
    need(args.device, "device");
    args.event = new TrackingEvent;
}

void destroy_mark(PJRT_AsyncTrackingEvent_Destroy_Args& args) { delete args.event; }

}  // namespace

void bind_execute_context(PJRT_Api& api) {
    api.PJRT_ExecuteContext_Create = slot<create>;
    api.PJRT_ExecuteContext_Destroy = slot<destroy>;
    api.PJRT_Device_CreateAsyncTrackingEvent = slot<create_mark>;
    api.PJRT_AsyncTrackingEvent_Destroy = slot<destroy_mark>;
}

}  // namespace npu::pjrt
