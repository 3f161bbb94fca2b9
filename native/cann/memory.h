// Memory of a device and pinned memory of the host, and copies between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cann/runtime.h"

namespace npu::cann {

/// Device memory straight from CANN; see pool.h for the one that is reused. Movable, frees at its end.
class DeviceBuffer {
  public:
    /// Throws Error (out_of_memory()). Of no bytes: address() is null.
    DeviceBuffer(int device, std::size_t size);
    ~DeviceBuffer();
    DeviceBuffer(DeviceBuffer&& other) noexcept
        : device_(other.device_), size_(other.size_), address_(std::exchange(other.address_, nullptr)) {}
    DeviceBuffer& operator=(DeviceBuffer&&) = delete;

    int device() const { return device_; }
    std::size_t size() const { return size_; }
    void* address() const { return address_; }

  private:
    int device_;
    std::size_t size_;
    void* address_ = nullptr;
};

/// Host memory that a device can copy from and to while the host goes on (page-locked).
class HostBuffer {
  public:
    HostBuffer(int device, std::size_t size);
    ~HostBuffer();
    HostBuffer(const HostBuffer&) = delete;
    HostBuffer& operator=(const HostBuffer&) = delete;

    int device() const { return device_; }
    std::size_t size() const { return size_; }
    void* address() const { return address_; }

  private:
    int device_;
    std::size_t size_;
    void* address_ = nullptr;
};

/// Copies `size` bytes and waits. `device`: the one that does it (of the destination, between two devices).
void copy(int device, void* to, const void* from, std::size_t size, aclrtMemcpyKind kind);

/// Puts the copy on the stream. Both ends must live until it is done; host memory that is not pinned makes it
/// wait.
void copy_async(const Stream& stream, void* to, const void* from, std::size_t size, aclrtMemcpyKind kind);

/// Puts filling with a byte on the stream.
void fill_async(const Stream& stream, void* to, uint8_t value, std::size_t size);

}  // namespace npu::cann
