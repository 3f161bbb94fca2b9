// Settings that change how operators run: system parameters (determinism), time-outs.
#include <array>
#include <atomic>

#include "runtime.h"

using namespace npu::emulator;

namespace {

constexpr std::size_t kParameters = ACL_OPT_ENABLE_KERNEL_EARLY_START + 1;

/// Of the process, all off to begin with; a context may have its own. Guarded by Scheduler::mutex.
std::array<int64_t, kParameters> process_parameters{};

aclError check(aclSysParamOpt opt, const char* function) {
    NPU_RETURN_IF_ERROR(usable(function));
    if (static_cast<std::size_t>(opt) < kParameters) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(function) + ": option " + std::to_string(opt) + " is not one of aclSysParamOpt");
}

aclError context_parameters(const char* function, Context** context) {
    NPU_RETURN_IF_ERROR(Runtime::get().need_context(function, context));
    (*context)->sys_params.resize(kParameters);
    return ACL_SUCCESS;
}

std::atomic<uint64_t> op_execute_timeout_us{547'000'000};

}  // namespace

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    NPU_RETURN_IF_ERROR(check(opt, "aclrtSetSysParamOpt"));
    Lock lock(Runtime::get().scheduler.mutex);
    process_parameters[static_cast<std::size_t>(opt)] = value;
    return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    NPU_RETURN_IF_ERROR(check(opt, "aclrtGetSysParamOpt"));
    NPU_RETURN_IF_ERROR(require(value, "aclrtGetSysParamOpt", "value"));
    Lock lock(Runtime::get().scheduler.mutex);
    *value = process_parameters[static_cast<std::size_t>(opt)];
    return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    NPU_RETURN_IF_ERROR(check(opt, "aclrtCtxSetSysParamOpt"));
    Lock lock(Runtime::get().scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(context_parameters("aclrtCtxSetSysParamOpt", &context));
    context->sys_params[static_cast<std::size_t>(opt)] = value;
    return ACL_SUCCESS;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    NPU_RETURN_IF_ERROR(check(opt, "aclrtCtxGetSysParamOpt"));
    NPU_RETURN_IF_ERROR(require(value, "aclrtCtxGetSysParamOpt", "value"));
    Lock lock(Runtime::get().scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(context_parameters("aclrtCtxGetSysParamOpt", &context));
    const auto index = static_cast<std::size_t>(opt);
    *value = context->sys_params[index].value_or(process_parameters[index]);
    return ACL_SUCCESS;
}

/// The limits are kept and readable; no operator is cut short by them, since a host thread cannot be stopped
/// and a host is slower than the hardware that they are made for.
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
    op_execute_timeout_us = static_cast<uint64_t>(timeout) * 1'000'000;
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
    op_execute_timeout_us = static_cast<uint64_t>(timeout) * 1'000;
    return ACL_SUCCESS;
}

/// timeout, actualTimeout: microseconds.
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
    op_execute_timeout_us = timeout;
    if (actualTimeout != nullptr) *actualTimeout = timeout;
    return ACL_SUCCESS;
}

aclError aclrtGetOpExecuteTimeout(uint32_t* const timeoutMs) {
    NPU_RETURN_IF_ERROR(require(timeoutMs, "aclrtGetOpExecuteTimeout", "timeoutMs"));
    *timeoutMs = static_cast<uint32_t>(op_execute_timeout_us / 1000);
    return ACL_SUCCESS;
}

/// seconds that a stream may wait for an event. As the limits above, it cuts nothing short: what a stream
/// waits for here is other work of this host, or a peer whose end is noticed by itself.
aclError aclrtSetOpWaitTimeout(uint32_t) { return usable("aclrtSetOpWaitTimeout"); }
