// Many threads, streams and events at once: each stream's work stays in order, waits hold, nothing is lost,
// and what is destroyed or freed while work uses it stays until that work is done. For the sanitizers above
// all.
#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 200;

// A chain of host functions that must find the counter at the number before theirs.
struct Step {
    std::atomic<int>* counter;
    int number;
    std::atomic<int>* broken;
    static void run(void* self) {
        auto* step = static_cast<Step*>(self);
        int expected = step->number;
        if (!step->counter->compare_exchange_strong(expected, step->number + 1)) ++*step->broken;
    }
};

aclrtStream new_stream() {
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    return stream;
}

aclrtEvent new_event() {
    aclrtEvent event = nullptr;
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    return event;
}

// Work hops from stream to stream by events, so that one order over all of them is right.
void hop_between_streams() {
    OK(aclrtSetDevice(0));
    std::mt19937 random(7);
    std::array<aclrtStream, 3> streams{new_stream(), new_stream(), new_stream()};
    std::atomic<int> counter = 0, broken = 0;
    std::vector<Step> steps(kRounds);
    aclrtEvent event = new_event();  // recorded again and again, while earlier waits are pending
    for (int i = 0; i < kRounds; ++i) {
        aclrtStream from = streams[random() % streams.size()];
        steps[i] = {&counter, i, &broken};
        if (i > 0) OK(aclrtStreamWaitEvent(from, event));
        OK(aclrtLaunchHostFunc(from, &Step::run, &steps[i]));
        OK(aclrtRecordEvent(event, from));
        if (i % 16 == 0) {
            OK(aclrtDestroyEvent(event));
            aclrtEvent next = new_event();
            OK(aclrtLaunchHostFunc(from, [](void*) {}, nullptr));
            OK(aclrtRecordEvent(next, from));
            event = next;
        }
    }
    OK(aclrtSynchronizeEvent(event));
    EQUAL(counter.load(), kRounds);
    EQUAL(broken.load(), 0);
    OK(aclrtDestroyEvent(event));
    for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
}

// Copies of several sizes follow each other from buffer to buffer; the buffers are freed while queued work
// reads them.
void copy_through_buffers() {
    OK(aclrtSetDevice(0));
    constexpr std::array<std::size_t, 3> sizes{64, 100'000, 2'000'000};
    aclrtStream stream = new_stream();
    for (int round = 0; round < kRounds / 10; ++round) {
        const std::size_t size = sizes[static_cast<std::size_t>(round) % sizes.size()];
        void *first = nullptr, *second = nullptr, *host = nullptr;
        OK(aclrtMalloc(&first, size, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMalloc(&second, size, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMallocHost(&host, size));
        OK(aclrtMemsetAsync(first, size, round + 1, size, stream));
        OK(aclrtMemcpyAsync(second, size, first, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        OK(aclrtFree(first));
        OK(aclrtMemcpyAsync(host, size, second, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        OK(aclrtFree(second));
        OK(aclrtSynchronizeStream(stream));
        const auto* bytes = static_cast<const std::uint8_t*>(host);
        EQUAL(static_cast<int>(bytes[0]), round + 1);
        EQUAL(static_cast<int>(bytes[size - 1]), round + 1);
        OK(aclrtFreeHost(host));
    }
    OK(aclrtDestroyStream(stream));
}

// Streams live for a few operations only.
void short_lived_streams() {
    OK(aclrtSetDevice(0));
    void* word = nullptr;
    OK(aclrtMalloc(&word, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int round = 0; round < kRounds; ++round) {
        aclrtStream stream = new_stream();
        OK(aclrtMemsetAsync(word, 64, 1, 64, stream));
        OK(aclrtLaunchHostFunc(stream, [](void*) {}, nullptr));
        OK(aclrtDestroyStream(stream));
    }
    OK(aclrtSynchronizeDevice());
    OK(aclrtFree(word));
}

void run_in_threads(void (*body)()) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(body);
    for (std::thread& thread : threads) thread.join();
}

}  // namespace

CASE(work_that_hops_between_streams_keeps_its_order) { run_in_threads(hop_between_streams); }

CASE(buffers_freed_under_queued_copies_stay_until_these_are_done) { run_in_threads(copy_through_buffers); }

CASE(streams_destroyed_with_work_queued_finish_it) { run_in_threads(short_lived_streams); }

CASE(a_device_reset_in_the_middle_leaves_everything_usable) {
    aclrtStream stream = new_stream();
    for (int round = 0; round < 20; ++round) {
        void* word = nullptr;
        OK(aclrtMalloc(&word, 1U << 20, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMemset(word, 1U << 20, 0, 1U << 20));
        OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
        OK(aclrtMemsetAsync(word, 1U << 20, 5, 1U << 20, stream));
        std::thread release([word] {
            const std::uint64_t one = 1;
            OK(aclrtMemcpy(word, 8, &one, 8, ACL_MEMCPY_HOST_TO_DEVICE));
        });
        OK(aclrtResetDevice(0));
        release.join();
        OK(aclrtSetDevice(0));
        OK(aclrtSynchronizeStream(stream));
        OK(aclrtFree(word));
    }
    OK(aclrtDestroyStream(stream));
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    const int result = check::run_all();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return result | check::failures;
}
