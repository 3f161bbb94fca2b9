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
    at::Tensor tensor;  // a view of `storage`; undefined if the type or the format is none of ATen's

    void set_view_shape(at::IntArrayRef shape) override;
    void rebuild();               // after a change of the fields above
    std::string refusal() const;  // why `tensor` is undefined
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
    const npu::emulator::Kernel* kernel;
    npu::emulator::Args args;
    std::vector<std::size_t> tensor_slots =
        {};  // which args are tensors or tensor lists, for aclSetTensorAddr
    bool repeatable = false;
};
