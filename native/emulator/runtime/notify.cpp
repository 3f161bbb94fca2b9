// Notifies: a stream tells another that it got somewhere; the one that waits takes the notice.
#include "graph.h"
#include "runtime.h"

using namespace npu::emulator;

namespace {

aclError find_notify(aclrtNotify handle, const char* function, NotifyPtr* notify) {
    Runtime& runtime = Runtime::get();
    const auto found = runtime.notifies.find(handle);
    if (found == runtime.notifies.end()) {
        return fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
                    std::string(function) + ": the notify was destroyed or never created by this process");
    }
    *notify = found->second;
    return ACL_SUCCESS;
}

template <class Item>
aclError enqueue(aclrtNotify handle, aclrtStream stream_handle, const char* function) {
    NPU_RETURN_IF_ERROR(use(function));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    NotifyPtr notify;
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(find_notify(handle, function, &notify));
    NPU_RETURN_IF_ERROR(runtime.find(stream_handle, function, &stream));
    if (stream->graph) return record_item(*stream, Item{std::move(notify)}, function);
    runtime.scheduler.enqueue(lock, *stream, Item{std::move(notify)});
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flag) {
    constexpr const char* name = "aclrtCreateNotify";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(notify, name, "notify"));
    if (flag != ACL_NOTIFY_DEFAULT && flag != ACL_NOTIFY_DEVICE_USE_ONLY)
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": flag " + std::to_string(flag) + " is not CANN's");
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context(name, &context));
    auto created = std::make_shared<NotifyState>();
    created->id = runtime.next_id();
    created->device = context->device;
    *notify = created.get();
    runtime.notifies.emplace(created.get(), std::move(created));
    return ACL_SUCCESS;
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
    Runtime& runtime = Runtime::get();
    if (runtime.lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    Lock lock(runtime.scheduler.mutex);
    NotifyPtr found;
    NPU_RETURN_IF_ERROR(find_notify(notify, "aclrtDestroyNotify", &found));
    runtime.notifies.erase(notify);
    return ACL_SUCCESS;
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
    return enqueue<RecordNotify>(notify, stream, "aclrtRecordNotify");
}

/// timeout: milliseconds; only 0 (wait as long as it takes) is supported.
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
    if (timeout != 0)
        return unsupported("aclrtWaitAndResetNotify with a time-out", "Pass 0 to wait as long as it takes.");
    return enqueue<WaitNotify>(notify, stream, "aclrtWaitAndResetNotify");
}

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t* notifyId) {
    NPU_RETURN_IF_ERROR(usable("aclrtGetNotifyId"));
    NPU_RETURN_IF_ERROR(require(notifyId, "aclrtGetNotifyId", "notifyId"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    NotifyPtr found;
    NPU_RETURN_IF_ERROR(find_notify(notify, "aclrtGetNotifyId", &found));
    *notifyId = found->id;
    return ACL_SUCCESS;
}
