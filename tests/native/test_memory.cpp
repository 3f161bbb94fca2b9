// Device memory: what is copied arrives, what is asked for beyond the budget is refused with CANN's code,
// what is freed is counted.
#include <cstdint>
#include <numeric>
#include <vector>

#include "check.h"

namespace {

constexpr std::size_t mebibyte = 1U << 20;

struct Budget {
    std::size_t free = 0;
    std::size_t total = 0;
};

Budget budget() {
    Budget now;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &now.free, &now.total));
    return now;
}

void* allocate(std::size_t bytes) {
    void* pointer = nullptr;
    OK(aclrtMalloc(&pointer, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    return pointer;
}

}  // namespace

CASE(bytes_come_back_as_they_went) {
    std::vector<std::uint32_t> there(1U << 18), back(1U << 18);
    std::iota(there.begin(), there.end(), 7U);
    const std::size_t bytes = there.size() * sizeof(there[0]);
    void* device = allocate(bytes);
    void* copy = allocate(bytes);
    OK(aclrtMemcpy(device, bytes, there.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(copy, bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtMemcpy(back.data(), bytes, copy, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    HOLDS(back == there);
    OK(aclrtFree(device));
    OK(aclrtFree(copy));
}

CASE(asynchronous_copies_and_fills_keep_the_order_of_their_stream) {
    aclrtStream stream = nullptr;
    OK(aclrtCreateStream(&stream));
    void* host = nullptr;
    OK(aclrtMallocHost(&host, mebibyte));
    auto* bytes = static_cast<std::uint8_t*>(host);
    void* device = allocate(mebibyte);
    for (int value = 1; value <= 5; ++value) OK(aclrtMemsetAsync(device, mebibyte, value, mebibyte, stream));
    OK(aclrtMemcpyAsync(host, mebibyte, device, mebibyte, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtSynchronizeStream(stream));
    for (std::size_t i = 0; i < mebibyte; i += 4099) EQUAL(static_cast<int>(bytes[i]), 5);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(host));
    OK(aclrtDestroyStream(stream));
}

CASE(a_copy_that_would_not_fit_is_refused) {
    void* device = allocate(64);
    std::uint8_t host[128] = {};
    HOLDS(aclrtMemcpy(device, 64, host, 128, ACL_MEMCPY_HOST_TO_DEVICE) != 0);
    OK(aclrtFree(device));
}

CASE(the_budget_is_what_was_set_and_allocations_are_counted) {
    const Budget before = budget();
    HOLDS(before.total > 0 && before.total <= 1024 * mebibyte);
    void* device = allocate(100 * mebibyte);
    const Budget during = budget();
    HOLDS(before.free - during.free >= 100 * mebibyte && before.free - during.free < 110 * mebibyte);
    OK(aclrtFree(device));
    EQUAL(budget().free, before.free);
}

CASE(more_than_the_budget_is_out_of_memory_and_later_allocations_work) {
    void* pointer = nullptr;
    EQUAL(aclrtMalloc(&pointer, budget().total + mebibyte, ACL_MEM_MALLOC_HUGE_FIRST),
          207001);  // ACL_ERROR_RT_MEMORY_ALLOCATION
    HOLDS(pointer == nullptr);
    OK(aclrtFree(allocate(mebibyte)));
}

CASE(freeing_twice_or_freeing_what_is_not_ours_is_an_error) {
    void* device = allocate(256);
    OK(aclrtFree(device));
    HOLDS(aclrtFree(device) != 0);
    int local = 0;
    HOLDS(aclrtFree(&local) != 0);
}

CASE(devices_have_memory_of_their_own) {
    const Budget first = budget();
    OK(aclrtSetDevice(1));
    void* device = allocate(50 * mebibyte);
    OK(aclrtSetDevice(0));
    EQUAL(budget().free, first.free);
    OK(aclrtSetDevice(1));
    OK(aclrtFree(device));
    OK(aclrtResetDevice(1));
    OK(aclrtSetDevice(0));
}

int main() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
    const int result = check::run_all();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return result | check::failures;
}
