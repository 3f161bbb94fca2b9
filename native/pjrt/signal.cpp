#include "pjrt/signal.h"

#include <chrono>
#include <thread>
#include <utility>

#include "pjrt/worker.h"

namespace npu::pjrt {
namespace {

constexpr std::chrono::microseconds kPatience{50};

}  // namespace

std::shared_ptr<Signal> Signal::done() {
    auto signal = std::make_shared<Signal>();
    signal->set_ = true;
    return signal;
}

std::shared_ptr<Signal> Signal::failed(Failure failure) {
    auto signal = done();
    signal->failure_ = std::move(failure);
    return signal;
}

bool Signal::is_set() {
    std::lock_guard lock(mutex_);
    return set_;
}

bool Signal::ready() {
    if (!is_set()) poll();
    return is_set();
}

const Failure* Signal::wait() {
    if (!is_set()) block();
    return failure_ ? &*failure_ : nullptr;
}

const Failure* Signal::known_failure() {
    std::lock_guard lock(mutex_);
    return set_ && failure_ ? &*failure_ : nullptr;
}

void Signal::block() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return set_; });
}

void Signal::then(Then function) {
    bool first = false;
    if (!ready()) {
        std::lock_guard lock(mutex_);
        if (!set_) {
            first = then_.empty();
            then_.push_back(std::move(function));
            function = nullptr;
        }
    }
    if (function) return function(failure_ ? &*failure_ : nullptr);
    if (first) watch();
}

void Signal::set(std::optional<Failure> failure) {
    std::vector<Then> then;
    {
        std::lock_guard lock(mutex_);
        if (set_) return;
        failure_ = std::move(failure);
        set_ = true;
        then.swap(then_);
    }
    changed_.notify_all();
    for (const Then& function : then) function(failure_ ? &*failure_ : nullptr);
}

Moment::Moment(std::shared_ptr<cann::Stream> stream, Worker& watcher)
    : stream_(std::move(stream)),
      watcher_(watcher),
      event_(std::make_shared<cann::Event>(stream_->device(), false)) {
    stream_->record(*event_);
}

std::shared_ptr<cann::Event> Moment::event() {
    std::lock_guard lock(event_mutex_);
    return event_;
}

// The event's own status says nothing of work that failed before it: waiting does.
void Moment::finish(const cann::Event& event) {
    std::optional<Failure> failure;
    try {
        event.synchronize();
    } catch (...) {
        failure = current_failure();
    }
    set(std::move(failure));
    std::lock_guard lock(event_mutex_);
    event_.reset();
}

void Moment::poll() {
    const std::shared_ptr<cann::Event> asked = event();
    if (!asked) return;
    bool complete = true;
    try {
        complete = asked->complete();
    } catch (...) {  // finish says why
    }
    if (complete) finish(*asked);
}

void Moment::block() {
    if (const std::shared_ptr<cann::Event> asked = event())
        finish(*asked);
    else
        Signal::block();
}

// Small programs are done by the time another thread would have woken.
void Moment::watch() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    do {
        if (ready()) return;
        std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < until);
    watcher_.post([self = shared_from_this()] { self->wait(); });
}

}  // namespace npu::pjrt
