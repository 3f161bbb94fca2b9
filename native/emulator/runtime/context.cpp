// Contexts: which device and default stream a thread works on.
#include "runtime.h"

using namespace npu::emulator;

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
    NPU_RETURN_IF_ERROR(use("aclrtCreateContext"));
    NPU_RETURN_IF_ERROR(require(context, "aclrtCreateContext", "context"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Device* device = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find_device(deviceId, "aclrtCreateContext", &device));
    Context* created = runtime.new_context(*device);
    runtime.set_current(created);
    *context = created;
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context) {
    NPU_RETURN_IF_ERROR(usable("aclrtDestroyContext"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    auto* destroyed = static_cast<Context*>(context);
    if (!runtime.contexts.contains(context) || destroyed->primary) {
        return fail(
            ACL_ERROR_INVALID_PARAM,
            "aclrtDestroyContext: not a context made by aclrtCreateContext, or destroyed already; a primary "
            "context ends with aclrtResetDevice");
    }
    runtime.contexts.erase(context);
    runtime.streams.erase(destroyed->default_stream);
    runtime.scheduler.release(destroyed->default_stream);
    delete destroyed;
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    NPU_RETURN_IF_ERROR(use("aclrtSetCurrentContext"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    if (!runtime.contexts.contains(context)) {
        return fail(ACL_ERROR_INVALID_PARAM,
                    "aclrtSetCurrentContext: the context was destroyed or never created");
    }
    runtime.set_current(static_cast<Context*>(context));
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
    NPU_RETURN_IF_ERROR(usable("aclrtGetCurrentContext"));
    NPU_RETURN_IF_ERROR(require(context, "aclrtGetCurrentContext", "context"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* current = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context("aclrtGetCurrentContext", &current));
    *context = current;
    return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
    NPU_RETURN_IF_ERROR(use("aclrtCtxGetCurrentDefaultStream"));
    NPU_RETURN_IF_ERROR(require(stream, "aclrtCtxGetCurrentDefaultStream", "stream"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* current = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context("aclrtCtxGetCurrentDefaultStream", &current));
    *stream = current->default_stream;
    return ACL_SUCCESS;
}
