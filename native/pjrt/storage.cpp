#include "pjrt/storage.h"

#include <algorithm>
#include <cstring>

namespace npu::pjrt {

std::shared_ptr<Storage> Storage::allocate(Memory& memory, std::size_t bytes) {
    std::shared_ptr<Storage> storage(new Storage(memory, bytes));
    Device& device = memory.device();
    const std::shared_ptr<cann::Stream>& stream = device.stream();
    if (memory.on_host()) {
        storage->host_ = std::make_unique<cann::HostBuffer>(device.number(), std::max<std::size_t>(bytes, 1));
        storage->address_ = storage->host_->address();
    } else {
        storage->block_ = device.pool()->allocate(stream, bytes);
        storage->address_ = storage->block_->address();
    }
    return storage;
}

std::shared_ptr<Storage> Storage::borrow(Memory& memory, void* address, std::size_t bytes,
                                         std::function<void()> released) {
    std::shared_ptr<Storage> storage(new Storage(memory, bytes));
    storage->address_ = address;
    storage->released_ = std::move(released);
    return storage;
}

Storage::~Storage() {
    if (released_) released_();
}

void copy_now(Device& device, void* to, const Memory* to_memory, const void* from, const Memory* from_memory,
              std::size_t bytes) {
    if (bytes == 0) return;
    const aclrtMemcpyKind kind = copy_kind(to_memory, from_memory);
    if (kind == ACL_MEMCPY_HOST_TO_HOST)
        std::memcpy(to, from, bytes);
    else
        cann::copy(device.number(), to, from, bytes, kind);
}

void copy_on_stream(const Storage& to, const Storage& from) {
    const std::size_t bytes = std::min(to.bytes(), from.bytes());
    if (bytes == 0) return;
    cann::copy_async(*to.memory().device().stream(), to.address(), from.address(), bytes,
                     copy_kind(&to.memory(), &from.memory()));
}

}  // namespace npu::pjrt
