#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime.h"

namespace npu::emulator {

namespace {
constexpr std::size_t kHugePage = 2 * 1024 * 1024;

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }
}  // namespace

Memory& Memory::get() {
    static Memory* memory = new Memory;  // outlives static destruction, as Runtime does
    return *memory;
}

bool Memory::take(const Device& device, std::size_t size) {
    std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(device.index);
    if (used_.size() <= index) used_.resize(index + 1);
    const uint64_t total = Runtime::get().config.device_memory;
    if (size > total || used_[index] > total - size) return false;
    used_[index] += size;
    return true;
}

void Memory::give_back(const Device& device, std::size_t size) {
    std::lock_guard lock(mutex_);
    used_.at(static_cast<std::size_t>(device.index)) -= size;
}

uint64_t Memory::used(const Device& device) {
    std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(device.index);
    return index < used_.size() ? used_[index] : 0;
}

void Memory::insert(void* address, const Block& block) {
    std::lock_guard lock(mutex_);
    blocks_[reinterpret_cast<uintptr_t>(address)] = block;
}

std::optional<Block> Memory::remove(void* address, std::initializer_list<Place> places) {
    std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
    if (found == blocks_.end() || std::ranges::find(places, found->second.place) == places.end())
        return std::nullopt;
    Block block = found->second;
    blocks_.erase(found);
    return block;
}

std::optional<std::pair<void*, Block>> Memory::find(const void* address) {
    std::lock_guard lock(mutex_);
    const auto key = reinterpret_cast<uintptr_t>(address);
    auto after = blocks_.upper_bound(key);
    if (after == blocks_.begin()) return std::nullopt;
    const auto& [begin, block] = *std::prev(after);
    if (key - begin >= block.size) return std::nullopt;
    return std::pair{reinterpret_cast<void*>(begin), block};
}

Mapping map_private(std::size_t size) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const bool huge = size >= kHugePage;
    Mapping mapping;
    mapping.size = round_up(size, page) + (huge ? kHugePage - page : 0);
    mapping.begin = mmap(nullptr, mapping.size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping.begin == MAP_FAILED) return {};
    mapping.address = mapping.begin;
    if (huge) {
        mapping.address =
            reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(mapping.begin), kHugePage));
        madvise(mapping.begin, mapping.size, MADV_HUGEPAGE);
    }
    return mapping;
}

void unmap_when_idle(Device* device, void* mapping, std::size_t size) {
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    for (const auto& each : runtime.devices) {
        if (each->outstanding == 0 || (device != nullptr && device != each.get())) continue;
        each->graveyard.emplace_back(mapping, size);
        return;
    }
    lock.unlock();
    munmap(mapping, size);
}

void unmap_graveyard(Device& device) {
    for (const auto& [mapping, size] : device.graveyard) munmap(mapping, size);
    device.graveyard.clear();
}

aclError out_of_memory(const char* function, const Device& device, std::size_t size) {
    const uint64_t total = Runtime::get().config.device_memory;
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                "EL0004: Failed to allocate memory: " + std::string(function) + " asked device " +
                    std::to_string(device.index) + " for " + std::to_string(size) + " bytes, of its " +
                    std::to_string(total) + " bytes " + std::to_string(total - Memory::get().used(device)) +
                    " are free; free some, or give the emulated device more with NPU_EMULATOR_HBM_GB");
}

aclError take_budget(const char* function, std::size_t size, Device** device, std::size_t* accounted) {
    NPU_RETURN_IF_ERROR(use(function));
    if (size == 0)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": size is 0; ask for at least a byte");
    Runtime& runtime = Runtime::get();
    {
        Lock lock(runtime.scheduler.mutex);
        Context* context = nullptr;
        NPU_RETURN_IF_ERROR(runtime.need_context(function, &context));
        *device = context->device;
    }
    *accounted = size > SIZE_MAX - kAccountingUnit ? size : round_up(size, kAccountingUnit);
    if (Memory::get().take(**device, *accounted)) return ACL_SUCCESS;
    return out_of_memory(function, **device, size);
}

}  // namespace npu::emulator

using namespace npu::emulator;

namespace {

aclError allocate(void** address, std::size_t size, const char* function) {
    NPU_RETURN_IF_ERROR(require(address, function, "devPtr"));
    Device* device = nullptr;
    std::size_t accounted = 0;
    NPU_RETURN_IF_ERROR(take_budget(function, size, &device, &accounted));
    const Mapping mapping = map_private(accounted);
    if (mapping.address == nullptr) {
        Memory::get().give_back(*device, accounted);
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    "EL0004: Failed to allocate memory: " + std::string(function) + ": the host has no " +
                        std::to_string(size) + " bytes left: " + std::strerror(errno));
    }
    // A fork cannot use the device; sharing its pages with one would only make both copy them on write.
    madvise(mapping.begin, mapping.size, MADV_DONTFORK);
    Memory::get().insert(mapping.address,
                         {accounted, Place::device, device, mapping.begin, mapping.size, {}});
    *address = mapping.address;
    return ACL_SUCCESS;
}

aclError release(void* address, const char* function) {
    if (Runtime::get().lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    NPU_RETURN_IF_ERROR(require(address, function, "devPtr"));
    const auto block = Memory::get().remove(address, {Place::device});
    if (!block) {
        return fail(
            ACL_ERROR_RT_PARAM_INVALID,
            std::string(function) + ": no device allocation begins at that address, or it was freed already");
    }
    Memory::get().give_back(*block->device, block->size);
    unmap_when_idle(block->device, block->mapping, block->mapping_size);
    if (block->file) close(block->file->fd);
    return ACL_SUCCESS;
}

}  // namespace

/// The memory is page-aligned; all policies are the same on the host.
aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
    return allocate(devPtr, size, "aclrtMalloc");
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
    return allocate(devPtr, size, "aclrtMallocAlign32");
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy) {
    return allocate(devPtr, size, "aclrtMallocCached");
}

/// Work queued on the device may still use the memory: it is given back to the host when that work is done.
aclError aclrtFree(void* devPtr) { return release(devPtr, "aclrtFree"); }

aclError aclrtFreeWithDevSync(void* devPtr) {
    NPU_RETURN_IF_ERROR(aclrtSynchronizeDevice());
    return release(devPtr, "aclrtFreeWithDevSync");
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
    constexpr const char* name = "aclrtGetMemInfo";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(free, name, "free"));
    NPU_RETURN_IF_ERROR(require(total, name, "total"));
    const bool ddr = attr == ACL_DDR_MEM || attr == ACL_DDR_MEM_HUGE || attr == ACL_DDR_MEM_NORMAL ||
                     attr == ACL_DDR_MEM_P2P_HUGE || attr == ACL_DDR_MEM_P2P_NORMAL;
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    Context* context = nullptr;
    NPU_RETURN_IF_ERROR(runtime.need_context(name, &context));
    *total = ddr ? 0 : runtime.config.device_memory;
    *free = ddr ? 0 : *total - Memory::get().used(*context->device);
    return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void* ptr, void** pbase, size_t* psize) {
    const auto found = Memory::get().find(ptr);
    if (!found) {
        return fail(ACL_ERROR_INVALID_PARAM,
                    "aclrtMemGetAddressRange: the address is in no memory that the runtime allocated");
    }
    if (pbase != nullptr) *pbase = found->first;
    if (psize != nullptr) *psize = found->second.size;
    return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
    NPU_RETURN_IF_ERROR(usable("aclrtPointerGetAttributes"));
    NPU_RETURN_IF_ERROR(require(attributes, "aclrtPointerGetAttributes", "attributes"));
    *attributes = {};
    attributes->location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    const auto found = Memory::get().find(ptr);
    if (!found) return ACL_SUCCESS;
    const Block& block = found->second;
    attributes->location.type =
        block.device != nullptr ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
    attributes->location.id = block.device != nullptr ? static_cast<uint32_t>(block.device->index) : 0;
    attributes->pageSize = static_cast<uint32_t>(sysconf(_SC_PAGESIZE));
    return ACL_SUCCESS;
}
