// From what was captured to what is replayed.
#include "graph.h"

#include <algorithm>

#include "runtime.h"

namespace npu::emulator {

namespace {

/// Tasks in one item of a stream: few enough that other streams get their turn on the engine.
constexpr std::size_t kTasksInOne = 256;

/// Up to this size a copy among computations is done by the compute thread: cheaper than waking another.
constexpr std::size_t kSmallCopyBytes = 256 * 1024;

/// What a task counts at least where it is decided whether a replay runs on its caller's thread.
constexpr std::size_t kLeastWork = 4096;

std::size_t sum(std::size_t a, std::size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

/// Appends the later tasks to the earlier ones if one engine can do both at its pace; false: it cannot.
bool put_together(DoTasks& earlier, const DoTasks& later) {
    if (earlier.engine == Engine::host || later.engine == Engine::host) return false;
    if (earlier.tasks.size() >= kTasksInOne) return false;
    const bool small_copy = later.engine == Engine::copy && later.work <= kSmallCopyBytes;
    const bool small_start = earlier.engine == Engine::copy && earlier.work <= kSmallCopyBytes;
    const bool fits =
        earlier.engine == later.engine || (earlier.engine == Engine::compute ? small_copy : small_start);
    if (!fits) return false;
    if (later.engine == Engine::compute) earlier.engine = Engine::compute;
    earlier.tasks.insert(earlier.tasks.end(), later.tasks.begin(), later.tasks.end());
    earlier.work = sum(earlier.work, std::max(later.work, kLeastWork));
    return true;
}

EventPtr new_event(Device& device) {
    auto event = std::make_shared<EventState>();
    event->id = Runtime::get().next_id();
    event->device = &device;
    return event;
}

/// An event for each record that another lane waits for.
void make_marks(Graph& graph) {
    graph.marks.assign(graph.points.size(), nullptr);
    for (const Captured& captured : graph.items) {
        const auto* await = std::get_if<AwaitMark>(&captured.item);
        if (await == nullptr || graph.point_lanes[await->point] == captured.lane) continue;
        if (!graph.marks[await->point]) graph.marks[await->point] = new_event(*graph.device);
    }
}

bool idle(const Graph& graph, const Captured& captured) {
    if (const auto* mark = std::get_if<Mark>(&captured.item)) return !graph.marks[mark->point];
    if (const auto* await = std::get_if<AwaitMark>(&captured.item))
        return graph.point_lanes[await->point] == captured.lane;
    return false;
}

void make_steps(Graph& graph) {
    constexpr std::size_t kNone = SIZE_MAX;
    std::vector<std::size_t> open(graph.lanes.size(),
                                  kNone);  // the lane's last step, if tasks can follow in it
    for (const Captured& captured : graph.items) {
        if (idle(graph, captured)) continue;
        std::size_t& last = open[captured.lane];
        const auto* tasks = std::get_if<DoTasks>(&captured.item);
        const bool alone = tasks == nullptr || graph.tasks[tasks->tasks.front()].make;
        if (!alone && last != kNone && put_together(std::get<DoTasks>(graph.steps[last].item), *tasks))
            continue;
        last = alone ? kNone : graph.steps.size();
        graph.steps.push_back(captured);
        if (tasks != nullptr)
            std::get<DoTasks>(graph.steps.back().item).work = std::max(tasks->work, kLeastWork);
    }
}

}  // namespace

void compile(Graph& graph) {
    make_marks(graph);
    make_steps(graph);
    graph.done = new_event(*graph.device);
    for (std::size_t i = 0; i < graph.lanes.size(); ++i) {
        Lane& lane = graph.lanes[i];
        lane.known.clear();
        if (i > 0) lane.own = Runtime::get().hidden_stream(*graph.device);
    }
    graph.points.clear();
}

Graph::~Graph() {
    Runtime& runtime = Runtime::get();
    if (runtime.lost_in_fork) return;
    Lock lock(runtime.scheduler.mutex);
    for (Lane& lane : lanes) {
        if (lane.own != nullptr) runtime.scheduler.release(lane.own);
    }
    if (synchronous != nullptr) runtime.scheduler.release(synchronous);
}

}  // namespace npu::emulator
