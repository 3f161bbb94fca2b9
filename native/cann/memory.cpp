#include "cann/memory.h"

#include <string>

#include "cann/api.h"

namespace npu::cann {
namespace {

std::string bytes(std::size_t size) { return std::to_string(size) + " bytes"; }

}  // namespace

DeviceBuffer::DeviceBuffer(int device, std::size_t size) : device_(device), size_(size) {
    DeviceGuard guard(device);
    if (size == 0) return;
    api::call(
        api::aclrtMalloc, [&] { return "allocating " + bytes(size) + " on npu:" + std::to_string(device); },
        &address_, size, ACL_MEM_MALLOC_HUGE_FIRST);
}

DeviceBuffer::~DeviceBuffer() {
    if (address_ == nullptr) return;
    try {
        DeviceGuard guard(device_);
        api::aclrtFree(address_);
    } catch (const std::exception&) {  // the device was reset: it has no memory of ours any more
    }
}

HostBuffer::HostBuffer(int device, std::size_t size) : device_(device), size_(size) {
    DeviceGuard guard(device);
    if (size == 0) return;
    api::call(
        api::aclrtMallocHost, [&] { return "allocating " + bytes(size) + " of pinned host memory"; },
        &address_, size);
}

HostBuffer::~HostBuffer() {
    if (address_ == nullptr) return;
    try {
        DeviceGuard guard(device_);
        api::aclrtFreeHost(address_);
    } catch (const std::exception&) {
    }
}

void copy(int device, void* to, const void* from, std::size_t size, aclrtMemcpyKind kind) {
    if (size == 0) return;
    DeviceGuard guard(device);
    api::call(api::aclrtMemcpy, [&] { return "copying " + bytes(size); }, to, size, from, size, kind);
}

void copy_async(const Stream& stream, void* to, const void* from, std::size_t size, aclrtMemcpyKind kind) {
    const aclrtStream handle = stream.handle();
    if (size == 0) return;
    DeviceGuard guard(stream.device());
    api::call(
        api::aclrtMemcpyAsync, [&] { return "copying " + bytes(size) + " on a stream"; }, to, size, from,
        size, kind, handle);
}

void fill_async(const Stream& stream, void* to, uint8_t value, std::size_t size) {
    const aclrtStream handle = stream.handle();
    if (size == 0) return;
    DeviceGuard guard(stream.device());
    api::call(
        api::aclrtMemsetAsync, [&] { return "filling " + bytes(size) + " on a stream"; }, to, size,
        static_cast<int32_t>(value), size, handle);
}

}  // namespace npu::cann
