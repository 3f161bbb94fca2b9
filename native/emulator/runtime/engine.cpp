// The threads that run tasks: one for compute, one for copies, as many for host work as block at a time.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "scheduler.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace npu::emulator {

namespace {

thread_local const Engine* serving = nullptr;

/// A copy up to this size that follows a compute task is done by the compute thread: cheaper than waking
/// another.
constexpr std::size_t kSmallCopyBytes = 256 * 1024;

/// How long an engine looks for work before it sleeps: about the cost of being woken.
constexpr std::chrono::microseconds kSpin{20};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// What the exception in flight says, as a device error of the named task.
StickyError failure_of(const char* name) {
    const std::string prefix = std::string(name) + " failed on the device: ";
    try {
        throw;
    } catch (const TaskError& e) {
        return {e.code, prefix + e.what()};
    } catch (const std::bad_alloc&) {
        return {ACL_ERROR_RT_AICORE_EXCEPTION,
                prefix + "the host has no memory left for its temporary buffers"};
    } catch (const std::exception& e) {
        return {ACL_ERROR_RT_AICORE_EXCEPTION, prefix + e.what()};
    } catch (...) {
        return {ACL_ERROR_RT_AICORE_EXCEPTION, prefix + "an exception that is no std::exception"};
    }
}

}  // namespace

bool on_compute_engine() { return serving != nullptr && *serving == Engine::compute; }

void Scheduler::dispatch(Stream& stream, Engine engine) {
    if (engine == Engine::copy && on_compute_engine() &&
        std::get<RunTask>(stream.queue.front()).task->work() <= kSmallCopyBytes) {
        engine = Engine::compute;
    }
    EngineState& target = state(engine);
    target.ready.push_back(&stream);
    target.ready_count.store(target.ready.size(), std::memory_order_release);
    const bool needs_thread =
        engine == Engine::host ? target.ready.size() > target.sleeping : target.alive == 0;
    if (needs_thread) {
        start_thread(engine);
    } else if (target.sleeping > 0) {
        target.wake.notify_one();
    }
}

void Scheduler::start_thread(Engine engine) {
    // Signals are for the application's threads: Ctrl-C must reach Python's main thread.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread([this, engine] { serve(engine); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    static constexpr const char* names[] = {"npu-compute", "npu-copy", "npu-host"};
    pthread_setname_np(thread.native_handle(), names[static_cast<std::size_t>(engine)]);
    ++state(engine).alive;
    if (engine == Engine::host) {
        thread.detach();  // may hang in an application's callback for ever; stop() waits for it with a limit
    } else {
        state(engine).threads.push_back(std::move(thread));
    }
}

void Scheduler::serve(Engine engine) {
    serving = &engine;
    EngineState& mine = state(engine);
    Lock lock(mutex);
    while (true) {
        if (mine.ready.empty() && !stopping_ && engine != Engine::host) {
            lock.unlock();
            const auto until = Clock::now() + kSpin;
            while (mine.ready_count.load(std::memory_order_acquire) == 0 && Clock::now() < until) relax();
            lock.lock();
        }
        ++mine.sleeping;
        mine.wake.wait(lock, [&] { return stopping_ || !mine.ready.empty(); });
        --mine.sleeping;
        if (mine.ready.empty()) break;  // stopping, and everything was dropped
        Stream* stream = mine.ready.front();
        mine.ready.pop_front();
        mine.ready_count.store(mine.ready.size(), std::memory_order_release);
        run_head(lock, *stream);
    }
    --mine.alive;
    engine_ended_.notify_all();
    serving = nullptr;
}

/// Runs (or drops) the task at the head of a busy stream; the lock is released meanwhile.
void Scheduler::run_head(Lock& lock, Stream& stream) {
    std::unique_ptr<Task> task = std::move(std::get<RunTask>(stream.queue.front()).task);
    stream.queue.pop_front();
    const bool drop = drops(stream);
    lock.unlock();
    std::optional<StickyError> failure;
    if (!drop) failure = run(*task);
    task.reset();  // may release what the task holds, which may call back into the runtime
    lock.lock();
    if (failure) set_error(*stream.device, failure->code, std::move(failure->sentence));
    stream.busy = false;
    item_finished(stream);
    advance(&stream);
}

std::optional<StickyError> Scheduler::run(Task& task) {
    try {
        task.run();
        return std::nullopt;
    } catch (...) {
        return failure_of(task.name());
    }
}

void Scheduler::stop() {
    Lock lock(mutex);
    stopping_ = true;
    for (EngineState& engine : engines_) engine.wake.notify_all();
    while (true) {
        std::vector<std::thread> threads;
        for (EngineState& engine : engines_) std::ranges::move(engine.threads, std::back_inserter(threads));
        for (EngineState& engine : engines_) engine.threads.clear();
        if (threads.empty()) break;
        lock.unlock();
        for (std::thread& thread : threads) thread.join();
        lock.lock();
    }
    engine_ended_.wait_for(lock, std::chrono::seconds(5),
                           [&] { return state(Engine::host).alive == 0 && inline_running_ == 0; });
    stopping_ = false;
}

}  // namespace npu::emulator
