// The argument objects of aclnn (aclTensor, aclScalar, arrays, lists) as handles that destroy themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cann/aclnn_base.h"

namespace npu::cann {

/// A piece of device memory seen as a tensor. Strides in elements; they may be 0 or overlap, not be negative.
struct TensorView {
    void* address;
    aclDataType type;
    std::span<const int64_t> shape, strides;
};

struct DestroyHandle {
    void operator()(const aclTensor* handle) const;
    void operator()(const aclScalar* handle) const;
    void operator()(const aclIntArray* handle) const;
    void operator()(const aclFloatArray* handle) const;
    void operator()(const aclBoolArray* handle) const;
    void operator()(const aclTensorList* handle) const;
    void operator()(const aclScalarList* handle) const;
};
template <typename T>
using Handle = std::unique_ptr<T, DestroyHandle>;

// Each throws Error when CANN makes none. What they are made from may go afterwards, device memory excepted.
Handle<aclTensor> make_tensor(const TensorView& view);
/// `value` points to a value of that type.
Handle<aclScalar> make_scalar(const void* value, aclDataType type);
Handle<aclIntArray> make_array(std::span<const int64_t> values);
Handle<aclFloatArray> make_array(std::span<const float> values);
Handle<aclBoolArray> make_array(std::span<const uint8_t> values);
/// The list owns its members from then on.
Handle<aclTensorList> make_list(std::vector<Handle<aclTensor>> members);
Handle<aclScalarList> make_list(std::vector<Handle<aclScalar>> members);

}  // namespace npu::cann
