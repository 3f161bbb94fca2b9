#include "pjrt/event.h"

#include "pjrt/abi.h"

namespace npu::pjrt {
namespace {

Signal& signal(Event* handle) { return need(handle, "event").signal(); }

void pass_on(const Failure* failure) {
    if (failure != nullptr) throw Status(*failure);
}

void create(PJRT_Event_Create_Args& args) { args.event = new Event(std::make_shared<Signal>()); }

void set(PJRT_Event_Set_Args& args) {
    if (args.error_code == PJRT_Error_Code_OK)
        signal(args.event).set(std::nullopt);
    else
        signal(args.event)
            .set(Failure{static_cast<int>(args.error_code),
                         text(args.error_message, args.error_message_size)});
}

void destroy(PJRT_Event_Destroy_Args& args) { delete args.event; }

void is_ready(PJRT_Event_IsReady_Args& args) { args.is_ready = signal(args.event).ready(); }

// PJRT allows it for events that are ready only.
void error(PJRT_Event_Error_Args& args) {
    if (!signal(args.event).ready()) throw precondition("the event is not ready; wait for it first");
    pass_on(signal(args.event).known_failure());
}

void await(PJRT_Event_Await_Args& args) { pass_on(signal(args.event).wait()); }

void on_ready(PJRT_Event_OnReady_Args& args) {
    signal(args.event).then([callback = args.callback, argument = args.user_arg](const Failure* failure) {
        callback(failure == nullptr ? nullptr : make_error(*failure), argument);
    });
}

}  // namespace

void bind_event(PJRT_Api& api) {
    api.PJRT_Event_Create = slot<create>;
    api.PJRT_Event_Set = slot<set>;
    api.PJRT_Event_Destroy = slot<destroy>;
    api.PJRT_Event_IsReady = slot<is_ready>;
    api.PJRT_Event_Error = slot<error>;
    api.PJRT_Event_Await = slot<await>;
    api.PJRT_Event_OnReady = slot<on_ready>;
}

}  // namespace npu::pjrt
