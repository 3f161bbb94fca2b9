#include "pjrt/memory.h"

#include <cstring>

#include "pjrt/abi.h"
#include "pjrt/device.h"

namespace npu::pjrt {

Memory::Memory(int id, const MemoryKind& kind, Device& device)
    : id_(id),
      kind_(kind),
      device_(&device),
      text_(std::string(kind.name) + " memory of " + device.description().text()) {}

aclrtMemcpyKind copy_kind(const Memory* to, const Memory* from) {
    const bool to_host = to == nullptr || to->on_host();
    const bool from_host = from == nullptr || from->on_host();
    if (from_host) return to_host ? ACL_MEMCPY_HOST_TO_HOST : ACL_MEMCPY_HOST_TO_DEVICE;
    return to_host ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_DEVICE_TO_DEVICE;
}

namespace {

void id(PJRT_Memory_Id_Args& args) { args.id = need(args.memory, "memory").id(); }

void kind(PJRT_Memory_Kind_Args& args) {
    args.kind = need(args.memory, "memory").kind().name;
    args.kind_size = std::strlen(args.kind);
}

void kind_id(PJRT_Memory_Kind_Id_Args& args) { args.kind_id = need(args.memory, "memory").kind().id; }

void debug_string(PJRT_Memory_DebugString_Args& args) {
    const std::string& text = need(args.memory, "memory").text();
    args.debug_string = text.data();
    args.debug_string_size = text.size();
}

void to_string(PJRT_Memory_ToString_Args& args) {
    const std::string& text = need(args.memory, "memory").text();
    args.to_string = text.data();
    args.to_string_size = text.size();
}

void devices(PJRT_Memory_AddressableByDevices_Args& args) {
    args.devices = need(args.memory, "memory").devices();
    args.num_devices = 1;
}

}  // namespace

void bind_memory(PJRT_Api& api) {
    api.PJRT_Memory_Id = slot<id>;
    api.PJRT_Memory_Kind = slot<kind>;
    api.PJRT_Memory_Kind_Id = slot<kind_id>;
    api.PJRT_Memory_DebugString = slot<debug_string>;
    api.PJRT_Memory_ToString = slot<to_string>;
    api.PJRT_Memory_AddressableByDevices = slot<devices>;
}

}  // namespace npu::pjrt
