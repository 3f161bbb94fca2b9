// Ordered queues (streams) served by engines. One mutex guards all of it; it is never held while a task runs.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "objects.h"

namespace npu::emulator {

using Lock = std::unique_lock<std::mutex>;
using Deadline = std::optional<Clock::time_point>;

/// A callback that is due: the thread that subscribed to its stream runs it in aclrtProcessReport.
struct DueCallback {
    Callback callback;
    Stream* stream;
};

class Scheduler {
  public:
    std::mutex mutex;

    /// Appends an item to the stream and processes what became due. Needs the lock.
    void enqueue(Lock& lock, Stream& stream, Item item);

    /// Runs a tiny task at once where the stream is idle, else enqueues it; `then` comes right behind it.
    /// Needs the lock; drops it while running.
    void submit(Lock& lock, Stream& stream, std::unique_ptr<Task> task, Engine engine,
                std::optional<Item> then = std::nullopt);

    /// True if tasks of this stream are not run any more: its device failed and the stream stops on failure,
    /// or everything is being dropped. Needs the lock.
    bool drops(const Stream& stream) const;

    /// Waits until all that was enqueued before the call has finished; false: the deadline passed first.
    bool wait(Lock& lock, Stream& stream, Deadline deadline);

    /// Waits until `generation` of the event is reached; false: the deadline passed first.
    bool wait(Lock& lock, EventState& event, uint64_t generation, Deadline deadline);

    /// Takes a due callback for the calling thread, waiting until the deadline; empty: none came.
    std::optional<DueCallback> next_callback(Lock& lock, uint64_t thread, Deadline deadline);
    void callback_returned(Lock& lock, const DueCallback& due);

    /// Marks the first failure of the device. Needs the lock.
    void set_error(Device& device, aclError code, std::string sentence);

    /// Forgets the handle: the stream is deleted once it is drained. Needs the lock.
    void release(Stream* stream);

    /// Drops what is queued on the device and waits for what runs. Needs the lock.
    void abandon(Lock& lock, Device& device);

    /// Ends the engines: queued work is dropped, running work awaited (host callbacks for at most five
    /// seconds).
    void stop();

    bool stopping() const { return stopping_; }  ///< needs the lock

  private:
    struct EngineState {
        std::deque<Stream*> ready;
        std::atomic<std::size_t> ready_count{0};
        std::condition_variable wake;
        std::size_t sleeping = 0;
        std::size_t alive = 0;
        std::vector<std::thread> threads;
    };

    EngineState& state(Engine engine) { return engines_[static_cast<std::size_t>(engine)]; }
    void advance(Stream* stream);
    void process(Stream& stream, std::vector<Stream*>& awake);
    bool blocked(Stream& stream, std::vector<Stream*>& awake);
    void item_finished(Stream& stream);
    void reach(EventState& event, uint64_t generation, std::vector<Stream*>& awake);
    void dispatch(Stream& stream, Engine engine);
    void start_thread(Engine engine);
    void serve(Engine engine);
    void run_head(Lock& lock, Stream& stream);
    std::optional<StickyError> run(Task& task);
    void release_if_drained(Stream* stream);

    std::array<EngineState, 3> engines_;
    std::condition_variable event_reached_;
    std::size_t event_waiters_ = 0;
    std::map<uint64_t, std::deque<DueCallback>> due_;
    std::condition_variable callback_due_;
    bool stopping_ = false;
    std::condition_variable engine_ended_;
    std::size_t inline_running_ = 0;  ///< tasks that run on their callers' threads now
};

}  // namespace npu::emulator
