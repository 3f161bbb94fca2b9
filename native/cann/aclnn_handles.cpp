#include "cann/aclnn_handles.h"

#include "cann/api.h"

namespace npu::cann {
namespace {

template <typename T>
Handle<T> owned(T* handle, const char* call, const char* doing) {
    // These functions give null instead of a code; CANN's sentence says why.
    if (handle == nullptr) throw Error(Family::acl, ACL_ERROR_INVALID_PARAM, call, doing);
    return Handle<T>(handle);
}

// Elements from the first to the last that the view reaches: the storage that CANN is told of.
int64_t extent(const TensorView& view) {
    int64_t last = 0;
    for (std::size_t i = 0; i < view.shape.size(); ++i) {
        if (view.shape[i] == 0) return 0;
        last += (view.shape[i] - 1) * view.strides[i];
    }
    return last + 1;
}

template <typename List, typename T>
Handle<List> listed(std::vector<Handle<T>> members, Function<List*(const T* const*, uint64_t)>& create) {
    std::vector<const T*> raw;
    for (const Handle<T>& member : members) raw.push_back(member.get());
    Handle<List> list = owned(create(raw.data(), raw.size()), create.name(), "making a list of arguments");
    for (Handle<T>& member : members) static_cast<void>(member.release());
    return list;
}

}  // namespace

void DestroyHandle::operator()(const aclTensor* handle) const { api::aclDestroyTensor(handle); }
void DestroyHandle::operator()(const aclScalar* handle) const { api::aclDestroyScalar(handle); }
void DestroyHandle::operator()(const aclIntArray* handle) const { api::aclDestroyIntArray(handle); }
void DestroyHandle::operator()(const aclFloatArray* handle) const { api::aclDestroyFloatArray(handle); }
void DestroyHandle::operator()(const aclBoolArray* handle) const { api::aclDestroyBoolArray(handle); }
void DestroyHandle::operator()(const aclTensorList* handle) const { api::aclDestroyTensorList(handle); }
void DestroyHandle::operator()(const aclScalarList* handle) const { api::aclDestroyScalarList(handle); }

Handle<aclTensor> make_tensor(const TensorView& view) {
    const int64_t storage = extent(view);
    return owned(api::aclCreateTensor(view.shape.data(), view.shape.size(), view.type, view.strides.data(), 0,
                                      ACL_FORMAT_ND, &storage, 1, view.address),
                 "aclCreateTensor", "describing a tensor");
}

Handle<aclScalar> make_scalar(const void* value, aclDataType type) {
    return owned(api::aclCreateScalar(const_cast<void*>(value), type), "aclCreateScalar", "making a scalar");
}

Handle<aclIntArray> make_array(std::span<const int64_t> values) {
    return owned(api::aclCreateIntArray(values.data(), values.size()), "aclCreateIntArray",
                 "making an array");
}

Handle<aclFloatArray> make_array(std::span<const float> values) {
    return owned(api::aclCreateFloatArray(values.data(), values.size()), "aclCreateFloatArray",
                 "making an array");
}

Handle<aclBoolArray> make_array(std::span<const uint8_t> values) {
    static_assert(sizeof(bool) == 1);
    return owned(api::aclCreateBoolArray(reinterpret_cast<const bool*>(values.data()), values.size()),
                 "aclCreateBoolArray", "making an array");
}

Handle<aclTensorList> make_list(std::vector<Handle<aclTensor>> members) {
    return listed<aclTensorList>(std::move(members), api::aclCreateTensorList);
}

Handle<aclScalarList> make_list(std::vector<Handle<aclScalar>> members) {
    return listed<aclScalarList>(std::move(members), api::aclCreateScalarList);
}

}  // namespace npu::cann
