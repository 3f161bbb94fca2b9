// Streams, events and host callbacks: order within a stream, waits between streams, and that nothing runs on
// the caller's time.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using namespace std::chrono_literals;

class Stream {
  public:
    Stream() { OK(aclrtCreateStream(&stream_)); }
    ~Stream() { OK(aclrtDestroyStream(stream_)); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    operator aclrtStream() const { return stream_; }

  private:
    aclrtStream stream_ = nullptr;
};

class Event {
  public:
    Event() { OK(aclrtCreateEvent(&event_)); }
    ~Event() { OK(aclrtDestroyEvent(event_)); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    operator aclrtEvent() const { return event_; }

  private:
    aclrtEvent event_ = nullptr;
};

// A host function that waits for a gate: holds its stream up until the test opens it.
struct Gate {
    std::atomic<bool> open = false;
    static void wait(void* self) {
        while (!static_cast<Gate*>(self)->open) std::this_thread::sleep_for(1ms);
    }
};

struct Append {
    std::vector<int>* log;
    int value;
    static void run(void* self) {
        auto* append = static_cast<Append*>(self);
        append->log->push_back(append->value);
    }
};

aclrtEventRecordedStatus status_of(aclrtEvent event) {
    aclrtEventRecordedStatus status{};
    OK(aclrtQueryEventStatus(event, &status));
    return status;
}

}  // namespace

CASE(a_stream_keeps_the_order_of_its_work) {
    Stream stream;
    std::vector<int> log;
    std::vector<Append> appends;
    for (int i = 0; i < 100; ++i) appends.push_back({&log, i});
    for (Append& append : appends) OK(aclrtLaunchHostFunc(stream, &Append::run, &append));
    OK(aclrtSynchronizeStream(stream));
    EQUAL(log.size(), std::size_t{100});
    for (int i = 0; i < static_cast<int>(log.size()); ++i) EQUAL(log[i], i);
}

CASE(work_is_asynchronous_and_an_event_tells_when_it_is_done) {
    Stream stream;
    Event event;
    Gate gate;
    OK(aclrtLaunchHostFunc(stream, &Gate::wait, &gate));
    OK(aclrtRecordEvent(event, stream));
    EQUAL(static_cast<int>(status_of(event)), static_cast<int>(ACL_EVENT_RECORDED_STATUS_NOT_READY));
    gate.open = true;
    OK(aclrtSynchronizeEvent(event));
    EQUAL(static_cast<int>(status_of(event)), static_cast<int>(ACL_EVENT_RECORDED_STATUS_COMPLETE));
    OK(aclrtSynchronizeStream(stream));
}

CASE(a_stream_waits_for_an_event_of_another) {
    Stream first, second;
    Event event;
    Gate gate;
    std::vector<int> log;
    Append one{&log, 1}, two{&log, 2};
    OK(aclrtLaunchHostFunc(first, &Gate::wait, &gate));
    OK(aclrtLaunchHostFunc(first, &Append::run, &one));
    OK(aclrtRecordEvent(event, first));
    OK(aclrtStreamWaitEvent(second, event));
    OK(aclrtLaunchHostFunc(second, &Append::run, &two));
    std::this_thread::sleep_for(20ms);
    gate.open = true;
    OK(aclrtSynchronizeStream(second));
    OK(aclrtSynchronizeStream(first));
    HOLDS((log == std::vector<int>{1, 2}));
}

CASE(a_stream_that_is_held_up_does_not_hold_up_another) {
    Stream held, free;
    Gate gate;
    std::vector<int> log;
    Append one{&log, 1};
    OK(aclrtLaunchHostFunc(held, &Gate::wait, &gate));
    OK(aclrtLaunchHostFunc(free, &Append::run, &one));
    OK(aclrtSynchronizeStream(free));
    EQUAL(log.size(), std::size_t{1});
    gate.open = true;
    OK(aclrtSynchronizeStream(held));
}

CASE(synchronising_with_a_timeout_gives_up) {
    Stream stream;
    Gate gate;
    OK(aclrtLaunchHostFunc(stream, &Gate::wait, &gate));
    HOLDS(aclrtSynchronizeStreamWithTimeout(stream, 50) != 0);
    gate.open = true;
    OK(aclrtSynchronizeStream(stream));
}

CASE(the_time_between_two_events_covers_the_work_between_them) {
    Stream stream;
    Event start, end;
    OK(aclrtRecordEvent(start, stream));
    OK(aclrtLaunchHostFunc(stream, [](void*) { std::this_thread::sleep_for(30ms); }, nullptr));
    OK(aclrtRecordEvent(end, stream));
    OK(aclrtSynchronizeStream(stream));
    float milliseconds = 0;
    OK(aclrtEventElapsedTime(&milliseconds, start, end));
    HOLDS(milliseconds >= 29.0F && milliseconds < 5000.0F);
}

CASE(threads_may_share_a_stream) {
    Stream stream;
    std::atomic<int> count = 0;
    auto add = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            OK(aclrtSetDevice(0));
            for (int n = 0; n < 250; ++n) OK(aclrtLaunchHostFunc(stream, add, &count));
        });
    }
    for (std::thread& thread : threads) thread.join();
    OK(aclrtSynchronizeStream(stream));
    EQUAL(count.load(), 1000);
}

CASE(a_stream_that_does_not_exist_is_an_error_with_a_sentence) {
    int not_a_stream = 0;
    HOLDS(aclrtSynchronizeStream(&not_a_stream) != 0);
    const char* message = aclGetRecentErrMsg();
    HOLDS(message != nullptr && *message != '\0');
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    const int result = check::run_all();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return result | check::failures;
}
