// The clients' tensors (ge::Tensor, gert::Tensor) and the engine's buffers.
#pragma once

#include "ge/doors/ge_api.h"
#include "ge/engine/engine.h"

namespace npu::ge {

/// Throws graph::GraphError: more than 25 dimensions, a tiled format.
Buffer to_buffer(const ::ge::Tensor& tensor);
Buffer to_buffer(const gert::Tensor& tensor);

/// Memory of outputs that came without, from the client's allocator for the stream or from the device. What
/// is not handed out is freed.
class OutputMemory {
  public:
    explicit OutputMemory(std::shared_ptr<::ge::Allocator> allocator) : allocator_(std::move(allocator)) {}
    ~OutputMemory();
    OutputMemory(const OutputMemory&) = delete;
    OutputMemory& operator=(const OutputMemory&) = delete;

    void* allocate(std::size_t bytes);
    /// Fills in type, size and, for memory allocated here, address and owner.
    void hand_out(const Buffer& buffer, ::ge::Tensor& tensor);
    void hand_out(const Buffer& buffer, gert::Tensor& tensor);

    struct Piece {
        void* address = nullptr;
        ::ge::MemBlock* block = nullptr;  ///< the allocator's, null: aclrtMalloc's
        std::shared_ptr<::ge::Allocator> allocator;
        void free() const;
    };

  private:
    /// Takes the piece at that address out of `pieces_`; nullptr: the client's own memory.
    std::unique_ptr<Piece> take(const void* address);

    std::shared_ptr<::ge::Allocator> allocator_;
    std::vector<Piece> pieces_;
};

}  // namespace npu::ge
