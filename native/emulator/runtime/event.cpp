// Events: a point in a stream to wait for, to query and to time.
#include "graph.h"
#include "ipc.h"
#include "runtime.h"
#include "timeout.h"

using namespace npu::emulator;

namespace {

constexpr uint32_t kKnownFlags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                 ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

aclError create(aclrtEvent* handle, uint32_t flags, bool reusable, const char* function) {
    NPU_RETURN_IF_ERROR(use(function));
    NPU_RETURN_IF_ERROR(require(handle, function, "event"));
    if ((flags & ~kKnownFlags) != 0) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": flag " + std::to_string(flags) +
                                                 " holds bits that CANN does not know");
    }
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context(function, &context));
    auto event = std::make_shared<EventState>();
    event->flags = flags;
    event->id = runtime.next_id();
    event->reusable = reusable;
    event->device = context->device;
    if ((flags & ACL_EVENT_EXTERNAL) != 0) {
        event->flag = std::make_shared<NotifyState>();
        event->flag->id = event->id;
        event->flag->device = context->device;
    }
    *handle = event.get();
    runtime.events.emplace(event.get(), std::move(event));
    return ACL_SUCCESS;
}

template <class Access>
aclError with_event(aclrtEvent handle, const char* function, const void* output, Access access) {
    NPU_RETURN_IF_ERROR(usable(function));
    NPU_RETURN_IF_ERROR(require(output, function, "the output pointer"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr event;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &event));
    return access(*event);
}

/// An event that streams inside and outside of a graph share is only a flag between them.
aclError refuse_external(const EventState& event, const char* function) {
    if (!event.flag) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                std::string(function) +
                    ": an event made with ACL_EVENT_EXTERNAL cannot be waited for or asked by the host");
}

/// On a stream, or into the graph it is captured into.
template <class Flag>
aclError put_flag(Lock& lock, Stream& stream, Flag item, const char* function) {
    if (stream.graph) return record_item(stream, std::move(item), function);
    Runtime::get().scheduler.enqueue(lock, stream, std::move(item));
    return ACL_SUCCESS;
}

/// Recorded, and the place of the last record reached.
bool complete(const EventState& event) {
    if (event.shared) return event.shared->complete();
    return event.recorded > 0 && event.reached(event.recorded);
}

/// visible: a captured record takes place for streams outside of the graph.
aclError record(aclrtEvent event_handle, aclrtStream stream_handle, bool visible, const char* function) {
    NPU_RETURN_IF_ERROR(use(function));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr event;
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(event_handle, function, &event));
    NPU_RETURN_IF_ERROR(runtime.find(stream_handle, function, &stream));
    if (event->flag) return put_flag(lock, *stream, RecordNotify{event->flag}, function);
    if (stream->graph && visible) return record_item(*stream, Publish{event}, function);
    if (stream->graph) return record_mark(*stream, *event, function);
    event->graph = 0;
    const uint64_t generation = event->recorded = ++event->generations;
    event->pending.insert(generation);
    const uint64_t shared_generation = event->shared ? event->shared->record() : 0;
    runtime.scheduler.enqueue(lock, *stream, RecordEvent{event, generation, shared_generation});
    return ACL_SUCCESS;
}

/// The wait is for the record that was the last one when it was called: later records do not move it.
aclError stream_wait(aclrtStream stream_handle, aclrtEvent event_handle, const char* function) {
    NPU_RETURN_IF_ERROR(use(function));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr event;
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(event_handle, function, &event));
    NPU_RETURN_IF_ERROR(runtime.find(stream_handle, function, &stream));
    if (event->flag) return put_flag(lock, *stream, WaitFlag{event->flag}, function);
    if (stream->graph || captured(*event)) return await_mark(*stream, *event, function);
    if (event->shared) {
        runtime.scheduler.enqueue(lock, *stream, RunTask{wait_task(event->shared), Engine::host});
        return ACL_SUCCESS;
    }
    if (event->recorded == 0) return ACL_SUCCESS;
    ++event->waits;
    runtime.scheduler.enqueue(lock, *stream, WaitEvent{event, event->recorded});
    return ACL_SUCCESS;
}

aclError synchronize(aclrtEvent handle, const char* function, Deadline deadline) {
    NPU_RETURN_IF_ERROR(use(function));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr event;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &event));
    NPU_RETURN_IF_ERROR(refuse_external(*event, function));
    NPU_RETURN_IF_ERROR(refuse_captured(*event, function));
    bool in_time = true;
    if (event->shared) {
        lock.unlock();
        in_time = event->shared->wait(event->shared->recorded(), deadline);
        lock.lock();
    } else {
        in_time = runtime.scheduler.wait(lock, *event, event->recorded, deadline);
    }
    if (!in_time) {
        return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, std::string(function) + ": event " +
                                                         std::to_string(event->id) +
                                                         " was not reached before the time-out");
    }
    return runtime.sticky(*event->device, function);
}

/// The external flags have a meaning for a captured stream only.
aclError need_capture(aclrtStream handle, const char* function) {
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &stream));
    if (stream->graph) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(function) + ": the external flag is for a stream that is being captured");
}

aclError need_timestamp(const EventState& event, const char* function, const char* which) {
    if ((event.flags & ACL_EVENT_TIME_LINE) == 0) {
        return fail(
            ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
            std::string(function) + ": " + which + " has no timestamps; create it with ACL_EVENT_TIME_LINE");
    }
    if (complete(event) && event.completed > 0) return ACL_SUCCESS;
    return fail(
        ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
        std::string(function) + ": " + which + " was not recorded or not reached yet; synchronise it first");
}

}  // namespace

aclError aclrtCreateEvent(aclrtEvent* event) {
    return create(event, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE, false,
                  "aclrtCreateEvent");
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
    return create(event, flag, false, "aclrtCreateEventWithFlag");
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
    NPU_RETURN_IF_ERROR(create(event, flag, true, "aclrtCreateEventExWithFlag"));
    if ((flag & ACL_EVENT_IPC) == 0) return ACL_SUCCESS;
    const aclError code = share_event(*event, "aclrtCreateEventExWithFlag");
    if (code != ACL_SUCCESS) aclrtDestroyEvent(*event);
    return code;
}

/// Queued records and waits of the event still take place.
aclError aclrtDestroyEvent(aclrtEvent event) {
    Runtime& runtime = Runtime::get();
    if (runtime.lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    Lock lock(runtime.scheduler.mutex);
    EventPtr found;
    NPU_RETURN_IF_ERROR(runtime.find(event, "aclrtDestroyEvent", &found));
    runtime.events.erase(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    return record(event, stream, false, "aclrtRecordEvent");
}

/// flag: ACL_EVENT_RECORD_EXTERNAL, while the stream is captured only, makes replays record the event for the
/// streams outside of the graph.
aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
    constexpr const char* name = "aclrtRecordEventWithFlag";
    if (flag > ACL_EVENT_RECORD_EXTERNAL)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": flag " + std::to_string(flag) +
                                                 " is not one of ACL_EVENT_RECORD_*");
    const bool external = flag == ACL_EVENT_RECORD_EXTERNAL;
    if (external) NPU_RETURN_IF_ERROR(need_capture(stream, name));
    return record(event, stream, external, name);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    NPU_RETURN_IF_ERROR(use("aclrtResetEvent"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr found;
    Stream* target = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(event, "aclrtResetEvent", &found));
    NPU_RETURN_IF_ERROR(runtime.find(stream, "aclrtResetEvent", &target));
    if (found->flag) return put_flag(lock, *target, ResetFlag{found->flag}, "aclrtResetEvent");
    if (target->graph) return ACL_SUCCESS;  // as on CANN: the events of a graph reset themselves
    if (found->reusable) {
        return fail(ACL_ERROR_API_NOT_SUPPORT,
                    "aclrtResetEvent: events made by aclrtCreateEventExWithFlag are reused without a reset");
    }
    runtime.scheduler.enqueue(lock, *target, ResetEvent{found, found->recorded});
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return stream_wait(stream, event, "aclrtStreamWaitEvent");
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    return synchronize(event, "aclrtSynchronizeEvent", std::nullopt);
}

/// timeout: milliseconds, -1 for ever.
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    Deadline deadline;
    NPU_RETURN_IF_ERROR(read_timeout(timeout, "aclrtSynchronizeEventWithTimeout", &deadline));
    return synchronize(event, "aclrtSynchronizeEventWithTimeout", deadline);
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
    return with_event(event, "aclrtQueryEvent", status, [&](const EventState& e) -> aclError {
        NPU_RETURN_IF_ERROR(refuse_external(e, "aclrtQueryEvent"));
        NPU_RETURN_IF_ERROR(refuse_captured(e, "aclrtQueryEvent"));
        *status = complete(e) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
        return ACL_SUCCESS;
    });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
    return with_event(event, "aclrtQueryEventStatus", status, [&](const EventState& e) -> aclError {
        NPU_RETURN_IF_ERROR(refuse_external(e, "aclrtQueryEventStatus"));
        NPU_RETURN_IF_ERROR(refuse_captured(e, "aclrtQueryEventStatus"));
        *status = complete(e) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
        return ACL_SUCCESS;
    });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
    return with_event(event, "aclrtQueryEventWaitStatus", status, [&](const EventState& e) {
        *status = e.waits == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
        return ACL_SUCCESS;
    });
}

aclError aclrtGetEventId(aclrtEvent event, uint32_t* eventId) {
    return with_event(event, "aclrtGetEventId", eventId, [&](const EventState& e) {
        *eventId = e.id;
        return ACL_SUCCESS;
    });
}

/// timestamp: microseconds of a clock that never goes back.
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
    return with_event(event, "aclrtEventGetTimestamp", timestamp, [&](const EventState& e) {
        NPU_RETURN_IF_ERROR(need_timestamp(e, "aclrtEventGetTimestamp", "the event"));
        const auto since = std::chrono::duration_cast<std::chrono::microseconds>(e.time.time_since_epoch());
        *timestamp = static_cast<uint64_t>(since.count());
        return ACL_SUCCESS;
    });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    constexpr const char* name = "aclrtEventElapsedTime";
    NPU_RETURN_IF_ERROR(usable(name));
    NPU_RETURN_IF_ERROR(require(ms, name, "ms"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    EventPtr start, end;
    NPU_RETURN_IF_ERROR(runtime.find(startEvent, name, &start));
    NPU_RETURN_IF_ERROR(runtime.find(endEvent, name, &end));
    NPU_RETURN_IF_ERROR(need_timestamp(*start, name, "the start event"));
    NPU_RETURN_IF_ERROR(need_timestamp(*end, name, "the end event"));
    if (end->time < start->time) {
        return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
                    std::string(name) + ": the end event was reached before the start event; swap them");
    }
    *ms = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return ACL_SUCCESS;
}
