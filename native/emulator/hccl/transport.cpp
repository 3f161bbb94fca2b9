#include "transport.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "communicator.h"

namespace npu::emulator::hccl {

SharedCopy::SharedCopy(const void* from, uint64_t bytes) : file_(create_shared(bytes)) {
    if (file_.fd < 0) throw std::bad_alloc();
    write(from, bytes, 0);
}
SharedCopy::~SharedCopy() { close(file_.fd); }

void SharedCopy::write(const void* from, uint64_t bytes, uint64_t offset) {
    auto* at = static_cast<const std::byte*>(from);
    while (bytes > 0) {
        const ssize_t done = pwrite(file_.fd, at, bytes, static_cast<off_t>(offset));
        if (done <= 0) throw std::bad_alloc();
        at += done, offset += static_cast<uint64_t>(done), bytes -= static_cast<uint64_t>(done);
    }
}

void read_from(Communicator& communicator, uint32_t peer, const Source& source, const std::byte* inlined,
               uint64_t offset, void* to, uint64_t bytes, const char* function) {
    auto* at = static_cast<std::byte*>(to);
    const int32_t process = communicator.segment ? communicator.segment->slot(peer).process.load() : getpid();
    if (source.place == Source::inlined) {
        std::memcpy(at, inlined + offset, bytes);
        return;
    }
    if (source.place == Source::process && process == getpid()) {
        std::memmove(at, reinterpret_cast<const std::byte*>(source.address) + offset, bytes);
        return;
    }
    const int fd = source.place == Source::file ? open_shared(source.shared) : -1;
    while (bytes > 0) {
        // Pieces that stay in the cache while the kernel pins and copies them.
        const uint64_t piece = std::min<uint64_t>(bytes, 1U << 20);
        iovec here{at, piece};
        iovec there{reinterpret_cast<std::byte*>(source.address) + offset, piece};
        const ssize_t done = source.place == Source::file ? pread(fd, at, piece, static_cast<off_t>(offset))
                                                          : process_vm_readv(process, &here, 1, &there, 1, 0);
        if (done <= 0) {
            const int error = errno;
            if (fd >= 0) close(fd);
            if (!communicator.segment->alive(peer)) communicator.lost(peer, function);
            communicator.fail(HCCL_E_INTERNAL, std::string(function) + " cannot read the memory of rank " +
                                                   std::to_string(peer) + ": " + std::strerror(error));
        }
        at += done, offset += static_cast<uint64_t>(done), bytes -= static_cast<uint64_t>(done);
    }
    if (fd >= 0) close(fd);
}

}  // namespace npu::emulator::hccl
