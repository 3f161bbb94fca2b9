// aclCreateTensor and its neighbours: CANN's meta functions over the handles of handles.h.
#include "opapi/handles.h"

#include "kernels/dtype.h"
#include "opapi/call.h"
#include "runtime/launch.h"

using npu::emulator::fail;

namespace {

constexpr aclnnStatus kNullPointer = 161001;  // ACLNN_ERR_PARAM_NULLPTR
constexpr aclnnStatus kInvalid = 161002;      // ACLNN_ERR_PARAM_INVALID

at::Scalar read_scalar(const void* value, at::ScalarType type) {
    switch (type) {  // the usual ones; callers make a scalar per call of an operator
        case at::kFloat:
            return *static_cast<const float*>(value);
        case at::kDouble:
            return *static_cast<const double*>(value);
        case at::kLong:
            return *static_cast<const int64_t*>(value);
        case at::kInt:
            return *static_cast<const int32_t*>(value);
        case at::kBool:
            return *static_cast<const bool*>(value);
        default:  // a zero-dimensional view reads every type ATen knows
            return at::from_blob(const_cast<void*>(value), {}, at::TensorOptions().dtype(type)).item();
    }
}

template <class Ref>
aclnnStatus copy_out(const Ref& values, int64_t** out, uint64_t* count, const char* what) {
    if (out == nullptr || count == nullptr)
        return fail(kNullPointer, std::string(what) + ": an output pointer is null");
    auto* copy = new int64_t[values.size()];  // CANN: the caller frees it with delete[]
    std::copy(values.begin(), values.end(), copy);
    *out = copy;
    *count = values.size();
    return 0;
}

template <class Handle>
aclnnStatus destroy(const Handle* handle) {
    delete handle;
    return 0;
}

template <class Handle>
aclnnStatus size_of(const Handle* handle, uint64_t* size, std::size_t count, const char* what) {
    if (handle == nullptr || size == nullptr)
        return fail(kNullPointer, std::string(what) + ": a pointer is null");
    *size = count;
    return 0;
}

}  // namespace

void aclTensor::set_view_shape(at::IntArrayRef shape) {
    sizes.assign(shape.begin(), shape.end());
    auto contiguous = c10::contiguous_strides(shape);
    strides.assign(contiguous.begin(), contiguous.end());
}

std::string aclTensor::refusal() const {
    if (!npu::emulator::is_strided(format)) {
        return "a tensor in the tiled format " + std::to_string(format) +
               "; the emulator computes on strided formats only (torch.npu.config.allow_internal_format = "
               "False)";
    }
    return std::string("a tensor of type ") + npu::emulator::data_type_name(type) +
           ", which ATen's CPU code does not have";
}

bool aclTensor::computable() const {
    return npu::emulator::scalar_type(type) && npu::emulator::is_strided(format);
}

const at::Tensor& aclTensor::tensor() {
    if (!view_.defined()) {
        const auto aten = npu::emulator::scalar_type(type).value();
        auto* first = static_cast<char*>(storage) + offset * static_cast<int64_t>(c10::elementSize(aten));
        view_ = at::for_blob(first, sizes)
                    .strides(strides)
                    .options(at::TensorOptions().dtype(aten))
                    .make_tensor();
    }
    return view_;
}

extern "C" {

NPU_EXPORT aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                      const int64_t* stride, int64_t offset, aclFormat format,
                                      const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
    auto handle = c10::make_intrusive<aclTensor>();
    aclInitTensor(handle.get(), viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                  storageDimsNum, tensorData);
    return handle.release();
}

NPU_EXPORT aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                                     aclDataType dataType, const int64_t* stride, int64_t offset,
                                     aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                                     void* tensorDataAddr) {
    if (tensor == nullptr || (viewDims == nullptr && viewDimsNum != 0)) {
        return fail(kNullPointer, "aclInitTensor: the tensor or its dims are null");
    }
    tensor->sizes.assign(viewDims, viewDims + viewDimsNum);
    if (stride != nullptr) {
        tensor->strides.assign(stride, stride + viewDimsNum);
    } else {
        auto contiguous = c10::contiguous_strides(tensor->sizes);
        tensor->strides.assign(contiguous.begin(), contiguous.end());
    }
    if (storageDims != nullptr) tensor->storage_sizes.assign(storageDims, storageDims + storageDimsNum);
    tensor->offset = offset;
    tensor->type = dataType;
    tensor->format = format;
    tensor->storage = tensorDataAddr;
    tensor->changed();
    return 0;
}

NPU_EXPORT aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
    if (tensor != nullptr) {
        c10::intrusive_ptr<aclTensor>::reclaim(
            const_cast<aclTensor*>(tensor));  // drops the creator's reference
    }
    return 0;
}

NPU_EXPORT aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
    auto type = npu::emulator::scalar_type(dataType);
    if (value == nullptr || !type) {
        fail(kInvalid, std::string("aclCreateScalar: no value, or the type is ") +
                           npu::emulator::data_type_name(dataType));
        return nullptr;
    }
    return new aclScalar{read_scalar(value, *type), dataType};
}

NPU_EXPORT aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
    return new aclIntArray{std::vector<int64_t>(value, value + size)};
}
NPU_EXPORT aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
    return new aclFloatArray{std::vector<double>(value, value + size)};
}
NPU_EXPORT aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
    return new aclBoolArray{npu::emulator::BoolList(value, value + size)};
}
NPU_EXPORT aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
    return new aclTensorList{{value, value + size}};
}
NPU_EXPORT aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
    return new aclScalarList{{value, value + size}};
}

NPU_EXPORT aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy(scalar); }
NPU_EXPORT aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy(array); }
NPU_EXPORT aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) { return destroy(array); }
NPU_EXPORT aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) { return destroy(array); }
NPU_EXPORT aclnnStatus aclDestroyTensorList(const aclTensorList* list) {
    if (list == nullptr) return 0;
    for (auto* tensor : list->tensors) aclDestroyTensor(tensor);
    return destroy(list);
}
NPU_EXPORT aclnnStatus aclDestroyScalarList(const aclScalarList* list) {
    if (list == nullptr) return 0;
    for (auto* scalar : list->scalars) aclDestroyScalar(scalar);
    return destroy(list);
}

NPU_EXPORT aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
    if (tensor == nullptr) return fail(kNullPointer, "aclGetViewShape: the tensor is null");
    return copy_out(tensor->sizes, viewDims, viewDimsNum, "aclGetViewShape");
}
NPU_EXPORT aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                                          uint64_t* storageDimsNum) {
    if (tensor == nullptr) return fail(kNullPointer, "aclGetStorageShape: the tensor is null");
    return copy_out(tensor->storage_sizes, storageDims, storageDimsNum, "aclGetStorageShape");
}
NPU_EXPORT aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                                         uint64_t* stridesNum) {
    if (tensor == nullptr) return fail(kNullPointer, "aclGetViewStrides: the tensor is null");
    return copy_out(tensor->strides, stridesValue, stridesNum, "aclGetViewStrides");
}
NPU_EXPORT aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
    if (tensor == nullptr || offset == nullptr)
        return fail(kNullPointer, "aclGetViewOffset: a pointer is null");
    *offset = tensor->offset;
    return 0;
}
NPU_EXPORT aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
    if (tensor == nullptr || format == nullptr) return fail(kNullPointer, "aclGetFormat: a pointer is null");
    *format = tensor->format;
    return 0;
}
NPU_EXPORT aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
    if (tensor == nullptr || dataType == nullptr)
        return fail(kNullPointer, "aclGetDataType: a pointer is null");
    *dataType = tensor->type;
    return 0;
}
NPU_EXPORT aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
    if (tensor == nullptr) return fail(kNullPointer, "aclSetRawTensorAddr: the tensor is null");
    tensor->storage = addr;
    tensor->changed();
    return 0;
}
NPU_EXPORT aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
    if (tensor == nullptr || addr == nullptr)
        return fail(kNullPointer, "aclGetRawTensorAddr: a pointer is null");
    *addr = tensor->storage;
    return 0;
}

NPU_EXPORT aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
    return size_of(array, size, array ? array->values.size() : 0, "aclGetIntArraySize");
}
NPU_EXPORT aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
    return size_of(array, size, array ? array->values.size() : 0, "aclGetFloatArraySize");
}
NPU_EXPORT aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
    return size_of(array, size, array ? array->values.size() : 0, "aclGetBoolArraySize");
}
NPU_EXPORT aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
    return size_of(list, size, list ? list->tensors.size() : 0, "aclGetTensorListSize");
}
NPU_EXPORT aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size) {
    return size_of(list, size, list ? list->scalars.size() : 0, "aclGetScalarListSize");
}

NPU_EXPORT aclnnStatus aclnnInit(const char*) {
    return 0;
}  // nothing to set up: a kernel is found when it is asked for
NPU_EXPORT aclnnStatus aclnnFinalize() { return 0; }

NPU_EXPORT aclnnStatus aclDumpOpTensors(const char*, const char*, aclTensor**, size_t, size_t, aclrtStream) {
    return fail(
        ACL_ERROR_FEATURE_UNSUPPORTED,
        "aclDumpOpTensors is not implemented by the emulator; copy the tensors to the host to look at them");
}
}
