// Captured graphs: what a replay does, in which order, that it may be repeated and outlive its handle.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
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
    explicit Event(uint32_t flags = ACL_EVENT_SYNC) { OK(aclrtCreateEventExWithFlag(&event_, flags)); }
    ~Event() { OK(aclrtDestroyEvent(event_)); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    operator aclrtEvent() const { return event_; }

  private:
    aclrtEvent event_ = nullptr;
};

class Bytes {
  public:
    explicit Bytes(std::size_t size) : size_(size) {
        OK(aclrtMalloc(&address_, size, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMemset(address_, size, 0, size));
    }
    ~Bytes() { OK(aclrtFree(address_)); }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    operator void*() const { return address_; }
    int first() const {
        std::uint8_t value = 0;
        OK(aclrtMemcpy(&value, 1, address_, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        return value;
    }
    void fill(int value, aclrtStream stream) const {
        OK(aclrtMemsetAsync(address_, size_, value, size_, stream));
    }
    void copy_to(const Bytes& other, aclrtStream stream) const {
        OK(aclrtMemcpyAsync(other, size_, address_, size_, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    }

  private:
    std::size_t size_;
    void* address_ = nullptr;
};

void begin(aclrtStream stream, aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) {
    OK(aclmdlRICaptureBegin(stream, mode));
}

aclmdlRI end(aclrtStream stream) {
    aclmdlRI graph = nullptr;
    OK(aclmdlRICaptureEnd(stream, &graph));
    return graph;
}

void count(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

struct Gate {
    std::atomic<bool> open = false;
    static void wait(void* self) {
        while (!static_cast<Gate*>(self)->open) std::this_thread::sleep_for(1ms);
    }
};

CASE(a_captured_stream_runs_nothing_until_it_is_replayed) {
    Stream stream;
    Bytes a(4096), b(4096);
    begin(stream);
    a.fill(7, stream);
    a.copy_to(b, stream);
    const aclmdlRI graph = end(stream);
    EQUAL(b.first(), 0);
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclrtSynchronizeStream(stream));
    EQUAL(b.first(), 7);
    OK(aclmdlRIDestroy(graph));
}

CASE(a_graph_is_replayed_a_thousand_times) {
    Stream stream, other;
    std::atomic<int> calls = 0;
    Bytes a(1 << 20), b(1 << 20);
    begin(stream);
    a.copy_to(b, stream);
    OK(aclrtLaunchHostFunc(stream, count, &calls));
    b.fill(9, stream);
    const aclmdlRI graph = end(stream);
    for (int i = 0; i < 1000; ++i) OK(aclmdlRIExecuteAsync(graph, i % 3 == 0 ? other : stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(other));
    EQUAL(calls.load(), 1000);
    EQUAL(b.first(), 9);
    OK(aclmdlRIDestroy(graph));
}

CASE(streams_fork_and_join_by_events) {
    Stream stream, side;
    Event fork, join;
    Bytes a(4096), b(4096), c(4096);
    begin(stream);
    a.fill(3, stream);
    OK(aclrtRecordEvent(fork, stream));
    OK(aclrtStreamWaitEvent(side, fork));
    a.copy_to(b, side);
    OK(aclrtRecordEvent(join, side));
    OK(aclrtStreamWaitEvent(stream, join));
    b.copy_to(c, stream);
    const aclmdlRI graph = end(stream);
    for (int i = 0; i < 100; ++i) {
        c.fill(0, stream);
        OK(aclmdlRIExecuteAsync(graph, stream));
        OK(aclrtSynchronizeStream(stream));
        EQUAL(c.first(), 3);
    }
    OK(aclmdlRIDestroy(graph));
}

CASE(a_graph_may_be_destroyed_while_it_is_replayed) {
    Stream stream;
    Gate gate;
    Bytes a(4096);
    begin(stream);
    OK(aclrtLaunchHostFunc(stream, Gate::wait, &gate));
    for (int i = 0; i < 100; ++i) a.fill(i, stream);
    a.fill(5, stream);
    const aclmdlRI graph = end(stream);
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclmdlRIDestroy(graph));
    HOLDS(aclmdlRIExecuteAsync(graph, stream) != ACL_SUCCESS);
    gate.open = true;
    OK(aclrtSynchronizeStream(stream));
    EQUAL(a.first(), 5);
}

CASE(several_threads_replay_one_graph) {
    std::atomic<int> calls = 0, running = 0, overlaps = 0;
    struct Seen {
        std::atomic<int>&calls, &running, &overlaps;
    } seen{calls, running, overlaps};
    Stream stream;
    begin(stream);
    OK(aclrtLaunchHostFunc(
        stream,
        [](void* data) {
            auto& s = *static_cast<Seen*>(data);
            if (++s.running > 1) ++s.overlaps;
            ++s.calls;
            --s.running;
        },
        &seen));
    const aclmdlRI graph = end(stream);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            OK(aclrtSetDevice(0));
            Stream own;
            for (int i = 0; i < 100; ++i) OK(aclmdlRIExecuteAsync(graph, own));
            OK(aclrtSynchronizeStream(own));
        });
    }
    for (auto& thread : threads) thread.join();
    EQUAL(calls.load(), 400);
    EQUAL(overlaps.load(), 0);
    OK(aclmdlRIDestroy(graph));
}

CASE(an_external_event_holds_the_replay_until_it_is_recorded) {
    Stream stream, outside;
    Event external(ACL_EVENT_EXTERNAL);
    Bytes a(4096);
    begin(stream);
    OK(aclrtStreamWaitEvent(stream, external));
    OK(aclrtResetEvent(external, stream));
    a.fill(1, stream);
    const aclmdlRI graph = end(stream);
    for (int i = 0; i < 3; ++i) {
        a.fill(0, outside);
        OK(aclrtSynchronizeStream(outside));
        OK(aclmdlRIExecuteAsync(graph, stream));
        HOLDS(aclrtSynchronizeStreamWithTimeout(stream, 20) != ACL_SUCCESS);
        OK(aclrtRecordEvent(external, outside));
        OK(aclrtSynchronizeStream(stream));
        EQUAL(a.first(), 1);
    }
    OK(aclmdlRIDestroy(graph));
}

CASE(a_capture_that_failed_leaves_its_streams_usable) {
    Stream stream, side;
    Event fork;
    Bytes a(4096);
    begin(stream);
    OK(aclrtRecordEvent(fork, stream));
    OK(aclrtStreamWaitEvent(side, fork));
    a.fill(1, side);
    aclmdlRI graph = nullptr;
    EQUAL(aclmdlRICaptureEnd(stream, &graph), ACL_ERROR_RT_STREAM_UNJOINED);
    HOLDS(graph == nullptr);
    a.fill(2, side);
    OK(aclrtSynchronizeStream(side));
    EQUAL(a.first(), 2);
}

CASE(an_aborted_replay_runs_no_further_task) {
    Stream stream;
    Gate gate;
    Bytes a(4096);
    begin(stream);
    OK(aclrtLaunchHostFunc(stream, Gate::wait, &gate));
    a.fill(5, stream);
    const aclmdlRI graph = end(stream);
    OK(aclmdlRIExecuteAsync(graph, stream));
    OK(aclmdlRIAbort(graph));
    gate.open = true;
    OK(aclrtSynchronizeStream(stream));
    EQUAL(a.first(), 0);
    OK(aclmdlRIExecute(graph, -1));
    EQUAL(a.first(), 5);
    OK(aclmdlRIDestroy(graph));
}

CASE(a_device_reset_drops_a_capture) {
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    Bytes a(4096);
    begin(stream);
    a.fill(5, stream);
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(0));
    aclmdlRICaptureStatus status{};
    OK(aclmdlRICaptureGetInfo(stream, &status, nullptr));
    EQUAL(static_cast<int>(status), static_cast<int>(ACL_MODEL_RI_CAPTURE_STATUS_NONE));
    OK(aclrtDestroyStream(stream));
}

}  // namespace

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    return check::run_all();
}
