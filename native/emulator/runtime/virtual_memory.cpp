// Virtual memory: reserved address ranges, physical memory (memory files), mappings of one into the other.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "memory.h"
#include "runtime.h"

using namespace npu::emulator;

namespace {

struct Physical {
    SharedFile file;
    int fd = -1;
    std::size_t size = 0;
    Device* device = nullptr;
    uint32_t mapped = 0;
    bool freed = false;
    bool imported = false;  ///< another process accounts for it
};

/// Guarded by `mutex`; lives as long as the process.
struct Tables {
    std::mutex mutex;
    std::unordered_map<void*, std::size_t> reserved;
    std::unordered_map<void*, Physical*> handles;
    std::unordered_map<void*, Physical*> mappings;
};

Tables& tables() {
    static Tables* all = new Tables;
    return *all;
}

void drop_if_unused(Physical* physical) {
    if (!physical->freed || physical->mapped > 0) return;
    if (!physical->imported) Memory::get().give_back(*physical->device, physical->size);
    close(physical->fd);
    delete physical;
}

aclError find_handle(aclrtDrvMemHandle handle, const char* function, Physical** physical) {
    const auto found = tables().handles.find(handle);
    if (found == tables().handles.end()) {
        return fail(
            ACL_ERROR_RT_INVALID_HANDLE,
            std::string(function) + ": the physical memory was freed or never allocated by this process");
    }
    *physical = found->second;
    return ACL_SUCCESS;
}

/// The reserved range that holds [address, address + size) wholly.
bool in_reserved_range(const void* address, std::size_t size) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    for (const auto& [range, length] : tables().reserved) {
        const auto first = reinterpret_cast<uintptr_t>(range);
        if (begin >= first && size <= length && begin - first <= length - size) return true;
    }
    return false;
}

/// A shareable handle: pid and file descriptor of the exporter, and 20 bits of the file's nonce.
constexpr uint32_t kNonceMask = (1U << 20) - 1;

uint64_t pack(const SharedFile& file) {
    return static_cast<uint64_t>(file.pid) << 42 | static_cast<uint64_t>(file.fd) << 20 | file.nonce;
}

SharedFile unpack(uint64_t handle) {
    return {static_cast<int32_t>(handle >> 42), static_cast<int32_t>(handle >> 20 & ((1U << 22) - 1)),
            static_cast<uint32_t>(handle) & kNonceMask};
}

}  // namespace

aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t) {
    constexpr const char* name = "aclrtReserveMemAddress";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(virPtr, name, "virPtr"));
    if (size == 0 || alignment != 0)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": size has to be positive and alignment 0");
    void* range = mmap(expectPtr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    std::string(name) + ": the host has no address range of " + std::to_string(size) +
                        " bytes: " + std::strerror(errno));
    }
    madvise(range, size, MADV_DONTFORK);
    std::lock_guard lock(tables().mutex);
    tables().reserved[range] = size;
    *virPtr = range;
    return ACL_SUCCESS;
}

aclError aclrtReleaseMemAddress(void* virPtr) {
    constexpr const char* name = "aclrtReleaseMemAddress";
    if (Runtime::get().lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    std::lock_guard lock(tables().mutex);
    const auto found = tables().reserved.find(virPtr);
    if (found == tables().reserved.end())
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": no reserved range begins at that address");
    for (const auto& [address, physical] : tables().mappings) {
        const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(virPtr);
        if (offset < found->second)
            return fail(ACL_ERROR_INVALID_PARAM,
                        std::string(name) + ": memory is mapped in the range; unmap it first");
    }
    munmap(virPtr, found->second);
    tables().reserved.erase(found);
    return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop,
                             uint64_t flags) {
    constexpr const char* name = "aclrtMallocPhysical";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(handle, name, "handle"));
    NPU_RETURN_IF_ERROR(require(prop, name, "prop"));
    if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
        return unsupported("aclrtMallocPhysical on the host", "Ask for ACL_MEM_LOCATION_TYPE_DEVICE.");
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (size == 0 || size % page != 0 || flags != 0) {
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": size has to be a multiple of " +
                                                 std::to_string(page) + " bytes and flags 0");
    }
    Device* device = nullptr;
    NPU_RETURN_IF_ERROR(Runtime::get().find_device(static_cast<int32_t>(prop->location.id), name, &device));
    if (!Memory::get().take(*device, size)) return out_of_memory(name, *device, size);
    SharedFile file = create_shared(size);
    if (file.fd < 0) {
        Memory::get().give_back(*device, size);
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    "EL0004: Failed to allocate memory: " + std::string(name) +
                        ": the host gave no memory file: " + std::strerror(errno));
    }
    auto* physical = new Physical{file, file.fd, size, device};
    std::lock_guard lock(tables().mutex);
    tables().handles[physical] = physical;
    *handle = physical;
    return ACL_SUCCESS;
}

/// Memory that is still mapped is given back when it is unmapped.
aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    if (Runtime::get().lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    std::lock_guard lock(tables().mutex);
    Physical* physical = nullptr;
    NPU_RETURN_IF_ERROR(find_handle(handle, "aclrtFreePhysical", &physical));
    tables().handles.erase(handle);
    physical->freed = true;
    drop_if_unused(physical);
    return ACL_SUCCESS;
}

aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
    constexpr const char* name = "aclrtMapMem";
    NPU_RETURN_IF_ERROR(use(name));
    std::lock_guard lock(tables().mutex);
    Physical* physical = nullptr;
    NPU_RETURN_IF_ERROR(find_handle(handle, name, &physical));
    if (flags != 0 || offset != 0 || size != physical->size)
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": flags and offset have to be 0, and size the " +
                        std::to_string(physical->size) + " bytes of the physical memory");
    if (!in_reserved_range(virPtr, size))
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": the addresses are not in a reserved range");
    if (tables().mappings.contains(virPtr))
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": memory is mapped there already; unmap it first");
    void* mapped = mmap(virPtr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->fd, 0);
    if (mapped == MAP_FAILED)
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(name) + ": " + std::strerror(errno));
    madvise(virPtr, size, MADV_HUGEPAGE);
    madvise(virPtr, size, MADV_DONTFORK);
    ++physical->mapped;
    tables().mappings[virPtr] = physical;
    Memory::get().insert(virPtr, {size, Place::mapped, physical->device, nullptr, 0, {}});
    return ACL_SUCCESS;
}

/// The caller has synchronised the work that uses the memory, as with CANN.
aclError aclrtUnmapMem(void* virPtr) {
    constexpr const char* name = "aclrtUnmapMem";
    if (Runtime::get().lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    std::lock_guard lock(tables().mutex);
    const auto found = tables().mappings.find(virPtr);
    if (found == tables().mappings.end())
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": no mapping begins at that address");
    Physical* physical = found->second;
    // The range stays reserved: pages without access take the place of the mapping.
    void* range = mmap(virPtr, physical->size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (range == MAP_FAILED)
        return fail(ACL_ERROR_RT_MEMORY_FREE, std::string(name) + ": " + std::strerror(errno));
    madvise(range, physical->size, MADV_DONTFORK);
    Memory::get().remove(virPtr, {Place::mapped});
    tables().mappings.erase(found);
    --physical->mapped;
    drop_if_unused(physical);
    return ACL_SUCCESS;
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop, aclrtMemGranularityOptions option,
                                          size_t* granularity) {
    constexpr const char* name = "aclrtMemGetAllocationGranularity";
    NPU_RETURN_IF_ERROR(require(prop, name, "prop"));
    NPU_RETURN_IF_ERROR(require(granularity, name, "granularity"));
    if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": the option is not one of CANN's");
    *granularity = 2 * 1024 * 1024;
    return ACL_SUCCESS;
}

/// Any process of the same user on this machine may import the handle while this process holds the memory.
aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType, uint64_t,
                                         uint64_t* shareableHandle) {
    constexpr const char* name = "aclrtMemExportToShareableHandle";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(shareableHandle, name, "shareableHandle"));
    std::lock_guard lock(tables().mutex);
    Physical* physical = nullptr;
    NPU_RETURN_IF_ERROR(find_handle(handle, name, &physical));
    *shareableHandle = pack(physical->file);
    return ACL_SUCCESS;
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                           aclrtDrvMemHandle* handle) {
    constexpr const char* name = "aclrtMemImportFromShareableHandle";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(handle, name, "handle"));
    Device* device = nullptr;
    NPU_RETURN_IF_ERROR(Runtime::get().find_device(deviceId, name, &device));
    const SharedFile file = unpack(shareableHandle);
    const int fd = open_shared(file);
    const off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size <= 0) {
        if (fd >= 0) close(fd);
        return fail(ACL_ERROR_RT_INVALID_HANDLE,
                    std::string(name) + ": process " + std::to_string(file.pid) +
                        " does not hold that memory any more; keep it alive until it was imported here");
    }
    auto* physical = new Physical{file, fd, static_cast<std::size_t>(size), device};
    physical->imported = true;
    std::lock_guard lock(tables().mutex);
    tables().handles[physical] = physical;
    *handle = physical;
    return ACL_SUCCESS;
}

/// Which processes may import is the operating system's business here (those of the same user).
aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid, size_t pidNum) {
    constexpr const char* name = "aclrtMemSetPidToShareableHandle";
    NPU_RETURN_IF_ERROR(require(pid, name, "pid"));
    if (pidNum == 0 || unpack(shareableHandle).pid != getpid())
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": name at least one process, and a handle of one's own");
    return ACL_SUCCESS;
}
