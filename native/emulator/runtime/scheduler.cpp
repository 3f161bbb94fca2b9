// The life of an item in a stream: enqueued, due when it is the head, finished. Engines are in engine.cpp.
#include "scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ipc.h"
#include "memory.h"

namespace npu::emulator {

namespace {

/// A task up to this size costs less than the hand-over to another thread, and stays below the size from
/// which ATen runs its loops on several threads (32,768 elements).
constexpr std::size_t kInlineBytes = 64 * 1024;

template <class... Handlers>
struct overloaded : Handlers... {
    using Handlers::operator()...;
};

void unpark(std::vector<Stream*>& parked, std::vector<Stream*>& awake) {
    for (Stream* stream : parked) stream->parked = false;
    awake.insert(awake.end(), parked.begin(), parked.end());
    parked.clear();
}

}  // namespace

void Scheduler::enqueue(Lock&, Stream& stream, Item item) {
    stream.queue.push_back(std::move(item));
    ++stream.enqueued;
    ++stream.device->outstanding;
    if (!stream.busy && !stream.parked) advance(&stream);
}

void Scheduler::submit(Lock& lock, Stream& stream, std::unique_ptr<Task> task, Engine engine,
                       std::optional<Item> then) {
    const bool tiny = engine != Engine::host && stream.idle() && task->work() <= kInlineBytes;
    if (!tiny || drops(stream)) {
        enqueue(lock, stream, RunTask{std::move(task), engine});
        if (then) enqueue(lock, stream, std::move(*then));
        return;
    }
    stream.busy = true;  // so that neither item is processed before the task ran here
    enqueue(lock, stream, RunTask{std::move(task), engine});
    if (then) enqueue(lock, stream, std::move(*then));
    ++inline_running_;
    run_head(lock, stream);
    if (--inline_running_ == 0 && stopping_) engine_ended_.notify_all();
}

bool Scheduler::drops(const Stream& stream) const {
    const Device& device = *stream.device;
    return stopping_ || device.abandoning ||
           (device.error.code != ACL_SUCCESS && stream.failure_mode == ACL_STOP_ON_FAILURE);
}

void Scheduler::item_finished(Stream& stream) {
    ++stream.finished;
    Device& device = *stream.device;
    if (--device.outstanding == 0) unmap_graveyard(device);
    if (stream.waiters > 0) stream.progress.notify_all();
}

void Scheduler::reach(EventState& event, uint64_t generation, std::vector<Stream*>& awake) {
    event.pending.erase(generation);
    if (generation > event.completed) {
        event.completed = generation;
        event.time = Clock::now();
    }
    unpark(event.parked, awake);
    if (event_waiters_ > 0) event_reached_.notify_all();
}

/// Processes the head of the stream and all that its progress sets free.
void Scheduler::advance(Stream* stream) {
    std::vector<Stream*> awake{stream};
    while (!awake.empty()) {
        Stream* next = awake.back();
        awake.pop_back();
        process(*next, awake);
        release_if_drained(next);
    }
}

void Scheduler::process(Stream& stream, std::vector<Stream*>& awake) {
    while (!stream.busy && !stream.parked && !stream.queue.empty()) {
        if (auto* head = std::get_if<RunTask>(&stream.queue.front())) {
            stream.busy = true;
            return dispatch(stream, head->engine);
        }
        if (blocked(stream, awake)) return;
        stream.queue.pop_front();
        item_finished(stream);
    }
}

/// Handles a head that is not a task; true: the stream has to wait with it.
bool Scheduler::blocked(Stream& stream, std::vector<Stream*>& awake) {
    auto park = [&](std::vector<Stream*>& where) {
        stream.parked = true;
        where.push_back(&stream);
        return true;
    };
    return std::visit(
        overloaded{
            [](RunTask&) { return true; },
            [&](RecordEvent& item) {
                if (item.event->shared) item.event->shared->reach(item.shared_generation);
                reach(*item.event, item.generation, awake);
                return false;
            },
            [&](WaitEvent& item) {
                if (!item.event->reached(item.generation)) return park(item.event->parked);
                --item.event->waits;
                return false;
            },
            [](ResetEvent& item) {
                if (item.event->recorded == item.generation) item.event->recorded = 0;
                return false;
            },
            [&](RecordNotify& item) {
                item.notify->set = true;
                unpark(item.notify->parked, awake);
                return false;
            },
            [&](WaitNotify& item) {
                if (!item.notify->set && !drops(stream)) return park(item.notify->parked);
                item.notify->set = false;
                return false;
            },
            [&](WaitFlag& item) { return !item.notify->set && !drops(stream) && park(item.notify->parked); },
            [](ResetFlag& item) {
                item.notify->set = false;
                return false;
            },
            [&](Callback& item) {
                if (drops(stream)) return false;
                due_[item.subscriber].push_back({item, item.blocking ? &stream : nullptr});
                callback_due_.notify_all();
                stream.busy = item.blocking;
                return item.blocking;
            },
        },
        stream.queue.front());
}

bool Scheduler::wait(Lock& lock, Stream& stream, Deadline deadline) {
    const uint64_t target = stream.enqueued;
    ++stream.waiters;
    auto done = [&] { return stream.finished >= target; };
    bool in_time = true;
    if (deadline) {
        in_time = stream.progress.wait_until(lock, *deadline, done);
    } else {
        stream.progress.wait(lock, done);
    }
    --stream.waiters;
    release_if_drained(&stream);
    return in_time;
}

bool Scheduler::wait(Lock& lock, EventState& event, uint64_t generation, Deadline deadline) {
    ++event_waiters_;
    auto done = [&] { return event.reached(generation); };
    bool in_time = true;
    if (deadline) {
        in_time = event_reached_.wait_until(lock, *deadline, done);
    } else {
        event_reached_.wait(lock, done);
    }
    --event_waiters_;
    return in_time;
}

std::optional<DueCallback> Scheduler::next_callback(Lock& lock, uint64_t thread, Deadline deadline) {
    auto due = [&] { return !due_[thread].empty(); };
    if (deadline) {
        if (!callback_due_.wait_until(lock, *deadline, due)) return std::nullopt;
    } else {
        callback_due_.wait(lock, due);
    }
    DueCallback next = due_[thread].front();
    due_[thread].pop_front();
    return next;
}

void Scheduler::callback_returned(Lock&, const DueCallback& due) {
    if (due.stream == nullptr) return;
    due.stream->queue.pop_front();
    due.stream->busy = false;
    item_finished(*due.stream);
    advance(due.stream);
}

void Scheduler::set_error(Device& device, aclError code, std::string sentence) {
    if (device.error.code == ACL_SUCCESS) device.error = {code, std::move(sentence)};
}

void Scheduler::release(Stream* stream) {
    stream->destroyed = true;
    release_if_drained(stream);
}

void Scheduler::release_if_drained(Stream* stream) {
    if (!stream->destroyed || !stream->idle() || stream->waiters > 0) return;
    std::erase(stream->device->streams, stream);
    delete stream;
}

void Scheduler::abandon(Lock& lock, Device& device) {
    device.abandoning = true;
    // What only the application could set free must not hold up the drain: callbacks, notifies.
    for (auto& [thread, queue] : due_) {
        std::deque<DueCallback> kept;
        for (DueCallback& due : std::exchange(queue, {})) {
            if (due.stream == nullptr || due.stream->device != &device) {
                kept.push_back(due);
            } else {
                callback_returned(lock, due);
            }
        }
        std::ranges::move(kept, std::back_inserter(queue));
    }
    for (Stream* stream : std::vector<Stream*>(device.streams)) {
        if (!stream->parked) continue;
        NotifyState* notify = nullptr;
        if (auto* head = std::get_if<WaitNotify>(&stream->queue.front())) notify = head->notify.get();
        if (auto* head = std::get_if<WaitFlag>(&stream->queue.front())) notify = head->notify.get();
        if (notify == nullptr) continue;
        std::erase(notify->parked, stream);
        stream->parked = false;
        advance(stream);
    }
    for (Stream* stream : std::vector<Stream*>(device.streams)) {
        if (std::ranges::find(device.streams, stream) != device.streams.end())
            wait(lock, *stream, std::nullopt);
    }
    device.abandoning = false;
}

}  // namespace npu::emulator
