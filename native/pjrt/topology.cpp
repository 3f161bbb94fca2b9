#include "pjrt/topology.h"

#include "cann/loader.h"
#include "pjrt/abi.h"
#include "pjrt/wire.h"

namespace npu::pjrt {
namespace {

// Message Topology { 1 version; 2 repeated Device { 1 id; 2 process; 3 local; 4 kind } }
enum : uint32_t { kVersion = 1, kDevice = 2 };
enum : uint32_t { kId = 1, kProcess = 2, kLocal = 3, kKind = 4 };

std::shared_ptr<DeviceDescription> parse_device(graph::Bytes bytes) {
    int id = 0, process = 0, local = 0;
    std::string kind;
    graph::Message message(bytes);
    for (graph::Field field; message.next(field);) {
        if (field.number == kId) id = static_cast<int>(field.integer());
        if (field.number == kProcess) process = static_cast<int>(field.integer());
        if (field.number == kLocal) local = static_cast<int>(field.integer());
        if (field.number == kKind) kind = field.text();
    }
    return std::make_shared<DeviceDescription>(id, process, local, kind);
}

}  // namespace

std::string platform_version() { return "CANN " + cann::version(); }

Topology::Topology(std::string version, std::vector<std::shared_ptr<DeviceDescription>> devices)
    : version_(std::move(version)), devices_(std::move(devices)) {
    for (const auto& device : devices_) list_.push_back(device.get());
    attributes_.add("platform_version", version_);
}

std::unique_ptr<Topology> Topology::parse(std::string_view bytes) {
    std::string version;
    std::vector<std::shared_ptr<DeviceDescription>> devices;
    try {
        graph::Message message(as_bytes(bytes));
        for (graph::Field field; message.next(field);) {
            if (field.number == kVersion) version = field.text();
            if (field.number == kDevice) devices.push_back(parse_device(field.message()));
        }
    } catch (const graph::GraphError&) {
        devices.clear();
    }
    if (devices.empty()) throw invalid("these bytes are no topology that this plugin serialised");
    return std::make_unique<Topology>(std::move(version), std::move(devices));
}

std::string Topology::serialise() const {
    std::string out;
    put_bytes(out, kVersion, version_);
    for (const DeviceDescription* device : list_) {
        std::string row;
        put_integer(row, kId, device->id());
        put_integer(row, kProcess, device->process());
        put_integer(row, kLocal, device->local());
        put_bytes(row, kKind, device->kind());
        put_bytes(out, kDevice, row);
    }
    return out;
}

uint64_t Topology::fingerprint() const { return fingerprint64(serialise()); }

namespace {

const Topology& topology(Topology* handle) { return need(handle, "topology"); }

// `topology_name`: "" for the devices of this process, else the SoC's name and the count, "Ascend910B2:8".
void create(PJRT_TopologyDescription_Create_Args& args) {
    std::string name = text(args.topology_name, args.topology_name_size);
    int count = 1;
    if (name.empty()) {
        name = cann::soc_name();
        count = cann::device_count();
    } else if (const auto colon = name.rfind(':'); colon != std::string::npos) {
        const std::string digits = name.substr(colon + 1);
        if (digits.empty() || digits.size() > 4 ||
            digits.find_first_not_of("0123456789") != std::string::npos || digits == "0")
            throw invalid("the topology's name is a SoC and a count of devices, \"Ascend910B2:8\", not \"" +
                          graph::printable(name) + "\"");
        count = std::stoi(digits);
        name.resize(colon);
    }
    std::vector<std::shared_ptr<DeviceDescription>> devices;
    for (int i = 0; i < count; ++i) devices.push_back(std::make_shared<DeviceDescription>(i, 0, i, name));
    args.topology = new Topology(platform_version(), std::move(devices));
}

void destroy(PJRT_TopologyDescription_Destroy_Args& args) { delete args.topology; }

void platform_name(PJRT_TopologyDescription_PlatformName_Args& args) {
    topology(args.topology);
    args.platform_name = kPlatformName;
    args.platform_name_size = sizeof kPlatformName - 1;
}

void version(PJRT_TopologyDescription_PlatformVersion_Args& args) {
    const std::string& text = topology(args.topology).version();
    args.platform_version = text.data();
    args.platform_version_size = text.size();
}

void descriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
    const auto& devices = topology(args.topology).devices();
    args.descriptions = devices.data();
    args.num_descriptions = devices.size();
}

void serialise(PJRT_TopologyDescription_Serialize_Args& args) {
    auto bytes = std::make_unique<Bytes>(topology(args.topology).serialise());
    args.serialized_bytes = bytes->text.data();
    args.serialized_bytes_size = bytes->text.size();
    args.serialized_topology_deleter = delete_bytes;
    args.serialized_topology = bytes.release();
}

void deserialise(PJRT_TopologyDescription_Deserialize_Args& args) {
    args.topology = Topology::parse({args.serialized_topology, args.serialized_topology_size}).release();
}

void attributes(PJRT_TopologyDescription_Attributes_Args& args) {
    const NamedValues& values = topology(args.topology).attributes();
    args.attributes = values.data();
    args.num_attributes = values.size();
}

void fingerprint(PJRT_TopologyDescription_Fingerprint_Args& args) {
    args.fingerprint = topology(args.topology).fingerprint();
}

void memory_kinds(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args& args) {
    static constexpr int32_t ids[] = {kDeviceMemory.id, kPinnedHost.id};
    topology(args.topology);
    args.memory_space_kind_ids = ids;
    args.num_memory_space_kind_ids = std::size(ids);
}

}  // namespace

void bind_topology(PJRT_Api& api) {
    api.PJRT_TopologyDescription_Create = slot<create>;
    api.PJRT_TopologyDescription_Destroy = slot<destroy>;
    api.PJRT_TopologyDescription_PlatformName = slot<platform_name>;
    api.PJRT_TopologyDescription_PlatformVersion = slot<version>;
    api.PJRT_TopologyDescription_GetDeviceDescriptions = slot<descriptions>;
    api.PJRT_TopologyDescription_Serialize = slot<serialise>;
    api.PJRT_TopologyDescription_Deserialize = slot<deserialise>;
    api.PJRT_TopologyDescription_Attributes = slot<attributes>;
    api.PJRT_TopologyDescription_Fingerprint = slot<fingerprint>;
    api.PJRT_TopologyDescription_GetMemorySpaceKindIds = slot<memory_kinds>;
}

}  // namespace npu::pjrt
