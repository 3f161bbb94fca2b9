// Streams: creation, attributes, waiting.
#include "graph.h"
#include "runtime.h"
#include "timeout.h"

using namespace npu::emulator;

namespace {

constexpr uint32_t kLeastPriority = 7;  // CANN's range is 0 (first) to 7

aclError create(aclrtStream* stream, uint32_t priority, uint32_t flags, const char* function) {
    NPU_RETURN_IF_ERROR(use(function));
    NPU_RETURN_IF_ERROR(require(stream, function, "stream"));
    if (priority > kLeastPriority) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": priority " +
                                                 std::to_string(priority) +
                                                 " is out of range; use 0 (first) to 7 (last)");
    }
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context(function, &context));
    *stream = runtime.new_stream(*context->device, priority, flags);
    return ACL_SUCCESS;
}

aclError destroy(aclrtStream handle, const char* function) {
    if (Runtime::get().lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    NPU_RETURN_IF_ERROR(require(handle, function, "stream"));
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &stream));
    for (void* context : runtime.contexts) {
        if (static_cast<Context*>(context)->default_stream == stream) {
            return fail(ACL_ERROR_INVALID_PARAM,
                        std::string(function) + ": a context's default stream ends with its context");
        }
    }
    NPU_RETURN_IF_ERROR(refuse_captured(*stream, function));
    runtime.streams.erase(handle);
    runtime.scheduler.release(stream);
    return ACL_SUCCESS;
}

aclError synchronize(aclrtStream handle, const char* function, Deadline deadline) {
    NPU_RETURN_IF_ERROR(use(function));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &stream));
    NPU_RETURN_IF_ERROR(refuse_captured(*stream, function));
    const Device& device = *stream->device;
    const int32_t id = stream->id;
    if (!runtime.scheduler.wait(lock, *stream, deadline)) {
        return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, std::string(function) + ": stream " +
                                                          std::to_string(id) +
                                                          " still has work queued after the time-out");
    }
    return runtime.sticky(device, function);
}

/// Calls `access` with the stream under the lock.
template <class Access>
aclError with_stream(aclrtStream handle, const char* function, const void* output, Access access) {
    NPU_RETURN_IF_ERROR(usable(function));
    NPU_RETURN_IF_ERROR(require(output, function, "the output pointer"));
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Stream* stream = nullptr;
    NPU_RETURN_IF_ERROR(runtime.find(handle, function, &stream));
    return access(*stream);
}

aclError set_failure_mode(Stream& stream, uint64_t mode, const char* function) {
    if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": the failure mode is " +
                                                 std::to_string(mode) +
                                                 "; use ACL_CONTINUE_ON_FAILURE or ACL_STOP_ON_FAILURE");
    }
    stream.failure_mode = mode;
    return ACL_SUCCESS;
}

aclError set_overflow_switch(uint32_t on, const char* function) {
    if (on == 0) return ACL_SUCCESS;
    return unsupported(function,
                       "It computes infinities and NaN and detects no overflow; leave the switch off.");
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) { return create(stream, 0, 0, "aclrtCreateStream"); }

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
    return create(stream, priority, flag, "aclrtCreateStreamWithConfig");
}

/// Queued work still runs to its end; the handle is gone at once.
aclError aclrtDestroyStream(aclrtStream stream) { return destroy(stream, "aclrtDestroyStream"); }

aclError aclrtDestroyStreamForce(aclrtStream stream) { return destroy(stream, "aclrtDestroyStreamForce"); }

aclError aclrtSynchronizeStream(aclrtStream stream) {
    return synchronize(stream, "aclrtSynchronizeStream", std::nullopt);
}

/// timeout: milliseconds, -1 for ever.
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    Deadline deadline;
    NPU_RETURN_IF_ERROR(read_timeout(timeout, "aclrtSynchronizeStreamWithTimeout", &deadline));
    return synchronize(stream, "aclrtSynchronizeStreamWithTimeout", deadline);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
    return with_stream(stream, "aclrtStreamQuery", status, [&](Stream& s) -> aclError {
        NPU_RETURN_IF_ERROR(refuse_captured(s, "aclrtStreamQuery"));
        *status = s.idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
        return ACL_SUCCESS;
    });
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
    return with_stream(stream, "aclrtStreamGetId", streamId, [&](Stream& s) {
        *streamId = s.id;
        return ACL_SUCCESS;
    });
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority) {
    return with_stream(stream, "aclrtStreamGetPriority", priority, [&](Stream& s) {
        *priority = s.priority;
        return ACL_SUCCESS;
    });
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags) {
    return with_stream(stream, "aclrtStreamGetFlags", flags, [&](Stream& s) {
        *flags = s.flags;
        return ACL_SUCCESS;
    });
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority) {
    NPU_RETURN_IF_ERROR(usable("aclrtDeviceGetStreamPriorityRange"));
    if (leastPriority != nullptr) *leastPriority = kLeastPriority;
    if (greatestPriority != nullptr) *greatestPriority = 0;
    return ACL_SUCCESS;
}

/// STOP (the default): nothing queued after a failed task is run. CONTINUE: later tasks of this stream still
/// are.
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    return with_stream(stream, "aclrtSetStreamFailureMode", stream,
                       [&](Stream& s) { return set_failure_mode(s, mode, "aclrtSetStreamFailureMode"); });
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
    return with_stream(stream, "aclrtSetStreamOverflowSwitch", &flag,
                       [&](Stream&) { return set_overflow_switch(flag, "aclrtSetStreamOverflowSwitch"); });
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
    return with_stream(stream, "aclrtGetStreamOverflowSwitch", flag, [&](Stream&) {
        *flag = 0;
        return ACL_SUCCESS;
    });
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue* value) {
    constexpr const char* name = "aclrtSetStreamAttribute";
    return with_stream(stream, name, value, [&](Stream& s) -> aclError {
        switch (stmAttrType) {
            case ACL_STREAM_ATTR_FAILURE_MODE:
                return set_failure_mode(s, value->failureMode, name);
            case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
                return set_overflow_switch(value->overflowSwitch, name);
            case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
                s.custom_tag = value->userCustomTag;
                return ACL_SUCCESS;
            case ACL_STREAM_ATTR_CACHE_OP_INFO:  // what a captured graph would say of its operators
                s.cache_op_info = value->cacheOpInfoSwitch;
                return ACL_SUCCESS;
            case ACL_STREAM_ATTR_PRIORITY:
                if (value->streamPriority <= kLeastPriority) {
                    s.priority = value->streamPriority;
                    return ACL_SUCCESS;
                }
        }
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": attribute " +
                                                 std::to_string(stmAttrType) +
                                                 " or its value is not one of CANN's");
    });
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue* value) {
    constexpr const char* name = "aclrtGetStreamAttribute";
    return with_stream(stream, name, value, [&](Stream& s) -> aclError {
        *value = {};
        switch (stmAttrType) {
            case ACL_STREAM_ATTR_FAILURE_MODE:
                value->failureMode = s.failure_mode;
                return ACL_SUCCESS;
            case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
                return ACL_SUCCESS;
            case ACL_STREAM_ATTR_CACHE_OP_INFO:
                value->cacheOpInfoSwitch = s.cache_op_info;
                return ACL_SUCCESS;
            case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
                value->userCustomTag = s.custom_tag;
                return ACL_SUCCESS;
            case ACL_STREAM_ATTR_PRIORITY:
                value->streamPriority = s.priority;
                return ACL_SUCCESS;
        }
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": attribute " +
                                                 std::to_string(stmAttrType) + " is not one of CANN's");
    });
}
