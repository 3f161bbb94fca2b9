// Beginning and ending a capture (aclmdlRICapture*). What is recorded between is in graph_record.cpp.
#include "graph.h"
#include "runtime.h"

using namespace npu::emulator;

namespace {

constexpr const char* kBegin = "aclmdlRICaptureBegin";
constexpr const char* kEnd = "aclmdlRICaptureEnd";

aclError check_mode(aclmdlRICaptureMode mode, const char* function) {
    if (mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(function) + ": the mode is not one of aclmdlRICaptureMode");
}

aclError check_stream(Stream& stream) {
    Runtime& runtime = Runtime::get();
    for (void* context : runtime.contexts) {
        if (static_cast<Context*>(context)->default_stream != &stream) continue;
        return fail(
            ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
            std::string(kBegin) + ": a context's default stream cannot be captured; create a stream for it");
    }
    if (stream.graph) {
        return fail(ACL_ERROR_RT_STREAM_CAPTURED, std::string(kBegin) + ": stream " +
                                                      std::to_string(stream.id) +
                                                      " is being captured already; end that capture first");
    }
    if (stream.update)
        return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                    std::string(kBegin) + ": the stream updates a task group; end that first");
    return ACL_SUCCESS;
}

/// Every other stream's last item is behind lane 0's last one, as if lane 0 had waited for it.
aclError check_joined(const Graph& graph) {
    const LaneClock& known = graph.lanes.front().known;
    for (std::size_t i = 1; i < graph.lanes.size(); ++i) {
        if (i < known.size() && known[i] == graph.lanes[i].count) continue;
        return fail(ACL_ERROR_RT_STREAM_UNJOINED,
                    std::string(kEnd) + ": stream " + std::to_string(graph.lanes[i].stream_id) +
                        " joined the capture and was not joined back: record an event on it as its last item "
                        "and let stream " +
                        std::to_string(graph.lanes.front().stream_id) + " wait for that");
    }
    return ACL_SUCCESS;
}

aclError check_groups(const Graph& graph) {
    for (const Lane& lane : graph.lanes) {
        if (lane.stream == nullptr || lane.stream->group == nullptr) continue;
        return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                    std::string(kEnd) + ": a task group is still open on stream " +
                        std::to_string(lane.stream_id) + "; call aclmdlRICaptureTaskGrpEnd");
    }
    return ACL_SUCCESS;
}

/// Whether the calling thread may end what was captured; the capture ends either way.
aclError check_end(const Graph& graph) {
    if (graph.mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && graph.thread != std::this_thread::get_id()) {
        return fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                    std::string(kEnd) +
                        ": only in the relaxed mode may another thread end the capture than "
                        "the one that began it");
    }
    if (graph.state == GraphState::invalid)
        return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                    std::string(kEnd) + ": the capture became invalid. " + graph.reason);
    NPU_RETURN_IF_ERROR(check_groups(graph));
    return check_joined(graph);
}

}  // namespace

/// From here on what is launched on the stream is recorded. Errors: 107031 for a default stream, 107027 for
/// one that is being captured.
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
    NPU_RETURN_IF_ERROR(use(kBegin));
    NPU_RETURN_IF_ERROR(check_mode(mode, kBegin));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, kBegin, &found));
    NPU_RETURN_IF_ERROR(check_stream(*found));
    auto graph = std::make_shared<Graph>(runtime.next_id(), *found->device);
    graph->mode = mode;
    graph->thread = std::this_thread::get_id();
    graph->modes = modes_of_this_thread();
    graph->lanes.push_back({found, found->id, {}, 0, nullptr});
    found->graph = graph;
    found->lane = 0;
    ++found->device->captures[mode];
    ++graph->modes->captures[mode];
    runtime.captures.emplace(graph->id, graph);
    runtime.graphs.emplace(graph.get(), graph);
    return ACL_SUCCESS;
}

/// modelRI: the graph, ready to be replayed; nullptr where the capture failed, which ends it too. Errors:
/// 107029 for a stream that is not captured, 107036 for one that only joined, 107038, 107025 (a stream was
/// not joined back), 107033, 507903 with the sentence of the call that made it invalid.
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
    NPU_RETURN_IF_ERROR(use(kEnd));
    NPU_RETURN_IF_ERROR(require(modelRI, kEnd, "modelRI"));
    *modelRI = nullptr;
    Runtime& runtime = Runtime::get();
    GraphPtr graph;
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, kEnd, &found));
    graph = found->graph;
    if (!graph) {
        return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                    std::string(kEnd) + ": stream " + std::to_string(found->id) +
                        " is not being captured; call aclmdlRICaptureBegin");
    }
    if (found->lane != 0) {
        return fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
                    std::string(kEnd) + ": the capture began on stream " +
                        std::to_string(graph->lanes.front().stream_id) + "; end it there");
    }
    const aclError code = check_end(*graph);
    leave_capture(*graph);
    if (code != ACL_SUCCESS) {
        runtime.graphs.erase(graph.get());
        return code;
    }
    compile(*graph);
    graph->state = GraphState::ready;
    *modelRI = graph.get();
    return ACL_SUCCESS;
}

/// status, modelRI: either may be nullptr. The graph is known from the beginning of its capture.
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
    constexpr const char* name = "aclmdlRICaptureGetInfo";
    NPU_RETURN_IF_ERROR(use(name));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    aclmdlRICaptureStatus seen = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    if (found->graph) {
        seen = found->graph->state == GraphState::invalid ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                                                          : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    }
    if (status != nullptr) *status = seen;
    if (modelRI != nullptr) *modelRI = found->graph.get();
    return ACL_SUCCESS;
}

/// Sets the calling thread's mode and hands back the one before: what is forbidden to it while a capture
/// runs.
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
    constexpr const char* name = "aclmdlRICaptureThreadExchangeMode";
    NPU_RETURN_IF_ERROR(require(mode, name, "mode"));
    NPU_RETURN_IF_ERROR(check_mode(*mode, name));
    *mode = modes_of_this_thread()->exchanged.exchange(*mode);
    return ACL_SUCCESS;
}
