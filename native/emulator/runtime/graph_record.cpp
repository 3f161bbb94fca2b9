// What a captured stream records, and what may not be done while it does.
#include <algorithm>

#include "graph.h"
#include "memory.h"
#include "runtime.h"

namespace npu::emulator {

namespace {

/// What comes before either clock comes before the first from now on.
void merge(LaneClock& clock, const LaneClock& other) {
    clock.resize(std::max(clock.size(), other.size()));
    for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

/// Takes the next place of the lane.
Lane& advance(Graph& graph, uint32_t index) {
    Lane& lane = graph.lanes[index];
    lane.known.resize(std::max<std::size_t>(lane.known.size(), index + 1));
    lane.known[index] = ++lane.count;
    return lane;
}

bool is_default(const Stream& stream) {
    return std::ranges::any_of(Runtime::get().contexts, [&](void* context) {
        return static_cast<Context*>(context)->default_stream == &stream;
    });
}

std::string in_capture(const char* function, const Stream& stream) {
    return std::string(function) + ": stream " + std::to_string(stream.id) + " is being captured";
}

/// The launch queue of torch_npu does not survive an error (see on_launch_thread()): there the capture's end
/// reports it.
aclError fail_capture(Graph& graph, aclError code, std::string sentence) {
    invalidate(graph, sentence);
    return on_launch_thread() ? ACL_SUCCESS : fail(code, std::move(sentence));
}

/// Success while the capture can still become a graph. On the launch thread the rest of an invalid capture is
/// dropped in silence.
aclError recordable(const Graph& graph, const char* function, bool* drop) {
    *drop = graph.state == GraphState::invalid;
    if (!*drop || on_launch_thread()) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                std::string(function) + ": the capture is invalid already, end it: " + graph.reason);
}

}  // namespace

std::shared_ptr<ThreadModes> modes_of_this_thread() {
    static thread_local const auto modes = std::make_shared<ThreadModes>();
    return modes;
}

void invalidate(Graph& graph, const std::string& reason) {
    if (graph.state != GraphState::capturing) return;
    graph.state = GraphState::invalid;
    graph.reason = reason;
}

bool invalidate_capture(aclrtStream handle, const std::string& reason) {
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    if (!runtime.streams.contains(handle)) return false;
    const auto* stream = static_cast<Stream*>(handle);
    if (stream->graph) invalidate(*stream->graph, reason);
    return stream->graph != nullptr;
}

aclError record_item(Stream& stream, GraphItem item, const char* function) {
    Graph& graph = *stream.graph;
    bool drop = false;
    NPU_RETURN_IF_ERROR(recordable(graph, function, &drop));
    if (drop) return ACL_SUCCESS;
    if (stream.group != nullptr && !std::holds_alternative<DoTasks>(item)) {
        stream.group->error = ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT;
        return fail_capture(graph, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                            std::string(function) + ": a task group takes operators only");
    }
    advance(graph, stream.lane);
    graph.items.push_back({stream.lane, std::move(item)});
    return ACL_SUCCESS;
}

aclError record_task(Stream& stream, GraphTask task) {
    Graph& graph = *stream.graph;
    bool drop = false;
    NPU_RETURN_IF_ERROR(recordable(graph, task.name, &drop));
    if (drop) return ACL_SUCCESS;
    const std::size_t index = graph.tasks.size();
    if (stream.group != nullptr) {
        if (task.engine != Engine::compute || task.make) {
            stream.group->error = ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT;
            return fail_capture(graph, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                                std::string(task.name) + ": a task group takes operators only");
        }
        task.grouped = true;
        stream.group->tasks.push_back(index);
    }
    DoTasks item{{index}, task.engine, task.work};
    const char* name = task.name;
    graph.tasks.push_back(std::move(task));
    return record_item(stream, std::move(item), name);
}

aclError record_mark(Stream& stream, EventState& event, const char* function) {
    Graph& graph = *stream.graph;
    if (event.shared) {
        return fail_capture(
            graph, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            in_capture(function, stream) + ", where events of other processes cannot be used");
    }
    if (!event.reusable) {  // CANN's rule
        return fail_capture(graph, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                            in_capture(function, stream) +
                                ", where only events made by aclrtCreateEventExWithFlag can be recorded");
    }
    bool drop = false;
    NPU_RETURN_IF_ERROR(recordable(graph, function, &drop));
    if (drop) return ACL_SUCCESS;
    const std::size_t point = graph.points.size();
    NPU_RETURN_IF_ERROR(record_item(stream, Mark{point}, function));
    graph.points.push_back(graph.lanes[stream.lane].known);
    graph.point_lanes.push_back(stream.lane);
    event.graph = graph.id;
    event.point = point;
    return ACL_SUCCESS;
}

bool captured(const EventState& event) {
    return event.graph != 0 && Runtime::get().captures.contains(event.graph);
}

aclError await_mark(Stream& stream, EventState& event, const char* function) {
    if (!captured(event)) {
        if (event.recorded == 0) return ACL_SUCCESS;  // as outside of a capture: nothing to wait for
        return fail_capture(
            *stream.graph, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
            in_capture(function, stream) +
                " and would depend on work that is not: the event was recorded outside of the "
                "capture; synchronise that work before the capture begins");
    }
    const GraphPtr graph = Runtime::get().captures.at(event.graph);
    if (stream.graph && stream.graph != graph) {
        invalidate(*graph, in_capture(function, stream) + " into another graph than the event");
        return fail_capture(
            *stream.graph, ACL_ERROR_STREAM_CAPTURE_CONFLICT,
            in_capture(function, stream) +
                " into another graph than the event; a graph cannot wait for a part of another");
    }
    bool drop = false;
    NPU_RETURN_IF_ERROR(recordable(*graph, function, &drop));
    if (drop) return ACL_SUCCESS;
    if (!stream.graph) {
        if (is_default(stream)) {
            return fail_capture(*graph, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                                std::string(function) +
                                    ": a context's default stream cannot join a capture; use another stream");
        }
        stream.graph = graph;
        stream.lane = static_cast<uint32_t>(graph->lanes.size());
        graph->lanes.push_back({&stream, stream.id, {}, 0, nullptr});
    }
    merge(graph->lanes[stream.lane].known, graph->points[event.point]);
    return record_item(stream, AwaitMark{event.point}, function);
}

aclError refuse_captured(const Stream& stream, const char* function) {
    if (!stream.graph) return ACL_SUCCESS;
    const std::string sentence = in_capture(function, stream) +
                                 ", so nothing of it has run; it cannot be waited for or asked before the "
                                 "graph is replayed. The capture is invalid now";
    invalidate(*stream.graph, sentence);
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, sentence);
}

aclError refuse_captured(const EventState& event, const char* function) {
    if (!captured(event)) return ACL_SUCCESS;
    const std::string sentence =
        std::string(function) + ": event " + std::to_string(event.id) +
        " was recorded by a capture that still runs; it cannot be waited for or asked "
        "by the host. The capture is invalid now";
    invalidate(*Runtime::get().captures.at(event.graph), sentence);
    return fail(ACL_ERROR_RT_EVENT_CAPTURED, sentence);
}

aclError refuse_captured(const Device& device, const char* function) {
    aclError code = ACL_SUCCESS;
    for (const Stream* stream : device.streams) {
        if (const aclError refused = refuse_captured(*stream, function); refused != ACL_SUCCESS)
            code = refused;
    }
    return code;
}

aclError refuse_unsafe(const Device& device, const char* function, aclError code) {
    const auto& running = device.captures;
    if (running[0] + running[1] == 0) return ACL_SUCCESS;
    const ThreadModes& mine = *modes_of_this_thread();
    const bool own_global = mine.captures[ACL_MODEL_RI_CAPTURE_MODE_GLOBAL] > 0;
    const bool own_local = mine.captures[ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL] > 0;
    bool forbidden = false;
    if (mine.exchanged == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
        forbidden = running[ACL_MODEL_RI_CAPTURE_MODE_GLOBAL] > 0 || own_local;
    if (mine.exchanged == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL) forbidden = own_global || own_local;
    if (!forbidden) return ACL_SUCCESS;
    const std::string sentence =
        std::string(function) + " may wait for the device, which the mode of a running capture of device " +
        std::to_string(device.index) +
        " forbids; copy with pinned memory and aclrtMemcpyAsync, or allow it to this thread by "
        "aclmdlRICaptureThreadExchangeMode";
    for (const auto& [id, graph] : Runtime::get().captures) {
        if (graph->thread == std::this_thread::get_id() && graph->device == &device)
            invalidate(*graph, sentence);
    }
    return fail(code, sentence);
}

aclError refuse_pageable(aclrtStream handle, const char* function, bool target) {
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &stream));
    const aclError unsafe = refuse_unsafe(*stream->device, function, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
    if (!stream->graph) return unsafe;
    if (unsafe == ACL_SUCCESS && !target) return ACL_SUCCESS;
    return fail_capture(*stream->graph, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
                        in_capture(function, *stream) +
                            ", and a copy of memory that is not pinned would have to be done at once; pin it "
                            "(aclrtMallocHost, pin_memory)");
}

void leave_capture(Graph& graph) {
    for (Lane& lane : graph.lanes) {
        if (lane.stream == nullptr || lane.stream->graph.get() != &graph) continue;
        lane.stream->group = nullptr;
        lane.stream->graph.reset();  // the caller holds the graph too
    }
    --graph.device->captures[graph.mode];
    --graph.modes->captures[graph.mode];
    Runtime::get().captures.erase(graph.id);
}

std::vector<GraphPtr> drop_captures(Device& device) {
    std::vector<GraphPtr> dropped;
    for (const auto& [id, graph] : Runtime::get().captures) {
        if (graph->device == &device) dropped.push_back(graph);
    }
    for (const GraphPtr& graph : dropped) {
        leave_capture(*graph);
        Runtime::get().graphs.erase(graph.get());
    }
    return dropped;
}

}  // namespace npu::emulator
