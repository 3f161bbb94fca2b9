// Graphs as objects: their names, streams and end, and what they say of themselves.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "graph.h"
#include "runtime.h"

namespace npu::emulator {

aclError find_graph(aclmdlRI handle, const char* function, GraphPtr* graph) {
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    const auto found = runtime.graphs.find(handle);
    if (found == runtime.graphs.end()) {
        return fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
                    std::string(function) + ": the modelRI was destroyed or never captured by this process");
    }
    *graph = found->second;
    return ACL_SUCCESS;
}

namespace {

/// Calls `access` with the graph, under the lock.
template <class Access>
aclError with_graph(aclmdlRI handle, const char* function, Access access) {
    NPU_RETURN_IF_ERROR(usable(function));
    GraphPtr graph;
    NPU_RETURN_IF_ERROR(find_graph(handle, function, &graph));
    Lock lock(Runtime::get().scheduler.mutex);
    return access(*graph);
}

/// An item as a person and torch_npu's trace tools read it: EVENT_WAIT_3 waits for EVENT_RECORD_3.
struct Described {
    std::string name;
    const char* type;
};

struct Describe {
    const Graph& graph;

    Described operator()(const DoTasks& item) const {
        const GraphTask& task = graph.tasks[item.tasks.front()];
        static constexpr const char* types[] = {"KERNEL", "MEMORY", "HOST"};
        return {task.name, types[static_cast<std::size_t>(task.engine)]};
    }
    Described operator()(const Mark& item) const {
        return {"EVENT_RECORD_" + std::to_string(item.point), "EVENT_RECORD"};
    }
    Described operator()(const AwaitMark& item) const {
        return {"EVENT_WAIT_" + std::to_string(item.point), "EVENT_WAIT"};
    }
    Described operator()(const Publish& item) const {
        return {"EXTERNAL_EVENT_RECORD_" + std::to_string(item.event->id), "EVENT_RECORD"};
    }
    Described operator()(const Follow& item) const {
        return {"EXTERNAL_EVENT_WAIT_" + std::to_string(item.event->id), "EVENT_WAIT"};
    }
    Described operator()(const RecordNotify& item) const {
        return {"NOTIFY_RECORD_" + std::to_string(item.notify->id), "NOTIFY_RECORD"};
    }
    Described operator()(const WaitNotify& item) const {
        return {"NOTIFY_WAIT_" + std::to_string(item.notify->id), "NOTIFY_WAIT"};
    }
    Described operator()(const WaitFlag& item) const {
        return {"EXTERNAL_EVENT_WAIT_" + std::to_string(item.notify->id), "EVENT_WAIT"};
    }
    Described operator()(const ResetFlag& item) const {
        return {"EVENT_RESET_" + std::to_string(item.notify->id), "EVENT_RESET"};
    }
    Described operator()(const Callback&) const { return {"aclrtLaunchCallback", "HOST"}; }
};

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return result + '"';
}

/// A line per item, in the order of the capture.
std::string as_text(const Graph& graph) {
    std::ostringstream out;
    out << "graph " << graph.id << (graph.name.empty() ? "" : " " + quoted(graph.name)) << " on device "
        << graph.device->index << ": " << graph.lanes.size() << " streams, " << graph.items.size()
        << " items, replayed in " << graph.steps.size() << " steps\n";
    std::size_t number = 0;
    for (const Captured& captured : graph.items) {
        const Described item = std::visit(Describe{graph}, captured.item);
        out << "  " << number++ << " stream " << graph.lanes[captured.lane].stream_id << ": " << item.name
            << " (" << item.type << ")\n";
    }
    return out.str();
}

/// Trace events (chrome://tracing): a microsecond each, one row per stream.
std::string as_json(const Graph& graph) {
    std::ostringstream out;
    std::vector<std::size_t> next(graph.lanes.size(), 0);
    const char* separator = "[\n";
    for (std::size_t i = 0; i < graph.items.size(); ++i) {
        const Captured& captured = graph.items[i];
        const Described item = std::visit(Describe{graph}, captured.item);
        const int32_t stream = graph.lanes[captured.lane].stream_id;
        out << separator << "{\"name\": " << quoted(item.name) << ", \"ph\": \"X\", \"pid\": \"graph "
            << graph.id << "\", \"tid\": \"stream" << stream << "\", \"ts\": " << next[captured.lane]++
            << ", \"dur\": 1, "
            << "\"args\": {\"Model Id\": " << graph.id << ", \"Stream Id\": " << stream
            << ", \"Task Id\": " << i << ", \"Task Type\": \"" << item.type << "\"}}";
        separator = ",\n";
    }
    return (graph.items.empty() ? "[" : out.str()) + "\n]\n";
}

}  // namespace

}  // namespace npu::emulator

using namespace npu::emulator;

/// Replays that were launched still run to their end. A graph that is being captured ends with its capture.
aclError aclmdlRIDestroy(aclmdlRI modelRI) {
    constexpr const char* name = "aclmdlRIDestroy";
    Runtime& runtime = Runtime::get();
    if (runtime.lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    GraphPtr graph;
    NPU_RETURN_IF_ERROR(find_graph(modelRI, name, &graph));
    Lock lock(runtime.scheduler.mutex);
    if (graph->state != GraphState::ready) {
        return fail(ACL_ERROR_RT_MODEL_CAPTURED,
                    std::string(name) + ": the graph is still being captured; call aclmdlRICaptureEnd first");
    }
    if (runtime.graphs.erase(modelRI) == 0)
        return fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
                    std::string(name) + ": the modelRI was destroyed already");
    const auto callbacks = std::exchange(graph->destroy_callbacks, {});
    lock.unlock();
    for (const auto& [function, data] : callbacks) function(data);
    return ACL_SUCCESS;
}

/// Tasks of the replays launched so far that have not begun are not run; aclmdlRIExecute answers 507023.
aclError aclmdlRIAbort(aclmdlRI modelRI) {
    return with_graph(modelRI, "aclmdlRIAbort", [](Graph& graph) {
        graph.aborted = graph.launched.load();
        return ACL_SUCCESS;
    });
}

aclError aclmdlRISetName(aclmdlRI modelRI, const char* name) {
    NPU_RETURN_IF_ERROR(require(name, "aclmdlRISetName", "name"));
    return with_graph(modelRI, "aclmdlRISetName", [&](Graph& graph) {
        graph.name = name;
        return ACL_SUCCESS;
    });
}

/// maxLen: of `name`, the terminating zero included.
aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
    constexpr const char* function = "aclmdlRIGetName";
    NPU_RETURN_IF_ERROR(require(name, function, "name"));
    return with_graph(modelRI, function, [&](Graph& graph) {
        if (graph.name.size() + 1 > maxLen) {
            return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": the name takes " +
                                                     std::to_string(graph.name.size() + 1) +
                                                     " bytes, maxLen is " + std::to_string(maxLen));
        }
        std::memcpy(name, graph.name.c_str(), graph.name.size() + 1);
        return aclError{ACL_SUCCESS};
    });
}

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
    NPU_RETURN_IF_ERROR(require(modelRIId, "aclmdlRIGetId", "modelRIId"));
    return with_graph(modelRI, "aclmdlRIGetId", [&](Graph& graph) {
        *modelRIId = graph.id;
        return ACL_SUCCESS;
    });
}

/// The streams that were captured, the first one first. streams: nullptr to ask for their number, else room
/// for *numStreams.
aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream* streams, uint32_t* numStreams) {
    constexpr const char* name = "aclmdlRIGetStreams";
    NPU_RETURN_IF_ERROR(require(numStreams, name, "numStreams"));
    return with_graph(modelRI, name, [&](Graph& graph) {
        const auto count = static_cast<uint32_t>(graph.lanes.size());
        if (streams != nullptr && *numStreams < count) {
            return fail(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY,
                        std::string(name) + ": the graph has " + std::to_string(count) +
                            " streams, the array has room for " + std::to_string(*numStreams));
        }
        if (streams != nullptr)
            std::ranges::transform(graph.lanes, streams, [](const Lane& lane) { return lane.stream; });
        *numStreams = count;
        return aclError{ACL_SUCCESS};
    });
}

/// func: called with userData by aclmdlRIDestroy, in the order of registration.
aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void* userData) {
    constexpr const char* name = "aclmdlRIDestroyRegisterCallback";
    NPU_RETURN_IF_ERROR(require(reinterpret_cast<void*>(func), name, "func"));
    return with_graph(modelRI, name, [&](Graph& graph) {
        graph.destroy_callbacks.emplace_back(func, userData);
        return ACL_SUCCESS;
    });
}

aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func) {
    constexpr const char* name = "aclmdlRIDestroyUnregisterCallback";
    return with_graph(modelRI, name, [&](Graph& graph) {
        if (std::erase_if(graph.destroy_callbacks, [&](const auto& each) { return each.first == func; }) > 0)
            return aclError{ACL_SUCCESS};
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": that function was not registered");
    });
}

/// Writes what was captured to the standard error stream.
aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
    return with_graph(modelRI, "aclmdlRIDebugPrint", [](Graph& graph) {
        std::fputs(as_text(graph).c_str(), stderr);
        return ACL_SUCCESS;
    });
}

/// Writes trace events to the file. flags: of what CANN adds by them, the emulator has nothing.
aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t /*flags*/) {
    constexpr const char* name = "aclmdlRIDebugJsonPrint";
    NPU_RETURN_IF_ERROR(require(path, name, "path"));
    std::string text;
    NPU_RETURN_IF_ERROR(with_graph(modelRI, name, [&](Graph& graph) {
        text = as_json(graph);
        return ACL_SUCCESS;
    }));
    std::ofstream file(path);
    file << text;
    if (file.flush()) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_FILE, std::string(name) + ": " + path + " cannot be written");
}
