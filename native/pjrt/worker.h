// A thread that does what it is given, in order. It starts with the first piece of work.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace npu::pjrt {

class Worker {
  public:
    /// `name`: at most 15 characters, as the thread is shown.
    explicit Worker(std::string name) : name_(std::move(name)) {}
    /// Ends after the work that is queued.
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// The work must not throw.
    void post(std::function<void()> work);
    /// Nothing queued, nothing running.
    bool idle() const;

  private:
    void serve();

    const std::string name_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    std::size_t unfinished_ = 0;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace npu::pjrt
