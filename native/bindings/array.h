// Arrays in device memory: what DeviceArray of npu_common.runtime is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/bind.h"
#include "cann/aclnn_handles.h"
#include "cann/dtype.h"
#include "cann/pool.h"

namespace npu::bindings {

/// Memory and the stream whose work wrote it last. Shared by an array and its views; changed with the GIL
/// held.
struct Storage {
    std::shared_ptr<void> owner;         ///< keeps the memory: a pool's block, or another framework's tensor
    std::shared_ptr<cann::Block> block;  ///< null for memory of another framework
    std::shared_ptr<cann::Stream> stream;
    int device;
    bool read_only = false;
};

struct Array {
    std::shared_ptr<Storage> storage;
    void* address;
    const cann::DType* dtype;
    std::vector<int64_t> shape, strides;  // strides in elements

    int64_t size() const;
    bool contiguous() const;
    cann::TensorView view() const { return {address, dtype->acl, shape, strides}; }
};

/// Row-major strides, in elements.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);

/// Makes work on `stream` run after what wrote the array. Throws std::invalid_argument: it is on another
/// device.
void use_after_writes(const Array& array, const std::shared_ptr<cann::Stream>& stream, const char* what);
/// Tells, after work on `stream` was put there, that it uses the array. With the GIL held.
void used_on(const Array& array, const std::shared_ptr<cann::Stream>& stream, bool written);

/// A capsule for `__dlpack__`: versioned (1.x) or of the protocol's first form.
py::capsule to_dlpack(const Array& array, bool versioned);
/// The memory of a capsule, taken over without a copy.
Array from_dlpack(const py::capsule& capsule, const std::shared_ptr<cann::Stream>& stream);

}  // namespace npu::bindings
