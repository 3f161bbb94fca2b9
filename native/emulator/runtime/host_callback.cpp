// Host functions in stream order: run by a thread that subscribed (aclrtLaunchCallback), or by the runtime's
// own.
#include <pthread.h>

#include <cstring>

#include "graph.h"
#include "runtime.h"
#include "timeout.h"

using namespace npu::emulator;

namespace {

class HostFunction final : public Task {
  public:
    HostFunction(aclrtHostFunc function, void* data) : function_(function), data_(data) {}
    void run() override { function_(data_); }
    const char* name() const override { return "aclrtLaunchHostFunc"; }

  private:
    aclrtHostFunc function_;
    void* data_;
};

uint64_t this_thread() {
    const pthread_t self = pthread_self();
    uint64_t id = 0;
    std::memcpy(&id, &self, sizeof self);
    return id;
}

}  // namespace

/// threadId: pthread_self() of the thread that will call aclrtProcessReport.
aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
    NPU_RETURN_IF_ERROR(use("aclrtSubscribeReport"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, "aclrtSubscribeReport", &found));
    if (found->subscribed) {
        return fail(
            ACL_ERROR_RT_STREAM_SUBSCRIBE,
            "aclrtSubscribeReport: a thread processes this stream's callbacks already; unsubscribe it first");
    }
    found->subscribed = true;
    found->subscriber = threadId;
    return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
    NPU_RETURN_IF_ERROR(use("aclrtUnSubscribeReport"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, "aclrtUnSubscribeReport", &found));
    if (!found->subscribed || found->subscriber != threadId) {
        return fail(
            ACL_ERROR_RT_THREAD_SUBSCRIBE,
            "aclrtUnSubscribeReport: that thread is not subscribed to the stream; see aclrtSubscribeReport");
    }
    found->subscribed = false;
    return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType,
                             aclrtStream stream) {
    constexpr const char* name = "aclrtLaunchCallback";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(reinterpret_cast<void*>(fn), name, "fn"));
    if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": the block type is not one of CANN's");
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* found = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(stream, name, &found));
    if (!found->subscribed) {
        return fail(
            ACL_ERROR_RT_STREAM_NO_CB_REG,
            std::string(name) + ": no thread processes this stream's callbacks; call aclrtSubscribeReport");
    }
    const Callback callback{fn, userData, blockType == ACL_CALLBACK_BLOCK, found->subscriber};
    if (found->graph) return record_item(*found, callback, name);
    runtime.scheduler.enqueue(lock, *found, callback);
    return ACL_SUCCESS;
}

/// Runs one due callback on this thread; ACL_ERROR_WAIT_CALLBACK_TIMEOUT if none came within `timeout` ms
/// (-1: for ever).
aclError aclrtProcessReport(int32_t timeout) {
    constexpr const char* name = "aclrtProcessReport";
    NPU_RETURN_IF_ERROR(use(name));
    Deadline deadline;
    NPU_RETURN_IF_ERROR(read_timeout(timeout, name, &deadline));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    const auto due = runtime.scheduler.next_callback(lock, this_thread(), deadline);
    if (!due) {
        return fail(ACL_ERROR_WAIT_CALLBACK_TIMEOUT,
                    std::string(name) + ": no callback was due within " + std::to_string(timeout) + " ms");
    }
    lock.unlock();
    due->callback.function(due->callback.data);
    lock.lock();
    runtime.scheduler.callback_returned(lock, *due);
    return ACL_SUCCESS;
}

/// The function may block: it holds its stream, not the device.
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
    NPU_RETURN_IF_ERROR(require(reinterpret_cast<void*>(fn), "aclrtLaunchHostFunc", "fn"));
    return launch(stream, std::make_unique<HostFunction>(fn, args), Engine::host);
}
