#include "bindings/array.h"

#include <pybind11/stl.h>

#include <map>
#include <mutex>

namespace npu::bindings {
namespace {

using namespace cann;
using Shape = std::vector<int64_t>;

int64_t product(const Shape& shape) {
    int64_t result = 1;
    for (int64_t extent : shape) {
        if (extent < 0)
            throw std::invalid_argument("a shape has no negative extents, and this one has " +
                                        std::to_string(extent));
        if (__builtin_mul_overflow(result, extent, &result))
            throw std::invalid_argument("an array of that shape is too large");
    }
    return result;
}

const DType* dtype_from(int code) {
    const DType* dtype = find_dtype(static_cast<aclDataType>(code));
    if (dtype == nullptr)
        throw std::invalid_argument("arrays cannot have aclDataType " + std::to_string(code));
    return dtype;
}

Array empty(Shape shape, int dtype_code, const std::shared_ptr<Stream>& stream) {
    const DType* dtype = dtype_from(dtype_code);
    int64_t bytes = product(shape);
    if (__builtin_mul_overflow(bytes, static_cast<int64_t>(dtype->size), &bytes))
        throw std::invalid_argument("an array of that shape is too large");
    std::shared_ptr<Block> block;
    {
        py::gil_scoped_release release;
        block = Pool::of(stream->device())->allocate(stream, static_cast<std::size_t>(bytes));
    }
    Shape strides = contiguous_strides(shape);
    void* address = block->address();
    auto storage = std::make_shared<Storage>(Storage{block, block, stream, stream->device()});
    return {std::move(storage), address, dtype, std::move(shape), std::move(strides)};
}

// Elements from the address to the last one that the shape and strides reach, one more.
int64_t reach(const Shape& shape, const Shape& strides) {
    int64_t last = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 0) return 0;
        last += (shape[i] - 1) * strides[i];
    }
    return last + 1;
}

// A view inside its base: `offset` and strides in elements of the view's dtype.
Array view_of(const Array& base, int64_t offset, Shape shape, Shape strides, int dtype_code) {
    const DType* dtype = dtype_from(dtype_code);
    product(shape);
    if (strides.size() != shape.size())
        throw std::invalid_argument("a view needs one stride for each extent");
    for (int64_t stride : strides)
        if (stride < 0) throw std::invalid_argument("the operators of CANN take no negative strides");
    const auto available = reach(base.shape, base.strides) * static_cast<int64_t>(base.dtype->size);
    const auto wanted = (offset + reach(shape, strides)) * static_cast<int64_t>(dtype->size);
    if (offset < 0 || wanted > available) throw std::invalid_argument("the view reaches beyond its array");
    auto* address = static_cast<std::byte*>(base.address) + offset * static_cast<int64_t>(dtype->size);
    return {base.storage, address, dtype, std::move(shape), std::move(strides)};
}

// One event a device: a wait takes the record that it finds, so the event can be recorded anew at once.
void wait_for(const Stream& earlier, const Stream& later) {
    static std::mutex mutex;
    static auto* events = new std::map<int, std::unique_ptr<Event>>;
    std::lock_guard lock(mutex);
    std::unique_ptr<Event>& event = (*events)[earlier.device()];
    if (!event) event = std::make_unique<Event>(earlier.device(), false);
    earlier.record(*event);
    later.wait(*event);
}

}  // namespace

Shape contiguous_strides(const Shape& shape) {
    Shape strides(shape.size());
    int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        strides[i] = stride;
        stride *= std::max<int64_t>(shape[i], 1);
    }
    return strides;
}

int64_t Array::size() const { return product(shape); }

bool Array::contiguous() const {
    int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        if (shape[i] == 0) return true;
        if (shape[i] != 1 && strides[i] != stride) return false;
        stride *= shape[i];
    }
    return true;
}

void use_after_writes(const Array& array, const std::shared_ptr<Stream>& stream, const char* what) {
    const Storage& storage = *array.storage;
    if (storage.device != stream->device())
        throw std::invalid_argument(std::string(what) + " is on npu:" + std::to_string(storage.device) +
                                    ", the stream on npu:" + std::to_string(stream->device()) +
                                    "; copy it there with .to()");
    if (storage.stream == stream || storage.stream->closed()) return;
    if (storage.stream->handle() != stream->handle()) wait_for(*storage.stream, *stream);
}

void used_on(const Array& array, const std::shared_ptr<Stream>& stream, bool written) {
    Storage& storage = *array.storage;
    if (storage.block) storage.block->used_by(stream);
    if (written) storage.stream = stream;
}

void bind_array(py::module_& module) {
    py::class_<Array, std::shared_ptr<Array>>(module, "Array")
        .def(py::init(&empty), py::arg("shape"), py::arg("dtype_code"), py::arg("stream"))
        .def(py::init(&view_of), py::arg("base"), py::arg("offset"), py::arg("shape"), py::arg("strides"),
             py::arg("dtype_code"))
        .def(py::init(&from_dlpack), py::arg("capsule"), py::arg("stream"))
        .def_property_readonly("address",
                               [](const Array& a) { return reinterpret_cast<uintptr_t>(a.address); })
        .def_property_readonly("dtype_code", [](const Array& a) { return static_cast<int>(a.dtype->acl); })
        .def_property_readonly("shape", [](const Array& a) { return py::tuple(py::cast(a.shape)); })
        .def_property_readonly("element_strides",
                               [](const Array& a) { return py::tuple(py::cast(a.strides)); })
        .def_property_readonly("size", &Array::size)
        .def_property_readonly("itemsize", [](const Array& a) { return a.dtype->size; })
        .def_property_readonly("contiguous", &Array::contiguous)
        .def_property_readonly("device_id", [](const Array& a) { return a.storage->device; })
        .def_property_readonly("owned", [](const Array& a) { return a.storage->block != nullptr; })
        .def_property_readonly("read_only", [](const Array& a) { return a.storage->read_only; })
        .def_property_readonly("stream", [](const Array& a) { return a.storage->stream; })
        .def(
            "use_after_writes",
            [](const Array& a, const std::shared_ptr<Stream>& stream) {
                use_after_writes(a, stream, "the array");
            },
            py::arg("stream"))
        .def("used_on", &used_on, py::arg("stream"), py::arg("written"))
        .def("to_dlpack", &to_dlpack, py::arg("versioned"));
    py::list table;
    for (const DType& dtype : dtypes())
        table.append(py::make_tuple(dtype.name, static_cast<int>(dtype.acl), static_cast<int>(dtype.hccl)));
    module.attr("DTYPES") = py::tuple(table);
}

}  // namespace npu::bindings
