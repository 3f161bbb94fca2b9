#include "pjrt/client.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cann/runtime.h"
#include "pjrt/abi.h"
#include "pjrt/process_table.h"

namespace npu::pjrt {

Client::Client(const std::vector<int>& counts, const std::vector<std::string>& kinds, int process,
               const KeyValueStore& store)
    : process_(process), groups_(std::make_unique<Groups>(process, store)) {
    constexpr int kKinds = static_cast<int>(std::size(kMemoryKinds));
    std::vector<std::shared_ptr<DeviceDescription>> descriptions;
    for (int owner = 0; owner < static_cast<int>(counts.size()); ++owner) {
        for (int local = 0; local < counts[owner]; ++local) {
            const int id = static_cast<int>(descriptions.size());
            descriptions.push_back(std::make_shared<DeviceDescription>(id, owner, local, kinds[owner]));
            const int number = owner == process ? local : -1;
            Device& device = storage_.emplace_back(descriptions.back(), number, id * kKinds);
            all_.push_back(&device);
            if (number < 0) continue;
            own_.push_back(&device);
            memories_.insert(memories_.end(), device.memories().begin(), device.memories().end());
        }
    }
    topology_ = std::make_unique<Topology>(platform_version(), std::move(descriptions));
}

Device* Client::find(int id) const {
    return id >= 0 && id < static_cast<int>(all_.size()) ? all_[id] : nullptr;
}

Device* Client::find_local(int number) const {
    return number >= 0 && number < static_cast<int>(own_.size()) ? own_[number] : nullptr;
}

Memory& Client::place(Memory* memory, Device* device) const {
    if (memory != nullptr) return *memory;
    return need(device, "device or memory").default_memory();
}

namespace {

constexpr std::chrono::milliseconds kPatience{500};

Client& client(Client* handle) { return need(handle, "client"); }

void create(PJRT_Client_Create_Args& args) {
    const KeyValueStore store(args);
    const ProcessTable table = exchange(args, store);
    if (table.counts[table.process] == 0)
        throw precondition(
            "CANN counts no NPU in this process; ASCEND_RT_VISIBLE_DEVICES chooses which ones it sees");
    args.client = new Client(table.counts, table.kinds, table.process, store);
}

bool at_rest(const Client& client) {
    return std::ranges::all_of(client.addressable(), [](Device* device) {
        return device->dispatcher().idle() && device->watcher().idle();
    });
}

// A thread that calls the host may wait for what the caller holds (Python's lock, at the process's end): a
// client that does not come to rest is left to the process.
void destroy(PJRT_Client_Destroy_Args& args) {
    std::unique_ptr<Client> client(args.client);
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (client && !at_rest(*client)) {
        if (std::chrono::steady_clock::now() > until) return static_cast<void>(client.release());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void platform_name(PJRT_Client_PlatformName_Args& args) {
    client(args.client);
    args.platform_name = kPlatformName;
    args.platform_name_size = sizeof kPlatformName - 1;
}

void process_index(PJRT_Client_ProcessIndex_Args& args) {
    args.process_index = client(args.client).process();
}

void version(PJRT_Client_PlatformVersion_Args& args) {
    const std::string& version = client(args.client).version();
    args.platform_version = version.data();
    args.platform_version_size = version.size();
}

void devices(PJRT_Client_Devices_Args& args) {
    const auto& list = client(args.client).devices();
    args.devices = list.data();
    args.num_devices = list.size();
}

void addressable_devices(PJRT_Client_AddressableDevices_Args& args) {
    const auto& list = client(args.client).addressable();
    args.addressable_devices = list.data();
    args.num_addressable_devices = list.size();
}

void addressable_memories(PJRT_Client_AddressableMemories_Args& args) {
    const auto& list = client(args.client).memories();
    args.addressable_memories = list.data();
    args.num_addressable_memories = list.size();
}

void lookup(PJRT_Client_LookupDevice_Args& args) {
    args.device = client(args.client).find(args.id);
    if (args.device == nullptr)
        throw invalid("there is no npu with the id " + std::to_string(args.id) + "; there are " +
                      std::to_string(client(args.client).devices().size()));
}

void lookup_addressable(PJRT_Client_LookupAddressableDevice_Args& args) {
    args.addressable_device = client(args.client).find_local(args.local_hardware_id);
    if (args.addressable_device == nullptr)
        throw invalid("this process has no npu with the number " + std::to_string(args.local_hardware_id) +
                      "; it has " + std::to_string(client(args.client).addressable().size()));
}

void default_assignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
    const auto& devices = client(args.client).devices();
    const int64_t wanted = int64_t{args.num_replicas} * args.num_partitions;
    if (args.num_replicas < 1 || args.num_partitions < 1 || wanted > static_cast<int64_t>(devices.size()))
        throw invalid(std::to_string(args.num_replicas) + " replicas of " +
                      std::to_string(args.num_partitions) + " partitions do not fit on " +
                      std::to_string(devices.size()) + " devices");
    if (args.default_assignment_size < static_cast<std::size_t>(wanted))
        throw invalid("the list for the device assignment is too short");
    for (int64_t i = 0; i < wanted; ++i) args.default_assignment[i] = devices[i]->id();
}

void topology(PJRT_Client_TopologyDescription_Args& args) { args.topology = &client(args.client).topology(); }

// Told of other processes' ends; there is no connection of ours to them that it could change.
void update_processes(PJRT_Client_UpdateGlobalProcessInfo_Args&) {}

}  // namespace

void bind_client(PJRT_Api& api) {
    api.PJRT_Client_Create = slot<create>;
    api.PJRT_Client_Destroy = slot<destroy>;
    api.PJRT_Client_PlatformName = slot<platform_name>;
    api.PJRT_Client_ProcessIndex = slot<process_index>;
    api.PJRT_Client_PlatformVersion = slot<version>;
    api.PJRT_Client_Devices = slot<devices>;
    api.PJRT_Client_AddressableDevices = slot<addressable_devices>;
    api.PJRT_Client_AddressableMemories = slot<addressable_memories>;
    api.PJRT_Client_LookupDevice = slot<lookup>;
    api.PJRT_Client_LookupAddressableDevice = slot<lookup_addressable>;
    api.PJRT_Client_DefaultDeviceAssignment = slot<default_assignment>;
    api.PJRT_Client_TopologyDescription = slot<topology>;
    api.PJRT_Client_UpdateGlobalProcessInfo = slot<update_processes>;
}

}  // namespace npu::pjrt
