// Device memory shared between processes (aclrtIpcMem*).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "memory.h"
#include "runtime.h"

using namespace npu::emulator;

namespace {

/// The imports of this process by key, so that one key is mapped once and closed by its last user.
struct Imports {
    std::mutex mutex;
    struct Import {
        void* mapping;
        std::size_t mapping_size;
        void* address;
        uint32_t users;
    };
    std::map<std::string, Import> by_key;
};

Imports& imports() {
    static Imports* all = new Imports;
    return *all;
}

struct Key {
    SharedFile file;
    unsigned long offset = 0;
    unsigned long size = 0;

    std::string text() const {
        char buffer[65];
        std::snprintf(buffer, sizeof buffer, "npu:%d:%d:%u:%lx:%lx", file.pid, file.fd, file.nonce, offset,
                      size);
        return buffer;
    }
    static bool parse(const char* text, Key* key) {
        return std::sscanf(text, "npu:%d:%d:%u:%lx:%lx", &key->file.pid, &key->file.fd, &key->file.nonce,
                           &key->offset, &key->size) == 5;
    }
};

/// Moves an allocation into a memory file, at the same addresses. The device is idle while it happens.
aclError back_with_file(void* begin, Block* block, const char* function) {
    const SharedFile file = create_shared(block->size);
    if (file.fd < 0) {
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                    std::string(function) + ": the host gave no memory file: " + std::strerror(errno));
    }
    Runtime& runtime = Runtime::get();
    Lock lock(runtime.scheduler.mutex);
    for (Stream* stream : std::vector<Stream*>(block->device->streams)) {
        if (std::ranges::find(block->device->streams, stream) != block->device->streams.end())
            runtime.scheduler.wait(lock, *stream, std::nullopt);
    }
    const ssize_t written = pwrite(file.fd, begin, block->size, 0);
    if (written != static_cast<ssize_t>(block->size) ||
        mmap(begin, block->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.fd, 0) == MAP_FAILED) {
        close(file.fd);
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(function) + ": " + std::strerror(errno));
    }
    madvise(begin, block->size, MADV_DONTFORK);
    block->file = file;
    Memory::get().update(begin, [&](Block& kept) { kept.file = file; });
    return ACL_SUCCESS;
}

}  // namespace

/// key: len >= 65 bytes. The memory stays importable while this process holds it.
aclError aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key, size_t len, uint64_t) {
    constexpr const char* name = "aclrtIpcMemGetExportKey";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(devPtr, name, "devPtr"));
    NPU_RETURN_IF_ERROR(require(key, name, "key"));
    auto found = Memory::get().find(devPtr);
    if (!found || found->second.place != Place::device)
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": the address is not in memory of aclrtMalloc");
    auto& [begin, block] = *found;
    Key exported;
    exported.offset = reinterpret_cast<uintptr_t>(devPtr) - reinterpret_cast<uintptr_t>(begin);
    exported.size = size;
    if (size == 0 || size > block.size - exported.offset)
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": size goes beyond the allocation");
    if (!block.file) NPU_RETURN_IF_ERROR(back_with_file(begin, &block, name));
    exported.file = *block.file;
    const std::string text = exported.text();
    if (len <= text.size())
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": the key needs 65 bytes, not " + std::to_string(len));
    std::memcpy(key, text.c_str(), text.size() + 1);
    return ACL_SUCCESS;
}

/// Which processes may import is the operating system's business here (those of the same user).
aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
    constexpr const char* name = "aclrtIpcMemSetImportPid";
    NPU_RETURN_IF_ERROR(require(key, name, "key"));
    NPU_RETURN_IF_ERROR(require(pid, name, "pid"));
    Key parsed;
    if (num > 0 && Key::parse(key, &parsed) && parsed.file.pid == getpid()) return ACL_SUCCESS;
    return fail(ACL_ERROR_INVALID_PARAM,
                std::string(name) + ": name at least one process, and a key of one's own");
}

aclError aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t) {
    constexpr const char* name = "aclrtIpcMemImportByKey";
    NPU_RETURN_IF_ERROR(use(name));
    NPU_RETURN_IF_ERROR(require(devPtr, name, "devPtr"));
    NPU_RETURN_IF_ERROR(require(key, name, "key"));
    Key parsed;
    if (!Key::parse(key, &parsed))
        return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": that is no key of the emulator");
    Device* device = nullptr;
    {
        Runtime& runtime = Runtime::get();
        Lock lock(runtime.scheduler.mutex);
        Context* context = nullptr;
        NPU_RETURN_IF_ERROR(runtime.need_context(name, &context));
        device = context->device;
    }
    std::lock_guard lock(imports().mutex);
    if (const auto known = imports().by_key.find(key); known != imports().by_key.end()) {
        ++known->second.users;
        *devPtr = known->second.address;
        return ACL_SUCCESS;
    }
    const int fd = open_shared(parsed.file);
    if (fd < 0) {
        return fail(ACL_ERROR_RT_INVALID_HANDLE,
                    std::string(name) + ": process " + std::to_string(parsed.file.pid) +
                        " does not hold that memory any more; keep it alive until it was imported here");
    }
    const std::size_t size = static_cast<std::size_t>(lseek(fd, 0, SEEK_END));
    void* mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapping == MAP_FAILED)
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(name) + ": " + std::strerror(errno));
    madvise(mapping, size, MADV_DONTFORK);
    Memory::get().insert(mapping, {size, Place::imported, device, nullptr, 0, {}});
    void* address = static_cast<std::byte*>(mapping) + parsed.offset;
    imports().by_key[key] = {mapping, size, address, 1};
    *devPtr = address;
    return ACL_SUCCESS;
}

/// In the importing process: unmaps when the last user closed. In the exporting one there is nothing to
/// close.
aclError aclrtIpcMemClose(const char* key) {
    constexpr const char* name = "aclrtIpcMemClose";
    if (Runtime::get().lost_in_fork) return ACL_SUCCESS;  // the parent's, nothing of it is here
    NPU_RETURN_IF_ERROR(require(key, name, "key"));
    std::lock_guard lock(imports().mutex);
    const auto found = imports().by_key.find(key);
    if (found == imports().by_key.end()) {
        Key parsed;
        if (Key::parse(key, &parsed) && parsed.file.pid == getpid()) return ACL_SUCCESS;
        return fail(ACL_ERROR_INVALID_PARAM,
                    std::string(name) + ": this process imported no memory by that key");
    }
    if (--found->second.users > 0) return ACL_SUCCESS;
    const auto block = Memory::get().remove(found->second.mapping, {Place::imported});
    unmap_when_idle(block ? block->device : nullptr, found->second.mapping, found->second.mapping_size);
    imports().by_key.erase(found);
    return ACL_SUCCESS;
}
