// native/cann: objects that clean up after themselves, typed errors, functions found by name, calls through
// libffi.
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "cann/api.h"
#include "cann/communicator.h"
#include "cann/ffi.h"
#include "cann/op_executor.h"
#include "cann/pool.h"
#include "check.h"

using namespace npu::cann;
using namespace std::chrono_literals;

namespace {

template <typename E, typename F>
E thrown(F&& function) {
    try {
        function();
    } catch (const E& error) {
        return error;
    }
    check::holds(false, "nothing was thrown", __LINE__);
    std::abort();
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// More arguments than registers, of every type that an operator has.
struct Seen {
    int64_t integers[12];
    double reals[6];
};
Seen seen;
int mixed(void* a, int64_t b, double c, int8_t d, float e, bool f, uint32_t g, double h, int32_t i,
          uint64_t j, double k, void* l, float m, int64_t n, int8_t o, double p, uint64_t* q) {
    seen = {{reinterpret_cast<int64_t>(a), b, d, f, g, i, static_cast<int64_t>(j),
             reinterpret_cast<int64_t>(l), n, o},
            {c, e, h, k, m, p}};
    *q = 77;
    return -5;
}

}  // namespace

CASE(libffi_passes_every_type_through_registers_and_stack) {
    using enum ArgumentType;
    const ArgumentType types[] = {pointer, sint64,  float64, sint8,   float32, uint8,
                                  uint32,  float64, sint32,  uint64,  float64, pointer,
                                  float32, sint64,  sint8,   float64, pointer};
    CallInterface interface(types);
    int64_t a = 11, b = -(int64_t{1} << 40), d = -3, f = 1, g = 0xFFFFFFFF, i = -70000, l = 12, n = 13,
            o = 127;
    uint64_t j = ~uint64_t{0}, q = 0;
    uint64_t* out = &q;
    double c = 0.5, h = -1e300, k = 3.25, p = 6.5;
    float e = 1.5F, m = -2.5F;
    void* values[] = {&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &l, &m, &n, &o, &p, &out};
    EQUAL(interface.call(reinterpret_cast<void*>(&mixed), values), -5);
    EQUAL(q, uint64_t{77});
    const int64_t integers[] = {11, b, -3, 1, 0xFFFFFFFF, -70000, -1, 12, 13, 127};
    for (std::size_t at = 0; at < std::size(integers); ++at) EQUAL(seen.integers[at], integers[at]);
    const double reals[] = {0.5, 1.5, -1e300, 3.25, -2.5, 6.5};
    for (std::size_t at = 0; at < std::size(reals); ++at) EQUAL(seen.reals[at], reals[at]);
}

CASE(a_function_that_is_not_there_is_named) {
    const auto error = thrown<SymbolError>([] { find(Part::hccl, "HcclNoSuchFunction"); });
    HOLDS(contains(error.what(), "HcclNoSuchFunction"));
    HOLDS(contains(error.what(), "libhccl.so (CANN "));
    HOLDS(find_if_any(Part::hccl, "HcclNoSuchFunction") == nullptr);
    EQUAL(origin(Part::runtime, "aclrtMalloc").version, version());
}

CASE(an_error_has_the_code_and_its_name_and_what_was_done) {
    const auto error = thrown<Error>([] { DeviceBuffer(0, std::size_t{1} << 50); });
    EQUAL(error.code(), int64_t{ACL_ERROR_RT_MEMORY_ALLOCATION});
    EQUAL(error.code_name(), std::string("ACL_ERROR_RT_MEMORY_ALLOCATION"));
    EQUAL(error.call(), std::string("aclrtMalloc"));
    HOLDS(error.out_of_memory());
    HOLDS(contains(error.what(), "allocating 1125899906842624 bytes on npu:0"));
    HOLDS(!error.detail().empty());
}

CASE(a_device_guard_restores_what_was_current) {
    DeviceGuard outer(1);
    {
        DeviceGuard inner(0);
    }
    int32_t current = -1;
    OK(aclrtGetDevice(&current));
    EQUAL(current, 1);
}

CASE(streams_and_events_end_in_any_order_and_refuse_use_after_close) {
    auto stream = std::make_shared<Stream>(0);
    Event event(0);
    stream->record(event);
    stream->close();
    stream->close();
    thrown<ClosedError>([&] { stream->synchronize(); });
    thrown<ClosedError>([&] { stream->record(event); });
    event.close();
    thrown<ClosedError>([&] { event.complete(); });
}

CASE(a_pool_reuses_memory_of_a_stream_and_waits_for_other_streams) {
    const auto pool = Pool::of(0);
    const auto first = std::make_shared<Stream>(0), second = std::make_shared<Stream>(0);
    void* address = nullptr;
    {
        const auto block = pool->allocate(first, 1000);
        address = block->address();
    }
    EQUAL(pool->allocate(first, 900)->address(), address);

    std::atomic<bool> open = false;
    auto block = pool->allocate(first, 1000);
    second->launch_host(
        [](void* gate) {
            while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::sleep_for(1ms);
        },
        &open);
    block->used_by(second);
    address = block->address();
    block.reset();
    HOLDS(pool->allocate(first, 1000)->address() != address);
    open = true;
    second->synchronize();
    pool->trim();
    EQUAL(pool->stats().reserved, std::size_t{0});
    EQUAL(pool->stats().blocks_in_use, std::size_t{0});
}

CASE(a_pool_serves_many_threads) {
    const auto pool = Pool::of(1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&pool, t] {
            const auto stream = std::make_shared<Stream>(1);
            std::vector<std::shared_ptr<Block>> held;
            for (int i = 0; i < 200; ++i) {
                held.push_back(pool->allocate(stream, static_cast<std::size_t>(64 + i * 37 * (t + 1))));
                fill_async(*stream, held.back()->address(), static_cast<uint8_t>(t), held.back()->size());
                if (held.size() > 5) held.erase(held.begin());
            }
            std::vector<uint8_t> back(held.back()->size());
            stream->synchronize();
            copy(1, back.data(), held.back()->address(), back.size(), ACL_MEMCPY_DEVICE_TO_HOST);
            for (uint8_t byte : back)
                if (byte != t) check::holds(false, "a block was shared", __LINE__);
        });
    for (std::thread& thread : threads) thread.join();
    EQUAL(pool->stats().blocks_in_use, std::size_t{0});
}

CASE(communicators_of_two_ranks_reduce_and_refuse_what_does_not_fit) {
    const int devices[] = {0, 1};
    const auto ranks = Communicator::all(devices);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
        threads.emplace_back([&ranks, rank] {
            const auto stream = std::make_shared<Stream>(rank);
            const auto block = Pool::of(rank)->allocate(stream, 64);
            const std::vector<float> mine(16, static_cast<float>(rank + 1));
            std::vector<float> sum(16);
            copy_async(*stream, block->address(), mine.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE);
            ranks[rank]->all_reduce(block->address(), block->address(), 16, HCCL_DATA_TYPE_FP32,
                                    HCCL_REDUCE_SUM, *stream);
            stream->synchronize();
            copy(rank, sum.data(), block->address(), 64, ACL_MEMCPY_DEVICE_TO_HOST);
            for (float value : sum)
                if (value != 3) check::holds(false, "the sum is wrong", __LINE__);
        });
    for (std::thread& thread : threads) thread.join();
    Stream wrong(1);
    thrown<std::invalid_argument>([&] { ranks[0]->barrier(wrong); });
    thrown<std::out_of_range>([&] { ranks[0]->broadcast(nullptr, 1, HCCL_DATA_TYPE_FP32, 2, wrong); });
    ranks[0]->check_async_error();
    ranks[0]->close();
    thrown<ClosedError>([&] { ranks[0]->check_async_error(); });
}

CASE(operators_are_known_by_cann_s_prototypes) {
    HOLDS(kPrototypeCount > 1200);
    for (std::size_t i = 0; i < kPrototypeCount; ++i) {
        HOLDS(find_prototype(kPrototypes[i].name) == &kPrototypes[i]);
        for (const char* letter = kPrototypes[i].letters; *letter != '\0'; ++letter)
            HOLDS(kind_of(*letter) != nullptr);
    }
    const auto error = thrown<std::invalid_argument>([] { OpExecutor::of("aclnnSoftmx"); });
    HOLDS(contains(error.what(), "the nearest name is aclnnSoftmax"));
}

int main() { return check::run_all(); }
