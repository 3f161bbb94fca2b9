#include "ge/doors/tensors.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace npu::ge {
namespace {

/// Pieces that gert tensors hold, by address: a tensor's manager is told nothing but that.
struct Held {
    OutputMemory::Piece piece;
    int references = 1;
};
std::mutex held_mutex;
std::unordered_map<void*, Held>& held() {
    static std::unordered_map<void*, Held> pieces;
    return pieces;
}

/// gert's contract with the owner of a tensor's memory: 0 asks for the address, 1 gives up a reference, 2
/// takes one.
uint32_t manage(void* address, int operation, void** out) {
    std::lock_guard lock(held_mutex);
    const auto found = held().find(address);
    if (found == held().end()) return ::ge::kFailed;
    if (operation == 0) {
        if (out != nullptr) *out = address;
    } else if (operation == 2) {
        ++found->second.references;
    } else if (operation == 1 && --found->second.references == 0) {
        found->second.piece.free();
        held().erase(found);
    }
    return ::ge::kSuccess;
}

void check_format(int32_t format) {
    constexpr int32_t tiled[] = {3, 4, 29};  // NC1HWC0, FRACTAL_Z, FRACTAL_NZ
    if (std::ranges::count(tiled, format) != 0)
        throw graph::GraphError("a tensor has the tiled format " + std::to_string(format) +
                                "; the emulator computes on strided formats only");
}

}  // namespace

Buffer to_buffer(const ::ge::Tensor& tensor) {
    check_format(tensor.GetFormat());
    Buffer buffer;
    buffer.data = const_cast<uint8_t*>(tensor.GetData());
    buffer.size = tensor.GetSize();
    buffer.type.dtype = static_cast<graph::DataType>(tensor.GetDataType());
    for (std::size_t i = 0; i < tensor.GetShapeDimNum(); ++i)
        buffer.type.dims.push_back(tensor.GetShapeDim(i));
    buffer.host = tensor.GetPlacement() == ::ge::kPlacementHost;
    // torchair refreshes the shape of a tensor that it keeps, and its size only where the address has
    // changed: at an address that comes back for a larger batch, the size is the smaller batch's.
    if (!buffer.host && buffer.data != nullptr && buffer.type.is_static())
        buffer.size = std::max(buffer.size, static_cast<std::size_t>(buffer.type.elements()) *
                                                graph::element_size(buffer.type.dtype));
    return buffer;
}

Buffer to_buffer(const gert::Tensor& tensor) {
    const auto& shape = tensor.shape.storage;
    Buffer buffer;
    buffer.data = tensor.data.address;
    if (buffer.data == nullptr && tensor.data.placement == gert::kTensorPlacementEnd)
        return buffer;  // nothing of it is filled in
    if (shape.dim_num > 25)
        throw graph::GraphError("a tensor has " + std::to_string(shape.dim_num) +
                                " dimensions, gert::Tensor holds 25");
    check_format(tensor.format.storage);
    buffer.size = tensor.data.size;
    buffer.type = {static_cast<graph::DataType>(tensor.data_type), {shape.dims, shape.dims + shape.dim_num}};
    buffer.host = tensor.data.placement == gert::kOnHost;
    return buffer;
}

void OutputMemory::Piece::free() const {
    if (block != nullptr)
        allocator->Free(block);
    else
        aclrtFree(address);
}

OutputMemory::~OutputMemory() {
    for (const Piece& piece : pieces_) piece.free();
}

void* OutputMemory::allocate(std::size_t bytes) {
    Piece piece;
    if (allocator_) {
        piece.block = allocator_->Malloc(bytes);
        piece.address = piece.block ? piece.block->addr : nullptr;
        piece.allocator = allocator_;
    } else if (aclrtMalloc(&piece.address, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
        return nullptr;
    }
    if (piece.address != nullptr) pieces_.push_back(piece);
    return piece.address;
}

std::unique_ptr<OutputMemory::Piece> OutputMemory::take(const void* address) {
    const auto found = std::ranges::find(pieces_, address, &Piece::address);
    if (found == pieces_.end()) return nullptr;
    auto piece = std::make_unique<Piece>(*found);
    pieces_.erase(found);
    return piece;
}

void OutputMemory::hand_out(const Buffer& buffer, ::ge::Tensor& tensor) {
    const auto& dims = buffer.type.dims;
    tensor.SetDataType(static_cast<::ge::DataType>(buffer.type.dtype));
    tensor.SetPlacement(::ge::kPlacementDevice);
    tensor.SetShapeDimNum(dims.size());
    tensor.SetOriginShapeDimNum(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
        tensor.SetShapeDim(i, dims[i]);
        tensor.SetOriginShapeDim(i, dims[i]);
    }
    if (const auto piece = take(buffer.data))
        tensor.ResetData(static_cast<uint8_t*>(buffer.data), buffer.size,
                         [piece = *piece](uint8_t*) { piece.free(); });
}

void OutputMemory::hand_out(const Buffer& buffer, gert::Tensor& tensor) {
    const auto& dims = buffer.type.dims;
    tensor.data_type = buffer.type.dtype;
    for (auto* shape : {&tensor.shape.origin, &tensor.shape.storage}) {
        shape->dim_num = dims.size();
        std::ranges::copy(dims, shape->dims);
    }
    const auto piece = take(buffer.data);
    if (!piece) return;
    tensor.format.origin = tensor.format.storage = ::ge::FORMAT_ND;
    tensor.data.address = buffer.data;
    tensor.data.size = buffer.size;
    tensor.data.placement = gert::kOnDeviceHbm;
    tensor.data.manager = manage;
    std::lock_guard lock(held_mutex);
    held()[buffer.data] = {*piece};
}

}  // namespace npu::ge
