// Buffers that the caller fills piece by piece from host memory.
#pragma once

#include <mutex>
#include <vector>

#include "pjrt/buffer.h"

namespace npu::pjrt {

/// Thread-safe.
class TransferManager {
  public:
    TransferManager(Memory& memory, std::vector<Shape> shapes);
    /// What was not filled by then fails.
    ~TransferManager();

    Memory& memory() const { return memory_; }
    std::size_t count() const { return targets_.size(); }
    const Shape& shape(int64_t index) { return target(index).shape; }
    std::unique_ptr<Buffer> buffer(int64_t index);
    /// Takes the bytes within the call.
    void transfer(int64_t index, const void* data, int64_t offset, int64_t size, bool last);
    void fail(int64_t index, Failure failure);

  private:
    struct Target {
        Shape shape;
        std::shared_ptr<Value> value;
    };
    Target& target(int64_t index);

    Memory& memory_;
    std::vector<Target> targets_;
};

void bind_transfer_manager(PJRT_Api& api);

}  // namespace npu::pjrt
