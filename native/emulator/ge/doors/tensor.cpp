// libgraph: Shape, TensorDesc, Tensor.
#include "ge/doors/ge_api.h"

namespace ge {

struct TensorContent {
    DescContent desc;
    uint8_t* data = nullptr;
    std::size_t size = 0;
    Deleter deleter;
    TensorContent() = default;
    TensorContent(const TensorContent&) = delete;
    TensorContent& operator=(const TensorContent&) = delete;
    ~TensorContent() { release(); }
    void release() {
        if (data != nullptr && deleter) deleter(data);
        data = nullptr;
        size = 0;
        deleter = nullptr;
    }
};

Shape::Shape(const std::vector<int64_t>& dims) : impl_(std::make_shared<std::vector<int64_t>>(dims)) {}
std::vector<int64_t> Shape::GetDims() const { return impl_ ? *impl_ : std::vector<int64_t>(); }

TensorDesc::TensorDesc() : impl(std::make_shared<DescContent>()) {}
void TensorDesc::SetDataType(DataType type) { impl->type = type; }
DataType TensorDesc::GetDataType() const { return impl->type; }
void TensorDesc::SetFormat(Format format) { impl->format = format; }
Format TensorDesc::GetFormat() const { return impl->format; }
void TensorDesc::SetOriginFormat(Format format) { impl->origin_format = format; }
void TensorDesc::SetOriginShape(const Shape& shape) { impl->origin_dims = shape.GetDims(); }
void TensorDesc::SetPlacement(Placement placement) { impl->placement = placement; }
Placement TensorDesc::GetPlacement() const { return impl->placement; }
Shape TensorDesc::GetShape() const { return Shape(impl->dims); }

namespace {

graphStatus set(std::vector<int64_t>& dims, std::size_t index, int64_t size) {
    if (index >= dims.size()) return kFailed;
    dims[index] = size;
    return kSuccess;
}

}  // namespace

Tensor::Tensor() : impl(std::make_shared<TensorContent>()) {}
graphStatus Tensor::SetDataType(const DataType& type) {
    impl->desc.type = type;
    return kSuccess;
}
DataType Tensor::GetDataType() const { return impl->desc.type; }
graphStatus Tensor::SetFormat(const Format& format) {
    impl->desc.format = format;
    return kSuccess;
}
Format Tensor::GetFormat() const { return impl->desc.format; }
graphStatus Tensor::SetPlacement(const Placement& placement) {
    impl->desc.placement = placement;
    return kSuccess;
}
Placement Tensor::GetPlacement() const { return impl->desc.placement; }
graphStatus Tensor::SetShapeDimNum(std::size_t count) {
    impl->desc.dims.resize(count);
    return kSuccess;
}
std::size_t Tensor::GetShapeDimNum() const { return impl->desc.dims.size(); }
graphStatus Tensor::SetShapeDim(std::size_t index, int64_t size) { return set(impl->desc.dims, index, size); }
int64_t Tensor::GetShapeDim(std::size_t index) const {
    return index < impl->desc.dims.size() ? impl->desc.dims[index] : 0;
}
graphStatus Tensor::SetOriginShapeDimNum(std::size_t count) {
    impl->desc.origin_dims.resize(count);
    return kSuccess;
}
std::size_t Tensor::GetOriginShapeDimNum() const { return impl->desc.origin_dims.size(); }
graphStatus Tensor::SetOriginShapeDim(std::size_t index, int64_t size) {
    return set(impl->desc.origin_dims, index, size);
}
graphStatus Tensor::SetTensorDesc(const TensorDesc& desc) {
    impl->desc = *desc.impl;
    return kSuccess;
}
TensorDesc Tensor::GetTensorDesc() const {
    TensorDesc desc;
    *desc.impl = impl->desc;
    return desc;
}
graphStatus Tensor::SetData(uint8_t* data, std::size_t size, const Deleter& deleter) {
    return ResetData(data, size, deleter);
}
graphStatus Tensor::ResetData(uint8_t* data, std::size_t size, const Deleter& deleter) {
    impl->release();
    impl->data = data;
    impl->size = size;
    impl->deleter = deleter;
    return kSuccess;
}
/// Hands the memory over to the caller.
std::unique_ptr<uint8_t[], Deleter> Tensor::ResetData() {
    const Deleter nothing = [](uint8_t*) {};
    std::unique_ptr<uint8_t[], Deleter> memory(impl->data, impl->deleter ? impl->deleter : nothing);
    impl->data = nullptr;
    impl->size = 0;
    impl->deleter = nullptr;
    return memory;
}
const uint8_t* Tensor::GetData() const { return impl->data; }
uint8_t* Tensor::GetData() { return impl->data; }
std::size_t Tensor::GetSize() const { return impl->size; }

}  // namespace ge
