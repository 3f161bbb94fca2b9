// What a generated entry point does: collect the arguments, then prepare or execute. Free of ATen, so that
// two thousand entry points compile quickly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cann/acl.h"
#include "cann/aclnn_base.h"

#define NPU_EXPORT __attribute__((visibility("default")))

namespace npu::emulator {
struct Kernel;
}

namespace npu::opapi {

// One operator's entry point; looks its kernel up once.
struct Entry {
    explicit Entry(const char* name);
    const char* name;
    const npu::emulator::Kernel* kernel;  // null: not implemented
};

// The arguments of one call of xxxGetWorkspaceSize, copied: the caller may destroy its arrays before the
// operator runs.
class Call {
  public:
    explicit Call(const Entry& entry);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Call& operator<<(const aclTensor* tensor);
    Call& operator<<(const aclScalar* scalar);
    Call& operator<<(const aclIntArray* array);
    Call& operator<<(const aclBoolArray* array);
    Call& operator<<(const aclFloatArray* array);
    Call& operator<<(const aclTensorList* list);
    Call& operator<<(const aclScalarList* list);
    Call& operator<<(const char* text);
    Call& operator<<(aclDataType type);
    Call& operator<<(bool flag);
    Call& operator<<(double number);
    Call& operator<<(float number) { return *this << static_cast<double>(number); }
    Call& operator<<(int64_t number);
    Call& operator<<(int8_t number) { return *this << static_cast<int64_t>(number); }
    Call& operator<<(int32_t number) { return *this << static_cast<int64_t>(number); }
    Call& operator<<(uint32_t number) { return *this << static_cast<int64_t>(number); }
    Call& operator<<(uint64_t number) { return *this << static_cast<int64_t>(number); }

    // Hands out an executor. Errors: ACLNN_ERR_PARAM_NULLPTR, or ACLNN_ERR_INNER_NULLPTR-family when there is
    // no kernel.
    aclnnStatus prepare(uint64_t* workspace_size, aclOpExecutor** executor);

  private:
    const Entry& entry_;
    std::unique_ptr<aclOpExecutor> executor_;
    std::string refusal_;  // why the operator cannot be prepared
};

// Puts the executor's work on the stream. Takes ownership unless the executor is repeatable.
aclnnStatus execute(const char* name, aclOpExecutor* executor, aclrtStream stream);

}  // namespace npu::opapi
