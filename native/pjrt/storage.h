// The memory behind buffers.
#pragma once

#include <functional>
#include <memory>

#include "cann/pool.h"
#include "pjrt/device.h"

namespace npu::pjrt {

/// A piece of memory. At its end it goes back to where it came from. Immutable, so thread-safe.
class Storage {
  public:
    /// Device memory belongs to the device's stream: what was put there before may still use it until the
    /// stream has come so far. Throws cann::Error.
    static std::shared_ptr<Storage> allocate(Memory& memory, std::size_t bytes);
    /// Memory of somebody else, who is told when it is not needed any more.
    static std::shared_ptr<Storage> borrow(Memory& memory, void* address, std::size_t bytes,
                                           std::function<void()> released);
    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    void* address() const { return address_; }
    std::size_t bytes() const { return bytes_; }
    Memory& memory() const { return memory_; }
    std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(address_) + offset; }

  private:
    Storage(Memory& memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

    Memory& memory_;
    std::size_t bytes_;
    void* address_ = nullptr;
    std::shared_ptr<cann::Block> block_;
    std::unique_ptr<cann::HostBuffer> host_;
    std::function<void()> released_;
};

/// Copies and waits. Null for a memory: the caller's own.
void copy_now(Device& device, void* to, const Memory* to_memory, const void* from, const Memory* from_memory,
              std::size_t bytes);
/// Puts a copy between two storages of one device on its stream.
void copy_on_stream(const Storage& to, const Storage& from);

}  // namespace npu::pjrt
