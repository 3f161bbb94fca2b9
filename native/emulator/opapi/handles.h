// The objects behind aclnn's opaque handles.
#pragma once

#include <string>
#include <vector>

#include "cann/acl.h"
#include "cann/aclnn_base.h"
#include "kernels/kernel.h"

// Thread-safety: as in CANN, a handle is used by one thread at a time; the operator in flight holds its own
// references.
struct aclTensor : npu::emulator::ShapeSink {
    c10::SmallVector<int64_t, 6> sizes, strides, storage_sizes;
    int64_t offset = 0;  // in elements
    aclDataType type = ACL_FLOAT;
    aclFormat format = ACL_FORMAT_ND;
    void* storage = nullptr;

    // A view of `storage`, made when it is first asked for: by the thread that launches the operator, which
    // is not the one that prepares it where torch_npu's task queue is on. Needs computable().
    const at::Tensor& tensor();
    bool computable() const;           // false: the type or the format is none of ATen's
    std::string refusal() const;       // why it is not computable
    void changed() { view_.reset(); }  // after a change of the fields above
    void set_view_shape(at::IntArrayRef shape) override;

  private:
    at::Tensor view_;
};

struct aclScalar {
    at::Scalar value;
    aclDataType type;
};

struct aclIntArray {
    std::vector<int64_t> values;
};
struct aclFloatArray {
    std::vector<double> values;
};
struct aclBoolArray {
    npu::emulator::BoolList values;
};
struct aclTensorList {
    std::vector<const aclTensor*> tensors;  // owned, as in CANN: destroying the list destroys them
};
struct aclScalarList {
    std::vector<const aclScalar*> scalars;  // owned
};

struct aclOpExecutor {
    const char* name;
    const npu::emulator::Kernel* kernel;  // nullptr: refused, see refusal
    npu::emulator::Args args;
    c10::SmallVector<std::size_t, 8> tensor_slots = {};  // which args are tensors or lists of them
    bool repeatable = false;
    aclnnStatus refusal_code = 0;
    std::string refusal = {};
};
