// Which kinds of memory a device has, told without having the device.
#include <cstring>

#include "pjrt/abi.h"
#include "pjrt/extensions.h"
#include "pjrt/memory.h"

namespace npu::pjrt {
namespace {

void descriptions(PJRT_DeviceDescription_MemoryDescriptions_Args& args) {
    need(args.device_description, "device description");
    args.memory_descriptions = kMemoryKinds;
    args.num_memory_descriptions = std::size(kMemoryKinds);
    args.default_memory_index = 0;
}

void kind(PJRT_MemoryDescription_Kind_Args& args) {
    const MemoryKind& asked = need(args.memory_description, "memory description");
    args.kind = asked.name;
    args.kind_size = std::strlen(asked.name);
    args.kind_id = asked.id;
}

}  // namespace

PJRT_Extension_Base* memory_descriptions_extension(PJRT_Extension_Base* next) {
    static PJRT_MemoryDescriptions_Extension extension{};
    extension.base = {sizeof extension, PJRT_Extension_Type_MemoryDescriptions, next};
    extension.PJRT_DeviceDescription_MemoryDescriptions = extension_slot<descriptions>();
    extension.PJRT_MemoryDescription_Kind = extension_slot<kind>();
    return &extension.base;
}

}  // namespace npu::pjrt
