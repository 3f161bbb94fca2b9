// libacl_op_compiler: compile options, and the two calls that run an operator by its GE name.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "aclop/call.h"
#include "runtime/launch.h"

using npu::emulator::fail;
using npu::emulator::unsupported;

namespace {

/// The options of one process. None changes what the emulator computes: kernels are ATen's, never compiled,
/// always deterministic and never HF32. Kept because callers read them back (torch_npu: ACL_OP_JIT_COMPILE).
class CompileOptions {
  public:
    aclError set(aclCompileOpt option, const char* value) {
        if (!known(option)) return unknown("aclSetCompileopt", option);
        if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclSetCompileopt: the value is null");
        std::lock_guard lock(mutex_);
        values_[option] = value;
        return ACL_SUCCESS;
    }
    std::optional<std::string> get(aclCompileOpt option) {
        std::lock_guard lock(mutex_);
        auto found = values_.find(option);
        return found == values_.end() ? std::nullopt : std::optional(found->second);
    }
    static aclError unknown(const char* function, aclCompileOpt option) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": there is no compile option " +
                                                 std::to_string(static_cast<unsigned>(option)) +
                                                 "; see aclCompileOpt");
    }

  private:
    static bool known(aclCompileOpt option) { return option <= ACL_OP_DEBUG_OPTION; }

    std::mutex mutex_;
    std::map<aclCompileOpt, std::string> values_{{ACL_OP_JIT_COMPILE, "disable"},
                                                 {ACL_OP_DETERMINISTIC, "0"}};
};

CompileOptions& options() {
    static CompileOptions instance;
    return instance;
}

/// The adapter, loaded once. On failure `reason` says why, on every call.
npu::aclop::AdapterFunction* adapter(std::string& reason) {
    static std::mutex mutex;
    static npu::aclop::AdapterFunction* function = nullptr;
    std::lock_guard lock(mutex);
    if (function != nullptr) return function;
    void* library =
        dlopen(npu::aclop::kAdapterLibrary, RTLD_NOW | RTLD_LOCAL);  // for good: kernels have threads
    if (library != nullptr) {
        function =
            reinterpret_cast<npu::aclop::AdapterFunction*>(dlsym(library, npu::aclop::kAdapterFunction));
    }
    if (function == nullptr) {
        const char* error = dlerror();
        reason = error ? error : "no reason given";
    }
    return function;
}

aclError execute(const char* function, npu::aclop::Call call, int input_count, int output_count) {
    if (call.type == nullptr)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": opType is null");
    if (input_count < 0 || output_count < 0)
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(function) + " " + call.type + ": a negative number of tensors");
    const auto absent = [](const auto& pointers) { return std::ranges::count(pointers, nullptr) != 0; };
    if (absent(call.input_descs) || absent(call.inputs) || absent(call.output_descs) || absent(call.outputs))
        return fail(
            ACL_ERROR_INVALID_PARAM,
            std::string(function) + " " + call.type +
                ": a descriptor or a buffer is null; an absent optional input is a descriptor of type "
                "ACL_DT_UNDEFINED with an empty buffer");
    std::string reason;
    auto* run = adapter(reason);
    if (run == nullptr)
        return npu::emulator::fail(
            ACL_ERROR_INTERNAL_ERROR,
            std::string(function) + " " + call.type +
                ": the emulator computes operators with ATen, which could not be loaded (" + reason +
                "); import torch (CPU build) before the first operator");
    return run(call);
}

template <class T>
std::span<T> view(T* values, int count) {
    return values == nullptr || count <= 0 ? std::span<T>()
                                           : std::span<T>(values, static_cast<std::size_t>(count));
}

}  // namespace

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) { return options().set(opt, value); }

size_t aclGetCompileoptSize(aclCompileOpt opt) {
    auto value = options().get(opt);
    return value ? value->size() + 1 : 0;
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
    auto stored = options().get(opt);
    if (!stored) return CompileOptions::unknown("aclGetCompileopt (or it was never set)", opt);
    if (value == nullptr || length < stored->size() + 1)
        return fail(ACL_ERROR_INVALID_PARAM,
                    "aclGetCompileopt: the value takes " + std::to_string(stored->size() + 1) +
                        " bytes, the buffer has " + std::to_string(length) + "; ask aclGetCompileoptSize");
    std::memcpy(value, stored->c_str(), stored->size() + 1);
    return ACL_SUCCESS;
}

aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
                                const aclDataBuffer* const inputs[], int numOutputs,
                                const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
                                const aclopAttr* attr, aclopEngineType, aclopCompileType, const char*,
                                aclrtStream stream) {
    return execute("aclopCompileAndExecute",
                   {opType, view(inputDesc, numInputs), view(inputs, numInputs), view(outputDesc, numOutputs),
                    view(outputs, numOutputs), attr, stream},
                   numInputs, numOutputs);
}

aclError aclopCompileAndExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[],
                                  aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
                                  aclDataBuffer* outputs[], aclopAttr* attr, aclopEngineType,
                                  aclopCompileType, const char*, aclrtStream stream) {
    return execute("aclopCompileAndExecuteV2",
                   {opType, view<const aclTensorDesc* const>(inputDesc, numInputs),
                    view<const aclDataBuffer* const>(inputs, numInputs),
                    view<const aclTensorDesc* const>(outputDesc, numOutputs),
                    view<aclDataBuffer* const>(outputs, numOutputs), attr, stream, outputDesc},
                   numInputs, numOutputs);
}

aclError aclopCompile(const char* opType, int, const aclTensorDesc* const[], int,
                      const aclTensorDesc* const[], const aclopAttr*, aclopEngineType, aclopCompileType,
                      const char*) {
    return unsupported("aclopCompile", opType ? "Call aclopCompileAndExecute; nothing is compiled here."
                                              : "Its opType is null.");
}

aclError aclopSetCompileFlag(aclOpCompileFlag flag) {
    if (flag != ACL_OP_COMPILE_DEFAULT && flag != ACL_OP_COMPILE_FUZZ)
        return fail(ACL_ERROR_INVALID_PARAM, "aclopSetCompileFlag: neither ACL_OP_COMPILE_DEFAULT nor _FUZZ");
    return ACL_SUCCESS;  // both mean the same where every shape runs without compiling
}

aclError aclGenGraphAndDumpForOp(const char*, int, const aclTensorDesc* const[], const aclDataBuffer* const[],
                                 int, const aclTensorDesc* const[], aclDataBuffer* const[], const aclopAttr*,
                                 aclopEngineType, const char*, const aclGraphDumpOption*) {
    return unsupported("aclGenGraphAndDumpForOp", "Tuning (AOE) needs the real compiler.");
}
aclGraphDumpOption* aclCreateGraphDumpOpt() {
    unsupported("aclCreateGraphDumpOpt", "Tuning (AOE) needs the real compiler.");
    return nullptr;
}
aclError aclDestroyGraphDumpOpt(const aclGraphDumpOption*) {
    return unsupported("aclDestroyGraphDumpOpt", "Tuning (AOE) needs the real compiler.");
}
