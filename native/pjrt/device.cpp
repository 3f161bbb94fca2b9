#include "pjrt/device.h"

#include "pjrt/abi.h"

namespace npu::pjrt {
namespace {

constexpr std::size_t kMostMoments = 512;

}  // namespace

Device::Device(std::shared_ptr<DeviceDescription> description, int number, int first_memory)
    : description_(std::move(description)),
      number_(number),
      watcher_("npu-watch-" + std::to_string(number)),
      dispatcher_("npu-work-" + std::to_string(number)) {
    for (const MemoryKind* kind : kMemoryKinds)
        memory_list_.push_back(&memories_.emplace_back(first_memory + kind->id, *kind, *this));
}

Memory& Device::memory(const std::string& kind) const {
    for (Memory* memory : memory_list_)
        if (kind.empty() || kind == memory->kind().name) return *memory;
    throw invalid("npu devices have no memory of the kind " + kind + "; they have device and pinned_host");
}

const std::shared_ptr<cann::Stream>& Device::stream() {
    if (!addressable())
        throw invalid(description_->text() + " belongs to process " +
                      std::to_string(description_->process()) + ": only that process can use it");
    std::call_once(once_, [&] { stream_ = std::make_shared<cann::Stream>(number_); });
    return stream_;
}

std::shared_ptr<Moment> Device::mark() {
    auto made = std::make_shared<Moment>(stream(), watcher_);
    std::shared_ptr<Moment> oldest;
    {
        std::lock_guard lock(mutex_);
        moments_.push_back(made);
        if (moments_.size() > kMostMoments) {
            oldest = moments_.front().lock();
            moments_.pop_front();
        }
    }
    if (oldest) oldest->ready();  // arrays that nobody waits for give their events back so
    return made;
}

namespace {

Device& device(Device* handle) { return need(handle, "device"); }

void get_description(PJRT_Device_GetDescription_Args& args) {
    args.device_description = &device(args.device).description();
}

void is_addressable(PJRT_Device_IsAddressable_Args& args) {
    args.is_addressable = device(args.device).addressable();
}

void local_hardware_id(PJRT_Device_LocalHardwareId_Args& args) {
    args.local_hardware_id = device(args.device).number();
}

void memories(PJRT_Device_AddressableMemories_Args& args) {
    const std::vector<Memory*>& list = device(args.device).memories();
    args.memories = list.data();
    args.num_memories = list.size();
}

void default_memory(PJRT_Device_DefaultMemory_Args& args) {
    args.memory = &device(args.device).default_memory();
}

void memory_stats(PJRT_Device_MemoryStats_Args& args) {
    Device& asked = device(args.device);
    asked.stream();
    const cann::PoolStats stats = asked.pool()->stats();
    // The caller's struct holds anything: what is not known is said to be so.
    clear_from(args, offsetof(PJRT_Device_MemoryStats_Args, bytes_in_use));
    const auto put = [](int64_t& field, bool& is_set, std::size_t value) {
        field = static_cast<int64_t>(value);
        is_set = true;
    };
    args.bytes_in_use = static_cast<int64_t>(stats.allocated);
    put(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set, stats.peak_allocated);
    put(args.num_allocs, args.num_allocs_is_set, stats.allocations);
    put(args.bytes_limit, args.bytes_limit_is_set, cann::Device(asked.number()).memory_info().total);
    put(args.pool_bytes, args.pool_bytes_is_set, stats.reserved);
    put(args.peak_pool_bytes, args.peak_pool_bytes_is_set, stats.peak_reserved);
}

void clear_memory_stats(PJRT_Device_ClearMemoryStats_Args& args) {
    device(args.device).stream();
    device(args.device).pool()->reset_peaks();
}

// The description keeps them, so there is nothing to delete.
void attributes(PJRT_Device_GetAttributes_Args& args) {
    const NamedValues& values = device(args.device).description().attributes();
    args.attributes = values.data();
    args.num_attributes = values.size();
    args.device_attributes = nullptr;
    args.attributes_deleter = [](NamedValues*) {};
}

}  // namespace

void bind_device(PJRT_Api& api) {
    api.PJRT_Device_GetDescription = slot<get_description>;
    api.PJRT_Device_IsAddressable = slot<is_addressable>;
    api.PJRT_Device_LocalHardwareId = slot<local_hardware_id>;
    api.PJRT_Device_AddressableMemories = slot<memories>;
    api.PJRT_Device_DefaultMemory = slot<default_memory>;
    api.PJRT_Device_MemoryStats = slot<memory_stats>;
    api.PJRT_Device_ClearMemoryStats = slot<clear_memory_stats>;
    api.PJRT_Device_GetAttributes = slot<attributes>;
}

}  // namespace npu::pjrt
