// Memory spaces: each device has its own memory, and pinned memory of the host that it copies from and to.
#pragma once

#include <string>
#include <vector>

#include "cann/acl.h"
#include "pjrt/pjrt_c_api.h"

namespace npu::pjrt {

struct MemoryKind {
    int id;
    const char* name;
};
inline constexpr MemoryKind kDeviceMemory{0, "device"};
inline constexpr MemoryKind kPinnedHost{1, "pinned_host"};
inline constexpr const MemoryKind* kMemoryKinds[] = {&kDeviceMemory, &kPinnedHost};

/// Immutable, so thread-safe.
class Memory {
  public:
    Memory(int id, const MemoryKind& kind, Device& device);

    int id() const { return id_; }
    const MemoryKind& kind() const { return kind_; }
    bool on_host() const { return &kind_ == &kPinnedHost; }
    Device& device() const { return *device_; }
    const std::string& text() const { return text_; }
    Device* const* devices() const { return &device_; }

  private:
    int id_;
    const MemoryKind& kind_;
    Device* device_;
    std::string text_;
};

/// How CANN calls a copy between two memories; null is memory of the host.
aclrtMemcpyKind copy_kind(const Memory* to, const Memory* from);

void bind_memory(PJRT_Api& api);

}  // namespace npu::pjrt
