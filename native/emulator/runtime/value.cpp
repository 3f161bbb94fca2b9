// Streams that write and wait for values in memory.
#include <algorithm>
#include <atomic>
#include <thread>

#include "graph.h"
#include "runtime.h"

using namespace npu::emulator;

namespace {

class WriteValue final : public Task {
  public:
    WriteValue(void* address, uint64_t value) : address_(static_cast<uint64_t*>(address)), value_(value) {}
    void run() override { std::atomic_ref(*address_).store(value_); }
    const char* name() const override { return "aclrtValueWrite"; }
    std::size_t work() const override { return sizeof(uint64_t); }

  private:
    uint64_t* address_;
    uint64_t value_;
};

class WaitValue final : public Task {
  public:
    WaitValue(void* address, uint64_t value, uint32_t condition, const Device& device)
        : address_(static_cast<uint64_t*>(address)), value_(value), condition_(condition), device_(device) {}

    void run() override {
        auto pause = std::chrono::microseconds(10);
        while (!holds(std::atomic_ref(*address_).load())) {
            if (given_up())
                throw TaskError(ACL_ERROR_RT_DEVICE_TASK_ABORT, "the device was reset while it waited");
            std::this_thread::sleep_for(pause);
            pause = std::min(pause * 2, std::chrono::microseconds(200));
        }
    }
    const char* name() const override { return "aclrtValueWait"; }

  private:
    bool holds(uint64_t seen) const {
        switch (condition_) {
            case ACL_STREAM_WAIT_VALUE_GEQ:
                return static_cast<int64_t>(seen - value_) >= 0;
            case ACL_STREAM_WAIT_VALUE_EQ:
                return seen == value_;
            case ACL_STREAM_WAIT_VALUE_AND:
                return (seen & value_) != 0;
            default:
                return ~(seen | value_) != 0;
        }
    }

    bool given_up() const {
        Lock lock(Runtime::get().scheduler.mutex);
        return device_.abandoning || Runtime::get().scheduler.stopping();
    }

    uint64_t* address_;
    uint64_t value_;
    uint32_t condition_;
    const Device& device_;
};

aclError check_address(const void* address, const char* function) {
    NPU_RETURN_IF_ERROR(require(address, function, "devAddr"));
    if (reinterpret_cast<uintptr_t>(address) % alignof(uint64_t) == 0) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_ADDR_UNALIGNED,
                std::string(function) + ": devAddr has to be aligned to 8 bytes");
}

}  // namespace

aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
    NPU_RETURN_IF_ERROR(check_address(devAddr, "aclrtValueWrite"));
    if (flag != 0)
        return fail(ACL_ERROR_INVALID_PARAM,
                    "aclrtValueWrite: flag has to be 0, not " + std::to_string(flag));
    return launch(stream, std::make_unique<WriteValue>(devAddr, value), Engine::copy);
}

aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
    constexpr const char* name = "aclrtValueWait";
    NPU_RETURN_IF_ERROR(check_address(devAddr, name));
    if (flag > ACL_STREAM_WAIT_VALUE_NOR) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": flag " + std::to_string(flag) +
                                                 " is not one of ACL_STREAM_WAIT_VALUE_*");
    }
    NPU_RETURN_IF_ERROR(use(name));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    auto task = std::make_unique<WaitValue>(devAddr, value, flag, *found->device);
    return append(lock, *found, std::move(task), Engine::host);
}
