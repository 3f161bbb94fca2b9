// Pinned host memory, and host memory of the application that is registered with the runtime.
#include <sys/mman.h>

#include "memory.h"
#include "runtime.h"

using namespace npu::emulator;

namespace {

aclError allocate(void** address, std::size_t size, const char* function) {
    NPU_RETURN_IF_ERROR(usable(function));
    NPU_RETURN_IF_ERROR(require(address, function, "hostPtr"));
    if (size == 0)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": size is 0; ask for at least a byte");
    const Mapping mapping = map_private(size);
    if (mapping.address == nullptr) {
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    "EL0004: Failed to allocate memory: " + std::string(function) + ": the host has no " +
                        std::to_string(size) + " bytes left");
    }
    Memory::get().insert(mapping.address, {size, Place::host, nullptr, mapping.begin, mapping.size, {}});
    *address = mapping.address;
    return ACL_SUCCESS;
}

aclError release(void* address, const char* function) {
    NPU_RETURN_IF_ERROR(require(address, function, "hostPtr"));
    const auto block = Memory::get().remove(address, {Place::host});
    if (!block) {
        return fail(
            ACL_ERROR_RT_PARAM_INVALID,
            std::string(function) + ": no host allocation begins at that address, or it was freed already");
    }
    if (Runtime::get().lost_in_fork) {
        munmap(block->mapping, block->mapping_size);
        return ACL_SUCCESS;
    }
    unmap_when_idle(nullptr, block->mapping, block->mapping_size);
    return ACL_SUCCESS;
}

aclError register_range(void* address, uint64_t size, const char* function) {
    NPU_RETURN_IF_ERROR(usable(function));
    NPU_RETURN_IF_ERROR(require(address, function, "ptr"));
    if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, std::string(function) + ": size is 0");
    if (Memory::get().find(address)) {
        return fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                    std::string(function) + ": the address is in memory that the runtime knows already");
    }
    Memory::get().insert(address, {size, Place::registered, nullptr, nullptr, 0, {}});
    return ACL_SUCCESS;
}

}  // namespace

aclError aclrtMallocHost(void** hostPtr, size_t size) { return allocate(hostPtr, size, "aclrtMallocHost"); }

/// cfg may name a module or ask for one address on host and device, which emulated memory always has.
aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig*) {
    return allocate(ptr, size, "aclrtMallocHostWithCfg");
}

aclError aclrtFreeHost(void* hostPtr) { return release(hostPtr, "aclrtFreeHost"); }

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
    constexpr const char* name = "aclrtHostRegister";
    if (type != ACL_HOST_REGISTER_MAPPED)
        return unsupported("aclrtHostRegister with another type than ACL_HOST_REGISTER_MAPPED");
    NPU_RETURN_IF_ERROR(require(devPtr, name, "devPtr"));
    NPU_RETURN_IF_ERROR(register_range(ptr, size, name));
    *devPtr = ptr;
    return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
    constexpr const char* name = "aclrtHostRegisterV2";
    if ((flag & ~(ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED)) != 0)
        return unsupported(
            "aclrtHostRegisterV2 with other flags than ACL_HOST_REG_MAPPED and ACL_HOST_REG_PINNED");
    return register_range(ptr, size, name);
}

aclError aclrtHostUnregister(void* ptr) {
    NPU_RETURN_IF_ERROR(require(ptr, "aclrtHostUnregister", "ptr"));
    if (Memory::get().remove(ptr, {Place::registered})) return ACL_SUCCESS;
    return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                "aclrtHostUnregister: no registered memory begins there");
}

/// Host and device share the address space, so the address is the host's own.
aclError aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
    constexpr const char* name = "aclrtHostGetDevicePointer";
    NPU_RETURN_IF_ERROR(require(pDevice, name, "pDevice"));
    if (flag != 0) return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": flag has to be 0");
    const auto found = Memory::get().find(pHost);
    if (!found || found->second.device != nullptr) {
        return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
                    std::string(name) + ": the address is in no pinned or registered host memory");
    }
    *pDevice = pHost;
    return ACL_SUCCESS;
}
