#include "pjrt/abi.h"
#include "pjrt/device.h"

namespace npu::pjrt {

DeviceDescription::DeviceDescription(int id, int process, int local, std::string kind)
    : id_(id),
      process_(process),
      local_(local),
      kind_(std::move(kind)),
      text_("npu:" + std::to_string(id)),
      repr_("NpuDevice(id=" + std::to_string(id) + ")") {
    attributes_.add("soc", kind_);
    attributes_.add("coords", std::vector<int64_t>{process, local, 0});
}

namespace {

const DeviceDescription& description(DeviceDescription* handle) { return need(handle, "device description"); }

void id(PJRT_DeviceDescription_Id_Args& args) { args.id = description(args.device_description).id(); }

void process_index(PJRT_DeviceDescription_ProcessIndex_Args& args) {
    args.process_index = description(args.device_description).process();
}

void attributes(PJRT_DeviceDescription_Attributes_Args& args) {
    const NamedValues& values = description(args.device_description).attributes();
    args.attributes = values.data();
    args.num_attributes = values.size();
}

void kind(PJRT_DeviceDescription_Kind_Args& args) {
    const std::string& kind = description(args.device_description).kind();
    args.device_kind = kind.data();
    args.device_kind_size = kind.size();
}

void debug_string(PJRT_DeviceDescription_DebugString_Args& args) {
    const std::string& text = description(args.device_description).text();
    args.debug_string = text.data();
    args.debug_string_size = text.size();
}

void to_string(PJRT_DeviceDescription_ToString_Args& args) {
    const std::string& text = description(args.device_description).repr();
    args.to_string = text.data();
    args.to_string_size = text.size();
}

}  // namespace

void bind_device_description(PJRT_Api& api) {
    api.PJRT_DeviceDescription_Id = slot<id>;
    api.PJRT_DeviceDescription_ProcessIndex = slot<process_index>;
    api.PJRT_DeviceDescription_Attributes = slot<attributes>;
    api.PJRT_DeviceDescription_Kind = slot<kind>;
    api.PJRT_DeviceDescription_DebugString = slot<debug_string>;
    api.PJRT_DeviceDescription_ToString = slot<to_string>;
}

}  // namespace npu::pjrt
