// Replays: what a graph recorded, put on streams.
#include "graph.h"
#include "ipc.h"
#include "runtime.h"
#include "timeout.h"

namespace npu::emulator {

namespace {

/// How many tasks run between two looks whether the rest is to be dropped.
constexpr std::size_t kLookEvery = 64;

/// Neighbouring tasks of a lane, in one replay.
class Replay final : public Task {
  public:
    Replay(GraphPtr graph, const DoTasks& what, const Stream& stream, uint64_t number)
        : graph_(std::move(graph)), what_(what), stream_(stream), number_(number) {}

    void run() override {
        for (std::size_t i = 0; i < what_.tasks.size(); ++i) {
            if (graph_->aborted >= number_ || (i % kLookEvery == kLookEvery - 1 && dropped())) return;
            const GraphTask& next = graph_->tasks[what_.tasks[i]];
            name_ = next.name;
            if (next.grouped) {
                current(next)->run();
            } else {
                next.task->run();
            }
        }
    }
    const char* name() const override { return name_; }
    std::size_t work() const override { return what_.work; }

  private:
    /// The stream lives while one of its items runs.
    bool dropped() const {
        Runtime& runtime = Runtime::get();
        Lock lock(runtime.scheduler.mutex);
        return runtime.scheduler.drops(stream_);
    }
    /// An update may replace it at any time; the one that runs lives until it returned.
    std::shared_ptr<Task> current(const GraphTask& task) const {
        std::lock_guard lock(graph_->update_mutex);
        return task.task;
    }

    const GraphPtr graph_;
    const DoTasks& what_;  // of the graph's steps
    const Stream& stream_;
    const uint64_t number_;
    const char* name_ = "a captured graph";
};

using Made = std::vector<std::unique_ptr<Task>>;

/// Takes the places among their peers' calls of what can be launched once only, in the order of the capture.
Made make_tasks(const Graph& graph) {
    Made made;
    for (const GraphTask& task : graph.tasks) {
        if (task.make) made.push_back(task.make());
    }
    return made;
}

/// Puts the steps of one replay on their streams.
class Launch {
  public:
    Launch(Lock& lock, const GraphPtr& graph, Stream& stream, Made& made)
        : lock_(lock), graph_(graph), stream_(stream), made_(made.begin()), number_(++graph->launched) {}

    void operator()() {
        follow_last_replay();
        RecordEvent end = record_of(graph_->done);
        if (graph_->steps.size() == 1 && std::holds_alternative<DoTasks>(graph_->steps.front().item)) {
            RunTask only = task_of(std::get<DoTasks>(graph_->steps.front().item), stream_);
            return scheduler_.submit(lock_, stream_, std::move(only.task), only.engine, std::move(end));
        }
        for (const Captured& step : graph_->steps) {
            Stream* own = graph_->lanes[step.lane].own;
            target_ = own == nullptr ? &stream_ : own;
            std::visit([&](const auto& item) { put(item); }, step.item);
        }
        scheduler_.enqueue(lock_, stream_, std::move(end));
    }

  private:
    /// A graph is replayed once at a time; on one stream that is so already.
    void follow_last_replay() {
        if (graph_->last_stream != nullptr && graph_->last_stream != &stream_) {
            ++graph_->done->waits;
            scheduler_.enqueue(lock_, stream_, WaitEvent{graph_->done, graph_->done->recorded});
        }
        graph_->last_stream = &stream_;
    }
    static RecordEvent record_of(const EventPtr& event) {
        event->recorded = ++event->generations;
        event->pending.insert(event->recorded);
        return {event, event->recorded, event->shared ? event->shared->record() : 0};
    }
    void wait(const EventPtr& event) {
        if (event->recorded == 0) return;
        ++event->waits;
        scheduler_.enqueue(lock_, *target_, WaitEvent{event, event->recorded});
    }
    RunTask task_of(const DoTasks& what, const Stream& target) {
        if (graph_->tasks[what.tasks.front()].make) return {std::move(*made_++), what.engine};
        return {std::make_unique<Replay>(graph_, what, target, number_), what.engine};
    }

    void put(const DoTasks& item) { scheduler_.enqueue(lock_, *target_, task_of(item, *target_)); }
    void put(const Mark& item) { scheduler_.enqueue(lock_, *target_, record_of(graph_->marks[item.point])); }
    void put(const AwaitMark& item) { wait(graph_->marks[item.point]); }
    void put(const Publish& item) {
        item.event->graph = 0;
        scheduler_.enqueue(lock_, *target_, record_of(item.event));
    }
    void put(const Follow& item) { wait(item.event); }
    template <class Plain>
    void put(const Plain& item) {
        scheduler_.enqueue(lock_, *target_, item);
    }

    Scheduler& scheduler_ = Runtime::get().scheduler;
    Lock& lock_;
    const GraphPtr& graph_;
    Stream& stream_;
    Made::iterator made_;
    const uint64_t number_;
    Stream* target_ = nullptr;
};

aclError check(const Graph& graph, const Stream& stream, const char* function) {
    if (graph.state != GraphState::ready) {
        return fail(
            ACL_ERROR_RT_MODEL_CAPTURED,
            std::string(function) + ": the graph is still being captured; call aclmdlRICaptureEnd first");
    }
    NPU_RETURN_IF_ERROR(refuse_captured(stream, function));
    if (stream.device == graph.device) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_STREAM_CONTEXT, std::string(function) + ": the graph was captured on device " +
                                                 std::to_string(graph.device->index) +
                                                 ", the stream is of device " +
                                                 std::to_string(stream.device->index));
}

/// The stream to launch on: the handle's, or the graph's own for a synchronous run.
aclError target_of(Graph& graph, aclrtStream handle, bool synchronous, const char* function,
                   Stream** stream) {
    Runtime& runtime = Runtime::get();
    if (runtime.exiting.load())
        return fail(ACL_ERROR_UNINITIALIZE, std::string(function) + ": the process is exiting");
    if (!synchronous) {
        NPU_RETURN_IF_ERROR(runtime.find(handle, function, stream));
    } else {
        if (graph.synchronous == nullptr) graph.synchronous = runtime.hidden_stream(*graph.device);
        *stream = graph.synchronous;
    }
    return check(graph, **stream, function);
}

aclError start(Lock& lock, const GraphPtr& graph, aclrtStream handle, bool synchronous, const char* function,
               Stream** stream, Made& made) {
    NPU_RETURN_IF_ERROR(target_of(*graph, handle, synchronous, function, stream));
    if (graph->makes) {
        lock.unlock();
        made = make_tasks(*graph);
        lock.lock();
        NPU_RETURN_IF_ERROR(target_of(*graph, handle, synchronous, function, stream));
    }
    Launch(lock, graph, **stream, made)();
    return ACL_SUCCESS;
}

}  // namespace

}  // namespace npu::emulator

using namespace npu::emulator;

/// Appends a replay to the stream (nullptr: the context's default one) and returns at once.
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
    constexpr const char* name = "aclmdlRIExecuteAsync";
    NPU_RETURN_IF_ERROR(use(name));
    GraphPtr graph;
    NPU_RETURN_IF_ERROR(find_graph(modelRI, name, &graph));
    std::lock_guard launching(graph->launching);
    Made made;
    Lock lock(Runtime::get().scheduler.mutex);
    Stream* target = nullptr;
    return start(lock, graph, stream, false, name, &target, made);
}

/// Replays and waits; timeout: milliseconds, -1 for ever. After a time-out the replay goes on.
aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
    constexpr const char* name = "aclmdlRIExecute";
    NPU_RETURN_IF_ERROR(use(name));
    Deadline deadline;
    NPU_RETURN_IF_ERROR(read_timeout(timeout, name, &deadline));
    Runtime& runtime = Runtime::get();
    GraphPtr graph;
    NPU_RETURN_IF_ERROR(find_graph(modelRI, name, &graph));
    std::unique_lock launching(graph->launching);
    Made made;
    Lock lock(runtime.scheduler.mutex);
    Stream* target = nullptr;
    NPU_RETURN_IF_ERROR(start(lock, graph, nullptr, true, name, &target, made));
    const uint64_t number = graph->launched;
    launching.unlock();
    if (!runtime.scheduler.wait(lock, *target, deadline))
        return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                    std::string(name) + ": the graph has not finished before the time-out");
    NPU_RETURN_IF_ERROR(runtime.sticky(*graph->device, name));
    if (graph->aborted < number) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_MODEL_ABORT_NORMAL, std::string(name) + ": aclmdlRIAbort stopped the graph");
}
