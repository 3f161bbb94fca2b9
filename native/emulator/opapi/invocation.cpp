// The two phases: Call collects and hands out an executor, execute() puts its work on a stream.
#include <ATen/Parallel.h>
#include <omp.h>

#include <optional>

#include "kernels/dtype.h"
#include "opapi/call.h"
#include "opapi/handles.h"
#include "runtime/launch.h"

using npu::emulator::Arg;
using npu::emulator::Args;
using npu::emulator::fail;
using npu::emulator::Kernel;
using npu::emulator::TensorArg;

namespace npu::opapi {
namespace {

constexpr aclnnStatus kNullPointer = 161001;   // ACLNN_ERR_PARAM_NULLPTR
constexpr aclnnStatus kInvalid = 161002;       // ACLNN_ERR_PARAM_INVALID
constexpr aclnnStatus kNoKernel = 561003;      // ACLNN_ERR_INNER_FIND_KERNEL_ERROR
constexpr aclnnStatus kRuntimeError = 361001;  // ACLNN_ERR_RUNTIME_ERROR

std::size_t bytes(const Arg& arg) {
    if (auto* tensor = std::get_if<TensorArg>(&arg))
        return tensor->tensor.defined() ? tensor->tensor.nbytes() : 0;
    if (auto* list = std::get_if<std::vector<at::Tensor>>(&arg)) {
        std::size_t sum = 0;
        for (auto& tensor : *list) sum += tensor.defined() ? tensor.nbytes() : 0;
        return sum;
    }
    return 0;
}

/// While it lives, loops started by this thread stay on it. The compute engine owns the one OpenMP team; a
/// tiny task that runs on its caller's thread would start a second one, whose threads fight for the cores.
class OneThread {
  public:
    OneThread() {
        at::internal::lazy_init_num_threads();  // else the first loop of this thread undoes the limit
        before_ = omp_get_max_threads();
        omp_set_num_threads(1);
    }
    ~OneThread() { omp_set_num_threads(before_); }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

  private:
    int before_;
};

class Operation final : public npu::emulator::Task {
  public:
    Operation(const Kernel& kernel, Args args) : kernel_(kernel), args_(std::move(args)) {
        for (auto& arg : args_) work_ += bytes(arg);
    }
    void run() override {
        std::optional<OneThread> here;
        if (!npu::emulator::on_compute_engine()) here.emplace();
        npu::emulator::run(kernel_, args_);
    }
    const char* name() const override { return kernel_.name.c_str(); }
    std::size_t work() const override { return work_; }

  private:
    const Kernel& kernel_;
    Args args_;
    std::size_t work_ = 0;
};

TensorArg tensor_arg(const aclTensor* handle) {
    auto* counted = const_cast<aclTensor*>(handle);
    return {{}, c10::intrusive_ptr<npu::emulator::ShapeSink>::reclaim_copy(counted)};
}

void make_tensors(aclOpExecutor& executor) {
    for (auto slot : executor.tensor_slots) {
        auto* arg = std::get_if<TensorArg>(&executor.args[slot]);
        if (arg != nullptr && arg->sink && !arg->tensor.defined())
            arg->tensor = static_cast<aclTensor*>(arg->sink.get())->tensor();
    }
}

}  // namespace

Entry::Entry(const char* entry_name) : name(entry_name), kernel(npu::emulator::find_aclnn(entry_name)) {}

Call::Call(const Entry& entry) : entry_(entry) {
    if (entry.kernel == nullptr) return;
    executor_.reset(new aclOpExecutor{entry.name, entry.kernel, {}});
    executor_->args.reserve(entry.kernel->letters.size() +
                            1);  // + 1: a derived in-place form appends its output
}
Call::~Call() = default;

Call& Call::operator<<(const aclTensor* tensor) {
    if (!executor_) return *this;
    executor_->tensor_slots.push_back(executor_->args.size());
    if (tensor == nullptr) {
        executor_->args.emplace_back(TensorArg{});
    } else {
        if (!tensor->computable() && refusal_.empty()) refusal_ = tensor->refusal();
        executor_->args.emplace_back(tensor_arg(tensor));
    }
    return *this;
}
Call& Call::operator<<(const aclScalar* scalar) {
    if (executor_) executor_->args.emplace_back(scalar ? Arg(scalar->value) : Arg());
    return *this;
}
Call& Call::operator<<(const aclIntArray* array) {
    if (executor_) executor_->args.emplace_back(array ? Arg(array->values) : Arg());
    return *this;
}
Call& Call::operator<<(const aclBoolArray* array) {
    if (executor_) executor_->args.emplace_back(array ? Arg(array->values) : Arg());
    return *this;
}
Call& Call::operator<<(const aclFloatArray* array) {
    if (executor_) executor_->args.emplace_back(array ? Arg(array->values) : Arg());
    return *this;
}
Call& Call::operator<<(const aclTensorList* list) {
    if (!executor_) return *this;
    executor_->tensor_slots.push_back(executor_->args.size());
    if (list == nullptr) {
        executor_->args.emplace_back();
        return *this;
    }
    std::vector<at::Tensor> tensors;
    tensors.reserve(list->tensors.size());
    for (auto* item : list->tensors) {
        auto* tensor = const_cast<aclTensor*>(item);
        const bool computable = tensor != nullptr && tensor->computable();
        if (tensor != nullptr && !computable && refusal_.empty()) refusal_ = tensor->refusal();
        tensors.push_back(computable ? tensor->tensor() : at::Tensor());
    }
    executor_->args.emplace_back(std::move(tensors));
    return *this;
}
Call& Call::operator<<(const aclScalarList* list) {
    if (!executor_) return *this;
    if (list == nullptr) {
        executor_->args.emplace_back();
        return *this;
    }
    std::vector<at::Scalar> scalars;
    for (auto* scalar : list->scalars) scalars.push_back(scalar->value);
    executor_->args.emplace_back(std::move(scalars));
    return *this;
}
Call& Call::operator<<(const char* text) {
    if (executor_) executor_->args.emplace_back(text ? Arg(std::string(text)) : Arg());
    return *this;
}
Call& Call::operator<<(aclDataType type) {
    if (!executor_) return *this;
    auto aten = npu::emulator::scalar_type(type);
    executor_->args.emplace_back(aten ? Arg(*aten) : Arg());
    return *this;
}
Call& Call::operator<<(bool flag) {
    if (executor_) executor_->args.emplace_back(flag);
    return *this;
}
Call& Call::operator<<(double number) {
    if (executor_) executor_->args.emplace_back(number);
    return *this;
}
Call& Call::operator<<(int64_t number) {
    if (executor_) executor_->args.emplace_back(number);
    return *this;
}

aclnnStatus Call::prepare(uint64_t* workspace_size, aclOpExecutor** executor) {
    // Before anything is queued: torch_npu's queue thread does not survive a fork, so nobody would launch it.
    if (npu::emulator::usable(entry_.name) != 0) return kRuntimeError;
    if (workspace_size == nullptr || executor == nullptr) {
        return fail(kNullPointer,
                    std::string(entry_.name) + "GetWorkspaceSize: workspaceSize or executor is null");
    }
    aclnnStatus refused = 0;
    std::string sentence = entry_.name;
    if (!executor_) {
        refused = kNoKernel;
        sentence += " is not implemented by the host emulator of CANN; docs/operators.md lists what is";
    } else if (!refusal_.empty()) {
        refused = kInvalid;
        sentence += " was given " + refusal_;
    }
    if (refused != 0) {
        if (!npu::emulator::on_launch_thread()) return fail(refused, std::move(sentence));
        executor_.reset(new aclOpExecutor{entry_.name, nullptr, {}, {}, false, refused, std::move(sentence)});
    }
    *workspace_size = 0;  // kernels take their scratch memory from the host
    *executor = executor_.release();
    return 0;
}

aclnnStatus execute(const char* name, aclOpExecutor* executor, aclrtStream stream) {
    if (executor == nullptr) return fail(kNullPointer, std::string(name) + ": the executor is null");
    if (std::string_view(executor->name) != name) {
        return fail(kInvalid, std::string(name) + " was given the executor of " + executor->name);
    }
    if (executor->kernel == nullptr) {
        const std::unique_ptr<aclOpExecutor> refused(executor);
        return npu::emulator::refuse(stream, refused->refusal_code, std::move(refused->refusal));
    }
    make_tensors(*executor);
    std::unique_ptr<npu::emulator::Task> task;
    if (executor->repeatable) {
        task = std::make_unique<Operation>(*executor->kernel, executor->args);
    } else {
        task = std::make_unique<Operation>(*executor->kernel, std::move(executor->args));
        delete executor;
    }
    // The reason is in aclGetRecentErrMsg already.
    return npu::emulator::launch(stream, std::move(task)) == 0 ? 0 : kRuntimeError;
}

}  // namespace npu::opapi

namespace {

// The index-th tensor argument (a list counts once) of a repeatable executor.
Arg* tensor_slot(aclOpExecutor* executor, std::size_t index) {
    if (executor == nullptr || index >= executor->tensor_slots.size()) return nullptr;
    return &executor->args[executor->tensor_slots[index]];
}

aclnnStatus set_address(const char* what, aclOpExecutor* executor, std::size_t index, aclTensor* tensor,
                        void* addr) {
    auto* slot = tensor_slot(executor, index);
    if (slot == nullptr || tensor == nullptr || !std::holds_alternative<TensorArg>(*slot)) {
        return fail(161002,
                    std::string(what) + ": the executor has no tensor argument " + std::to_string(index));
    }
    tensor->storage = addr;
    tensor->changed();
    *slot = TensorArg{tensor->tensor(), std::get<TensorArg>(*slot).sink};
    return 0;
}

aclnnStatus set_list_address(const char* what, aclOpExecutor* executor, std::size_t index, std::size_t item,
                             aclTensorList* list, void* addr) {
    auto* slot = tensor_slot(executor, index);
    if (slot == nullptr || list == nullptr || item >= list->tensors.size() ||
        !std::holds_alternative<std::vector<at::Tensor>>(*slot)) {
        return fail(161002, std::string(what) + ": the executor has no item " + std::to_string(item) +
                                " of a tensor list " + std::to_string(index));
    }
    auto* tensor = const_cast<aclTensor*>(list->tensors[item]);
    tensor->storage = addr;
    tensor->changed();
    std::get<std::vector<at::Tensor>>(*slot)[item] = tensor->tensor();
    return 0;
}

// Inputs come first and outputs last in every aclnn prototype, so an output's index counts from the first
// tensor that the caller names as one; only the executor's own order (aclSetTensorAddr) is unambiguous
// without the prototype.
aclnnStatus set_by_handle(const char* what, aclOpExecutor* executor, aclTensor* tensor, void* addr) {
    if (executor == nullptr || tensor == nullptr)
        return fail(161001, std::string(what) + ": a pointer is null");
    for (auto index : executor->tensor_slots) {
        auto* arg = std::get_if<TensorArg>(&executor->args[index]);
        if (arg == nullptr || arg->sink.get() != tensor) continue;
        tensor->storage = addr;
        tensor->changed();
        arg->tensor = tensor->tensor();
        return 0;
    }
    return fail(161002, std::string(what) + ": " + executor->name + " was not prepared with this tensor");
}

}  // namespace

extern "C" {

NPU_EXPORT aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    if (executor == nullptr) return fail(161001, "aclSetAclOpExecutorRepeatable: the executor is null");
    executor->repeatable = true;
    return 0;
}
NPU_EXPORT aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    delete executor;
    return 0;
}
NPU_EXPORT aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t, aclTensor* tensor,
                                             void* addr) {
    return set_by_handle("aclSetInputTensorAddr", executor, tensor, addr);
}
NPU_EXPORT aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t, aclTensor* tensor,
                                              void* addr) {
    return set_by_handle("aclSetOutputTensorAddr", executor, tensor, addr);
}
NPU_EXPORT aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                        void* addr) {
    return set_address("aclSetTensorAddr", executor, index, tensor, addr);
}
NPU_EXPORT aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                    const size_t relativeIndex, aclTensorList* tensors,
                                                    void* addr) {
    return set_list_address("aclSetDynamicInputTensorAddr", executor, irIndex, relativeIndex, tensors, addr);
}
NPU_EXPORT aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                                     const size_t relativeIndex, aclTensorList* tensors,
                                                     void* addr) {
    return set_list_address("aclSetDynamicOutputTensorAddr", executor, irIndex, relativeIndex, tensors, addr);
}
NPU_EXPORT aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor* executor, size_t irIndex,
                                               const size_t relativeIndex, aclTensorList* tensors,
                                               void* addr) {
    return set_list_address("aclSetDynamicTensorAddr", executor, irIndex, relativeIndex, tensors, addr);
}
}
