// What the runtime's handles point at. All mutable members are guarded by Runtime::mutex unless said
// otherwise.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "cann/acl.h"
#include "launch.h"

namespace npu::emulator {

struct Stream;
struct Device;
struct Graph;
struct TaskGroup;
struct TaskUpdate;
struct NotifyState;

using Clock = std::chrono::steady_clock;

/// Shared between an event's handle, the streams that record it and those that wait for it.
struct EventState {
    uint32_t flags = 0;
    uint32_t id = 0;
    bool reusable = true;  ///< made by ...ExWithFlag: no reset, no wait status
    Device* device = nullptr;
    uint64_t generations = 0;     ///< aclrtRecordEvent calls so far
    uint64_t recorded = 0;        ///< generation of the last record, 0: none since creation or reset
    std::set<uint64_t> pending;   ///< generations whose place in their stream is not reached yet
    uint64_t completed = 0;       ///< highest generation reached
    Clock::time_point time{};     ///< when `completed` was reached
    uint32_t waits = 0;           ///< waits enqueued and not yet satisfied
    std::vector<Stream*> parked;  ///< streams whose head waits for a generation of this event
    std::shared_ptr<class SharedEvent> shared;  ///< visible to other processes, see ipc.h
    std::shared_ptr<NotifyState> flag;  ///< ACL_EVENT_EXTERNAL: set by a record, cleared by a reset only
    uint32_t graph = 0;                 ///< id of the graph whose capture recorded it last, 0: none
    std::size_t point = 0;              ///< where in that graph

    bool reached(uint64_t generation) const { return !pending.contains(generation); }
};
using EventPtr = std::shared_ptr<EventState>;

/// A flag between streams: a record sets it, a wait (WaitNotify) takes it or leaves it set (WaitFlag).
struct NotifyState {
    uint32_t id = 0;
    Device* device = nullptr;
    bool set = false;
    std::vector<Stream*> parked;
};
using NotifyPtr = std::shared_ptr<NotifyState>;

struct RunTask {
    std::unique_ptr<Task> task;
    Engine engine;
};
struct RecordEvent {
    EventPtr event;
    uint64_t generation;
    uint64_t shared_generation;  ///< the same record in the shared event's count
};
struct WaitEvent {
    EventPtr event;
    uint64_t generation;
};
struct ResetEvent {
    EventPtr event;
    uint64_t generation;
};
struct RecordNotify {
    NotifyPtr notify;
};
struct WaitNotify {
    NotifyPtr notify;
};
struct WaitFlag {
    NotifyPtr notify;
};
struct ResetFlag {
    NotifyPtr notify;
};
/// A host callback for the thread that subscribed to the stream it was launched on; `blocking` holds the
/// stream until it returned.
struct Callback {
    void (*function)(void*);
    void* data;
    bool blocking;
    uint64_t subscriber;
};
using Item = std::variant<RunTask, RecordEvent, WaitEvent, ResetEvent, RecordNotify, WaitNotify, WaitFlag,
                          ResetFlag, Callback>;

/// The first failure of a device since its last reset; see launch.h.
struct StickyError {
    aclError code = ACL_SUCCESS;
    std::string sentence;
};

struct Device {
    int32_t index = 0;
    bool active = false;  ///< a primary context was asked for (aclrtSetDevice)
    StickyError error;
    bool abandoning = false;  ///< a reset is draining the streams: nothing queued is run
    std::vector<Stream*> streams;
    struct Context* primary = nullptr;
    uint64_t outstanding = 0;  ///< items enqueued and not finished, over all streams
    std::vector<std::pair<void*, std::size_t>>
        graveyard;                       ///< freed while work was outstanding: unmapped when idle
    std::array<uint32_t, 3> captures{};  ///< running captures, by aclmdlRICaptureMode
};

struct Context {
    Device* device = nullptr;
    Stream* default_stream = nullptr;
    std::vector<std::optional<int64_t>> sys_params;
    bool primary = false;
};

/// An ordered queue. Its head is processed only while `busy` is false, so work of one stream never overlaps.
struct Stream {
    Device* device = nullptr;
    int32_t id = 0;
    uint32_t priority = 0;
    uint32_t flags = 0;
    uint64_t failure_mode = ACL_STOP_ON_FAILURE;
    uint32_t custom_tag = 0;
    uint32_t cache_op_info = 0;
    std::deque<Item> queue;
    uint64_t enqueued = 0;   ///< items ever appended
    uint64_t finished = 0;   ///< items ever completed, in the same order
    bool busy = false;       ///< the head was handed to an engine, a callback thread or the caller
    bool parked = false;     ///< the head waits for an event or a notify
    bool destroyed = false;  ///< handle released; deleted when drained
    uint32_t waiters = 0;    ///< threads in synchronise
    std::condition_variable progress;
    uint64_t subscriber = 0;  ///< the thread that processes its callbacks (aclrtSubscribeReport)
    bool subscribed = false;
    std::shared_ptr<Graph> graph;  ///< being captured into it: what is launched is recorded, see graph.h
    uint32_t lane = 0;             ///< its place among the graph's streams
    TaskGroup* group = nullptr;    ///< open task group of the capture
    std::shared_ptr<TaskUpdate> update;  ///< collects what replaces the tasks of a group

    bool idle() const { return !busy && queue.empty(); }
};

}  // namespace npu::emulator
