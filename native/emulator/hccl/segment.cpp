#include "segment.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>
#include <fstream>
#include <iterator>
#include <system_error>

namespace npu::emulator::hccl {
namespace {

std::size_t pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

std::size_t Segment::bytes(uint32_t ranks) {
    return pages(sizeof(Header)) + pages(sizeof(RankSlot) * ranks) + pages(sizeof(Mailbox) * ranks * ranks);
}

Segment::Segment(int fd, uint32_t ranks) : ranks_(ranks), size_(bytes(ranks)) {
    void* begin = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = errno;
    close(fd);
    if (begin == MAP_FAILED) throw std::system_error(error, std::generic_category(), "mmap");
    madvise(begin, size_, MADV_DONTFORK);
    auto* at = static_cast<std::byte*>(begin);
    header_ = reinterpret_cast<Header*>(at);
    slots_ = reinterpret_cast<RankSlot*>(at += pages(sizeof(Header)));
    mailboxes_ = reinterpret_cast<Mailbox*>(at + pages(sizeof(RankSlot) * ranks));
}

Segment::~Segment() { munmap(header_, size_); }

bool Segment::alive(uint32_t rank) {
    const int32_t process = slot(rank).process;
    if (process == getpid()) return true;
    return process != 0 && start_time_of(process) == slot(rank).start_time;
}

uint64_t start_time_of(int32_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    // proc(5): the name in brackets may hold anything; after it come the state and 18 more fields.
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 2 >= text.size()) return 0;
    const char state = text[name_end + 2];
    if (state == 'Z' || state == 'X') return 0;
    std::size_t at = name_end + 2;
    for (int field = 0; field < 19; ++field) at = text.find(' ', at) + 1;
    char* end = nullptr;
    const uint64_t start = std::strtoull(text.c_str() + at, &end, 10);
    // The size of its memory comes next: none is left of a process that was killed and is not a zombie yet.
    return std::strtoull(end, nullptr, 10) == 0 ? 0 : start;
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t value, int milliseconds) {
    const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace npu::emulator::hccl
