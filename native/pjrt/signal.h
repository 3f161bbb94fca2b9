// Whether something has happened on a device, and what it came to. Behind PJRT's events and buffers.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cann/runtime.h"
#include "pjrt/status.h"

namespace npu::pjrt {

class Worker;

/// Set once, by its owner. Thread-safe.
class Signal : public std::enable_shared_from_this<Signal> {
  public:
    /// Null: it went well.
    using Then = std::function<void(const Failure*)>;

    Signal() = default;
    virtual ~Signal() = default;
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;

    static std::shared_ptr<Signal> done();
    static std::shared_ptr<Signal> failed(Failure failure);

    bool ready();
    /// Waits. The failure lives as long as the signal.
    const Failure* wait();
    /// Calls the function once it is set: at once, or from the thread that sets it. The function must not
    /// throw.
    void then(Then function);
    /// The failure where it is known already; never waits.
    const Failure* known_failure();
    /// Only the first time counts.
    void set(std::optional<Failure> failure);

    /// Whether work put on this stream from now on comes after it anyway.
    virtual bool precedes(const cann::Stream& /*stream*/) const { return false; }

  protected:
    bool is_set();
    /// Called without the lock held; may call set().
    virtual void poll() {}
    virtual void block();
    virtual void watch() {}

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool set_ = false;
    std::optional<Failure> failure_;
    std::vector<Then> then_;
};

/// A point in a stream's work. Nobody watches it until somebody asks.
class Moment final : public Signal {
  public:
    /// Records it behind everything that is on the stream now. `watcher`: the thread that may wait for it.
    Moment(std::shared_ptr<cann::Stream> stream, Worker& watcher);

    bool precedes(const cann::Stream& stream) const override { return stream_.get() == &stream; }

  protected:
    void poll() override;
    void block() override;
    void watch() override;

  private:
    std::shared_ptr<cann::Event> event();
    void finish(const cann::Event& event);

    std::shared_ptr<cann::Stream> stream_;
    Worker& watcher_;
    std::mutex event_mutex_;
    std::shared_ptr<cann::Event> event_;  ///< null once it is set: CANN has not any number of them
};

}  // namespace npu::pjrt
