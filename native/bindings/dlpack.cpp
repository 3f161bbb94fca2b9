#include "bindings/dlpack.h"

#include "bindings/array.h"

namespace npu::bindings {
namespace {

// The exchanged structure and what it points to. Its deleter may run in any thread, without the GIL.
template <typename T>
struct Export {
    T managed{};
    Array array;
};

template <typename T>
py::capsule export_as(const Array& array) {
    auto owned = std::make_unique<Export<T>>(Export<T>{{}, array});
    T& managed = owned->managed;
    managed.tensor = {.data = owned->array.address,
                      .device = {dlpack::kExtDev, array.storage->device},
                      .ndim = static_cast<int32_t>(array.shape.size()),
                      .dtype = {array.dtype->dlpack, static_cast<uint8_t>(8 * array.dtype->size), 1},
                      .shape = owned->array.shape.data(),
                      .strides = owned->array.strides.data(),
                      .byte_offset = 0};
    managed.context = owned.get();
    managed.deleter = [](T* self) { delete static_cast<Export<T>*>(self->context); };
    if constexpr (std::is_same_v<T, dlpack::Versioned>) {
        managed.major = 1;
        managed.minor = 1;
        managed.flags = array.storage->read_only ? dlpack::kReadOnly : 0;
    }
    // Nobody took it over: its name is still the first one.
    const auto destroy = [](PyObject* capsule) {
        constexpr const T* form = nullptr;
        if (!PyCapsule_IsValid(capsule, dlpack::name_of(form))) return;
        auto* unused = static_cast<T*>(PyCapsule_GetPointer(capsule, dlpack::name_of(form)));
        unused->deleter(unused);
    };
    PyObject* capsule = PyCapsule_New(&managed, dlpack::name_of(&managed), destroy);
    if (capsule == nullptr) throw py::error_already_set();
    static_cast<void>(owned.release());
    return py::reinterpret_steal<py::capsule>(capsule);
}

template <typename T>
Array take_over(const py::capsule& capsule, T* managed, bool read_only,
                const std::shared_ptr<cann::Stream>& stream) {
    const dlpack::Tensor& tensor = managed->tensor;
    if (tensor.device.type != dlpack::kExtDev)
        throw std::invalid_argument(
            "the tensor is on a device of DLPack's type " + std::to_string(tensor.device.type) +
            ", and an NPU is 12 (kDLExtDev); copy host data with npu_common.runtime.asarray");
    if (tensor.device.id != stream->device())
        throw std::invalid_argument("the tensor is on npu:" + std::to_string(tensor.device.id) +
                                    ", the stream on npu:" + std::to_string(stream->device()));
    const cann::DType* dtype = cann::find_dtype_of_dlpack(tensor.dtype.code, tensor.dtype.bits);
    if (dtype == nullptr || tensor.dtype.lanes != 1)
        throw std::invalid_argument(
            "arrays cannot have DLPack's type code " + std::to_string(tensor.dtype.code) + " with " +
            std::to_string(tensor.dtype.bits) + " bits and " + std::to_string(tensor.dtype.lanes) + " lanes");
    std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    std::vector<int64_t> strides = tensor.strides == nullptr
                                       ? contiguous_strides(shape)
                                       : std::vector<int64_t>(tensor.strides, tensor.strides + tensor.ndim);
    void* address = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
    // From here on the memory is ours to let go of.
    if (PyCapsule_SetName(capsule.ptr(), dlpack::used_name_of(managed)) != 0) throw py::error_already_set();
    std::shared_ptr<void> owner(managed, [](T* taken) {
        if (taken->deleter != nullptr) taken->deleter(taken);
    });
    auto storage =
        std::make_shared<Storage>(Storage{std::move(owner), nullptr, stream, tensor.device.id, read_only});
    return {std::move(storage), address, dtype, std::move(shape), std::move(strides)};
}

}  // namespace

py::capsule to_dlpack(const Array& array, bool versioned) {
    return versioned ? export_as<dlpack::Versioned>(array) : export_as<dlpack::Managed>(array);
}

Array from_dlpack(const py::capsule& capsule, const std::shared_ptr<cann::Stream>& stream) {
    constexpr const dlpack::Versioned* versioned = nullptr;
    constexpr const dlpack::Managed* first = nullptr;
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::name_of(versioned))) {
        auto* managed =
            static_cast<dlpack::Versioned*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::name_of(versioned)));
        if (managed->major != 1)
            throw std::invalid_argument("the tensor comes in DLPack's version " +
                                        std::to_string(managed->major) + "; version 1 is known here");
        return take_over(capsule, managed, (managed->flags & dlpack::kReadOnly) != 0, stream);
    }
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::name_of(first))) {
        auto* managed =
            static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::name_of(first)));
        return take_over(capsule, managed, false, stream);
    }
    throw std::invalid_argument("the capsule holds no DLPack tensor, or it was taken over before");
}

}  // namespace npu::bindings
