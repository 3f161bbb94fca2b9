// Captured graphs (aclmdlRI): what streams would have done, recorded, to be put on a stream any number of
// times.
//
// A capture begins on one stream, its lane 0. A stream that waits for an event recorded in the capture joins
// it as a further lane, and has to be joined back. Items are kept in the order of the calls, which is an
// order in which they may run; a replay puts lane 0 on the launching stream and each other lane on a stream
// of the graph's own, with an event of the graph's own where one lane waits for another. Neighbouring tasks
// of a lane become one item of its stream, so a replayed task costs no lock. Replays of one graph follow each
// other.
//
// Everything is guarded by Scheduler::mutex unless said otherwise; functions with "Needs the lock" included.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "scheduler.h"

namespace npu::emulator {

/// Captures that a thread began, by mode, and the mode it chose by aclmdlRICaptureThreadExchangeMode.
struct ThreadModes {
    std::array<std::atomic<uint32_t>, 3> captures{};
    std::atomic<aclmdlRICaptureMode> exchanged{ACL_MODEL_RI_CAPTURE_MODE_GLOBAL};
};
std::shared_ptr<ThreadModes> modes_of_this_thread();

/// How far each lane had come: known[i] items of lane i.
using LaneClock = std::vector<uint64_t>;

struct Lane {
    Stream* stream = nullptr;  ///< that was captured; an identity only once the capture has ended
    int32_t stream_id = 0;
    LaneClock known;        ///< what comes before the lane's next item
    uint64_t count = 0;     ///< items
    Stream* own = nullptr;  ///< replays run here; nullptr: on the stream they are launched on
};

struct GraphTask {
    std::shared_ptr<Task> task;  ///< replaced by updates if `grouped`, under Graph::update_mutex
    MakeTask make;               ///< not empty: makes the task of each replay
    const char* name;
    Engine engine;
    std::size_t work;
    bool grouped = false;
};

struct DoTasks {
    std::vector<std::size_t> tasks;  ///< of Graph::tasks
    Engine engine;
    std::size_t work;
};
/// An event between streams of the graph; `point` numbers the record.
struct Mark {
    std::size_t point;
};
struct AwaitMark {
    std::size_t point;
};
/// A record or wait that the streams outside see (ACL_EVENT_RECORD_EXTERNAL, ACL_EVENT_WAIT_EXTERNAL).
struct Publish {
    EventPtr event;
};
struct Follow {
    EventPtr event;
};
using GraphItem = std::variant<DoTasks, Mark, AwaitMark, Publish, Follow, RecordNotify, WaitNotify, WaitFlag,
                               ResetFlag, Callback>;

struct Captured {
    uint32_t lane;
    GraphItem item;
};

/// Tasks that may be replaced between replays; its address is the handle.
struct TaskGroup {
    Graph* graph;
    std::vector<std::size_t> tasks;
    aclError error = ACL_SUCCESS;  ///< something else was launched within the group
    bool updating = false;
};

/// New tasks for a group, collected between aclmdlRICaptureTaskUpdateBegin and End.
struct TaskUpdate {
    std::weak_ptr<Graph> graph;  ///< weak: a stream may end, under the lock, with its update open
    TaskGroup* group;
    std::vector<std::shared_ptr<Task>> tasks;
};

enum class GraphState { capturing, invalid, ready };

struct Graph {
    Graph(uint32_t id, Device& device) : id(id), device(&device) {}
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph();  ///< takes the lock

    const uint32_t id;
    Device* const device;
    std::string name;
    GraphState state = GraphState::capturing;
    std::string reason;  ///< why it is invalid
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;              ///< that began the capture
    std::shared_ptr<ThreadModes> modes;  ///< of that thread

    std::vector<Lane> lanes;
    std::vector<LaneClock> points;  ///< what comes before each record, itself included
    std::vector<uint32_t> point_lanes;
    std::vector<GraphTask> tasks;   ///< not changed once the graph is ready
    std::vector<Captured> items;    ///< as captured
    std::vector<Captured> steps;    ///< as replayed: tasks put together, idle marks left out
    std::vector<EventPtr> marks;    ///< of each point, nullptr: nobody waits for it
    EventPtr done;                  ///< recorded behind each replay
    Stream* last_stream = nullptr;  ///< of the last replay, an identity only
    Stream* synchronous = nullptr;  ///< where aclmdlRIExecute runs
    bool makes = false;             ///< some tasks are made for each replay
    std::vector<std::unique_ptr<TaskGroup>> groups;
    std::vector<std::pair<aclrtCallback, void*>> destroy_callbacks;

    std::mutex launching;               ///< held from the making of a replay's tasks to its launch
    std::mutex update_mutex;            ///< grouped tasks
    std::atomic<uint64_t> launched{0};  ///< replays
    std::atomic<uint64_t> aborted{0};   ///< replays up to this number run no further task
};
using GraphPtr = std::shared_ptr<Graph>;

/// Fails the capture of the graph: aclmdlRICaptureEnd answers 507903 with this reason. Needs the lock.
void invalidate(Graph& graph, const std::string& reason);

/// The same for the graph that the stream is captured into; false: there is none. Takes the lock.
bool invalidate_capture(aclrtStream stream, const std::string& reason);

/// Records on a stream that is being captured. Needs the lock.
aclError record_task(Stream& stream, GraphTask task);
aclError record_item(Stream& stream, GraphItem item, const char* function);
aclError record_mark(Stream& stream, EventState& event, const char* function);

/// A wait for an event of a capture, or by a stream of one; joins the stream. Needs the lock.
aclError await_mark(Stream& stream, EventState& event, const char* function);

/// True if the event was last recorded by a capture that still runs. Needs the lock.
bool captured(const EventState& event);

/// What must not be done with a stream, event or device that a capture uses: 107027, 107028, and the capture
/// is invalid; success where there is no capture. Needs the lock.
aclError refuse_captured(const Stream& stream, const char* function);
aclError refuse_captured(const EventState& event, const char* function);
aclError refuse_captured(const Device& device, const char* function);

/// A copy of memory that the application may reuse as soon as the call returned, on a stream that may be
/// captured: 107041 where it cannot be recorded. Takes the lock.
aclError refuse_pageable(aclrtStream stream, const char* function, bool target);

/// A call that may wait for the device behind the capture's back (aclrtMemcpy ...): `code` where the capture
/// modes forbid it to this thread. Needs the lock.
aclError refuse_unsafe(const Device& device, const char* function, aclError code);

/// launch() on a stream that is found. Needs the lock; drops it while a tiny task runs here.
aclError append(Lock& lock, Stream& stream, std::unique_ptr<Task> task, Engine engine);

/// Collects the task for the update that is open on the stream. Needs the lock.
aclError collect_update(Stream& stream, std::unique_ptr<Task> task);

/// Ends the recording: streams are streams again. Needs the lock.
void leave_capture(Graph& graph);

/// Makes the steps and what replays need. Needs the lock.
void compile(Graph& graph);

/// Ends the captures of a device that is reset; the graphs are to be released without the lock. Needs the
/// lock.
std::vector<GraphPtr> drop_captures(Device& device);

/// The graph of a handle. Takes the lock; the reference is to be released without it.
aclError find_graph(aclmdlRI handle, const char* function, GraphPtr* graph);

}  // namespace npu::emulator
