#include "pjrt/worker.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace npu::pjrt {
namespace {

// Signals are for the application's threads: Ctrl-C must reach Python's main thread.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_;
};

}  // namespace

Worker::~Worker() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Worker::post(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++unfinished_;
    if (!thread_.joinable()) {
        SignalsBlocked blocked;
        thread_ = std::thread([this] { serve(); });
        pthread_setname_np(thread_.native_handle(), name_.c_str());
    }
    changed_.notify_one();
}

bool Worker::idle() const {
    std::lock_guard lock(mutex_);
    return unfinished_ == 0;
}

void Worker::serve() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
        if (queue_.empty()) return;
        std::function<void()> work = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        work();
        work = nullptr;  // what it holds is let go of without the lock
        lock.lock();
        --unfinished_;
    }
}

}  // namespace npu::pjrt
