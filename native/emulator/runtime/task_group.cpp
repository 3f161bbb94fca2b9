// Task groups: operators of a captured graph that are replaced between replays (aclmdlRICaptureTask*).
#include <algorithm>

#include "graph.h"
#include "runtime.h"

namespace npu::emulator {

namespace {

/// Puts the new tasks in their places, in the order of the stream that updates.
class Update final : public Task {
  public:
    explicit Update(std::shared_ptr<TaskUpdate> update) : update_(std::move(update)) {}
    void run() override {
        const GraphPtr graph = update_->graph.lock();
        if (!graph) return;  // destroyed meanwhile
        std::lock_guard lock(graph->update_mutex);
        for (std::size_t i = 0; i < update_->tasks.size(); ++i)
            graph->tasks[update_->group->tasks[i]].task.swap(update_->tasks[i]);
    }
    const char* name() const override { return "aclmdlRICaptureTaskUpdateEnd"; }
    std::size_t work() const override { return 0; }

  private:
    std::shared_ptr<TaskUpdate> update_;  // holds the old tasks afterwards: released without the lock
};

aclError status_error(const char* function, const std::string& sentence) {
    return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, std::string(function) + ": " + sentence);
}

/// The graph whose group the handle is.
GraphPtr owner_of(aclrtTaskGrp handle) {
    for (const auto& [key, graph] : Runtime::get().graphs) {
        if (std::ranges::any_of(graph->groups, [&](const auto& group) { return group.get() == handle; }))
            return graph;
    }
    return nullptr;
}

/// Nothing is replaced unless everything fits.
aclError check_update(const TaskUpdate& update, const Graph* graph, const char* function) {
    if (graph == nullptr) return status_error(function, "the graph of the task group was destroyed");
    const TaskGroup& group = *update.group;
    if (update.tasks.size() != group.tasks.size()) {
        return fail(ACL_ERROR_RT_INTERNAL_ERROR,
                    std::string(function) + ": the group has " + std::to_string(group.tasks.size()) +
                        " tasks, " + std::to_string(update.tasks.size()) + " were launched to replace them");
    }
    for (std::size_t i = 0; i < group.tasks.size(); ++i) {
        const char* before = graph->tasks[group.tasks[i]].name;
        if (std::string_view(before) == update.tasks[i]->name()) continue;
        return fail(ACL_ERROR_RT_INTERNAL_ERROR, std::string(function) + ": task " + std::to_string(i) +
                                                     " of the group is " + before + ", it cannot become " +
                                                     update.tasks[i]->name());
    }
    return ACL_SUCCESS;
}

}  // namespace

aclError collect_update(Stream& stream, std::unique_ptr<Task> task) {
    stream.update->tasks.push_back(std::move(task));
    return ACL_SUCCESS;
}

}  // namespace npu::emulator

using namespace npu::emulator;

/// What is launched on the captured stream from here on forms a group. Operators only.
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
    constexpr const char* name = "aclmdlRICaptureTaskGrpBegin";
    NPU_RETURN_IF_ERROR(use(name));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    if (!found->graph) {
        return fail(
            ACL_ERROR_RT_STREAM_NOT_CAPTURED,
            std::string(name) + ": the stream is not being captured; call aclmdlRICaptureBegin first");
    }
    if (found->group != nullptr) return status_error(name, "a task group is open on the stream already");
    auto& groups = found->graph->groups;
    groups.push_back(std::make_unique<TaskGroup>());
    groups.back()->graph = found->graph.get();
    found->group = groups.back().get();
    return ACL_SUCCESS;
}

/// handle: the group, until its graph is destroyed.
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
    constexpr const char* name = "aclmdlRICaptureTaskGrpEnd";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(handle, name, "handle"));
    *handle = nullptr;
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    if (found->group == nullptr) return status_error(name, "no task group is open on the stream");
    TaskGroup* group = std::exchange(found->group, nullptr);
    const Graph& graph = *found->graph;
    if (group->error != ACL_SUCCESS) return fail(group->error, std::string(name) + ": " + graph.reason);
    if (graph.state == GraphState::invalid) {
        return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                    std::string(name) + ": the capture became invalid. " + graph.reason);
    }
    *handle = group;
    return ACL_SUCCESS;
}

/// What is launched on the stream, which is not captured, until aclmdlRICaptureTaskUpdateEnd is not run: it
/// replaces the group's tasks.
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
    constexpr const char* name = "aclmdlRICaptureTaskUpdateBegin";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(handle, name, "handle"));
    Runtime& runtime = Runtime::get();
    GraphPtr graph;
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    if (found->graph) {
        return fail(ACL_ERROR_RT_STREAM_CAPTURED,
                    std::string(name) + ": the stream is being captured; update on another one");
    }
    if (found->update) return status_error(name, "the stream updates a task group already");
    graph = owner_of(handle);
    if (!graph) {
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": the handle is no task group of a graph that exists");
    }
    auto* group = static_cast<TaskGroup*>(handle);
    if (group->updating) return status_error(name, "another stream updates that task group");
    group->updating = true;
    found->update = std::make_shared<TaskUpdate>(TaskUpdate{graph, group, {}});
    return ACL_SUCCESS;
}

/// The tasks are replaced when the stream gets here. Errors: 507000 where their number or their operators are
/// not the group's; the group then stays as it was.
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
    constexpr const char* name = "aclmdlRICaptureTaskUpdateEnd";
    NPU_RETURN_IF_ERROR(use(name));
    Runtime& runtime = Runtime::get();
    std::shared_ptr<TaskUpdate> update;
    GraphPtr graph;
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    update = std::exchange(found->update, nullptr);
    if (!update) return status_error(name, "the stream updates no task group");
    graph = update->graph.lock();
    if (graph) update->group->updating = false;
    NPU_RETURN_IF_ERROR(check_update(*update, graph.get(), name));
    runtime.scheduler.submit(lock, *found, std::make_unique<Update>(std::move(update)), Engine::compute);
    return ACL_SUCCESS;
}
