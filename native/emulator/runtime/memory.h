// Every range of memory that the runtime handed out or was told about, and how much of each device is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "ipc.h"
#include "objects.h"

namespace npu::emulator {

enum class Place {
    device,      ///< aclrtMalloc
    host,        ///< aclrtMallocHost
    registered,  ///< the application's own host memory, aclrtHostRegister
    imported,    ///< another process's device memory
    mapped,      ///< physical memory mapped into a reserved range, aclrtMapMem
};

struct Block {
    std::size_t size = 0;  ///< bytes handed out, in whole units of kAccountingUnit where they are accounted
    Place place = Place::device;
    Device* device = nullptr;  ///< nullptr for host memory
    void* mapping = nullptr;   ///< what to unmap; nullptr: nothing
    std::size_t mapping_size = 0;
    std::optional<SharedFile> file;  ///< memory file behind it, once exported
};

constexpr std::size_t kAccountingUnit = 4096;

/// Thread-safe. Addresses are unified: host and device memory are the same address space.
class Memory {
  public:
    static Memory& get();

    /// Takes `size` bytes of the device's budget; false: that much is not left.
    bool take(const Device& device, std::size_t size);
    void give_back(const Device& device, std::size_t size);
    uint64_t used(const Device& device);

    void insert(void* address, const Block& block);
    /// Removes the block that begins at the address, if it is at one of the places.
    std::optional<Block> remove(void* address, std::initializer_list<Place> places);
    /// The block that holds the address, and where it begins.
    std::optional<std::pair<void*, Block>> find(const void* address);
    /// Changes a block in place under the lock; false: none begins there.
    template <class Change>
    bool update(void* address, Change change) {
        std::lock_guard lock(mutex_);
        const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
        if (found == blocks_.end()) return false;
        change(found->second);
        return true;
    }

  private:
    std::mutex mutex_;
    std::map<uintptr_t, Block> blocks_;
    std::vector<uint64_t> used_;
};

/// Private memory of the host, aligned to its huge pages where it is that large; nullptr: the host refused.
struct Mapping {
    void* address = nullptr;
    void* begin = nullptr;
    std::size_t size = 0;
};
Mapping map_private(std::size_t size);

/// Unmaps at once, or when the device's outstanding work is done: that work may still use it.
void unmap_when_idle(Device* device, void* mapping, std::size_t size);

/// Unmaps what waited for the device to become idle. Needs Scheduler::mutex.
void unmap_graveyard(Device& device);

/// ACL_ERROR_RT_MEMORY_ALLOCATION with the figures.
aclError out_of_memory(const char* function, const Device& device, std::size_t size);

/// Checks the arguments of a device allocation and takes its bytes of the current device's budget.
aclError take_budget(const char* function, std::size_t size, Device** device, std::size_t* accounted);

}  // namespace npu::emulator
