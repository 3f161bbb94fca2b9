#include "shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>

namespace npu::emulator {

namespace {

/// Nonces have 20 bits, so that they fit into a shareable handle beside a pid and a file descriptor.
constexpr uint32_t kNonceMask = (1U << 20) - 1;

std::string file_name(uint32_t nonce) { return "npu-emulator-" + std::to_string(nonce); }

}  // namespace

SharedFile create_shared(std::size_t size) {
    static thread_local std::mt19937 random{std::random_device{}()};
    SharedFile file{getpid(), -1, static_cast<uint32_t>(random()) & kNonceMask};
    const int fd = memfd_create(file_name(file.nonce).c_str(), MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) != 0) {
        close(fd);
        return file;
    }
    file.fd = fd;
    return file;
}

int open_shared(const SharedFile& file) {
    const std::string path = "/proc/" + std::to_string(file.pid) + "/fd/" + std::to_string(file.fd);
    char target[128] = {};
    if (readlink(path.c_str(), target, sizeof target - 1) < 0) return -1;
    if (std::string(target).find(file_name(file.nonce) + " ") == std::string::npos) return -1;
    return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace npu::emulator
