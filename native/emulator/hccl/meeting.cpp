#include "meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

namespace npu::emulator::hccl {
namespace {

using Clock = std::chrono::steady_clock;

/// The same for all members, and another one for other members or ids.
uint64_t key_of(const std::vector<uint32_t>& ranks, uint64_t id) {
    uint64_t key = 0xcbf29ce484222325U ^ id;  // FNV-1a
    for (const uint32_t rank : ranks) key = (key ^ (rank + 1)) * 0x100000001b3U;
    return key == 0 ? 1 : key;
}

/// Files of this process that ranks have not come to yet.
struct Open {
    std::mutex mutex;
    std::vector<SharedFile> files;
};
Open& open_files() {
    static Open* all = new Open;
    return *all;
}

}  // namespace

std::optional<SharedFile> meeting_place() {
    const SharedFile file = create_shared(Segment::bytes(kMaxRanks));  // sparse: pages come as they are used
    if (file.fd < 0) return std::nullopt;
    std::lock_guard lock(open_files().mutex);
    open_files().files.push_back(file);
    return file;
}

void leave_meeting_place(const SharedFile& file) {
    std::lock_guard lock(open_files().mutex);  // ranks may be threads of one process: the first one closes
    const auto closed = std::erase_if(open_files().files, [&](const SharedFile& one) {
        return one.pid == getpid() && one.pid == file.pid && one.fd == file.fd && one.nonce == file.nonce;
    });
    if (closed > 0) close(file.fd);
}

TableMeeting::TableMeeting(const char* rank_table, uint32_t ranks) {
    struct stat about{};
    if (stat(rank_table, &about) != 0) return;
    name_ = "/npu-emulator-hccl-" + std::to_string(getuid()) + "-" + std::to_string(about.st_dev) + "-" +
            std::to_string(about.st_ino) + "-" + std::to_string(about.st_mtim.tv_sec) + "-" +
            std::to_string(about.st_mtim.tv_nsec) + "-" + std::to_string(ranks);
    fd_ = shm_open(name_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(Segment::bytes(ranks))) != 0) {
        close(fd_);
        fd_ = -1;
    }
}

TableMeeting::~TableMeeting() {
    if (!name_.empty()) shm_unlink(name_.c_str());
}

int subgroup_file(Communicator& parent, const std::vector<uint32_t>& ranks, uint64_t id) {
    uint64_t key = key_of(ranks, id);
    {
        std::lock_guard lock(parent.mutex);
        key += ++parent.subgroups_joined[key];  // the same members may part and join again
    }
    RankSlot& opener = parent.segment->slot(ranks[0]);
    if (ranks[0] == parent.rank) {
        const std::optional<SharedFile> file = meeting_place();
        if (!file) return -1;
        std::lock_guard lock(parent.mutex);
        const uint64_t number = opener.subgroups_made;
        Subgroup& place = opener.subgroups[number % kSubgroups];
        if (place.key != 0) leave_meeting_place(place.file);  // its members came long ago
        place = {key, *file};
        opener.subgroups_made = number + 1;
        for (uint32_t rank = 0; rank < parent.size; ++rank) {
            parent.segment->slot(rank).bell.fetch_add(1);
            futex_wake(parent.segment->slot(rank).bell);
        }
        return open_shared(*file);
    }
    std::atomic<uint32_t>& bell = parent.segment->slot(parent.rank).bell;
    const auto deadline = Clock::now() + std::chrono::seconds(seconds_from("HCCL_CONNECT_TIMEOUT", 120));
    while (true) {
        const uint32_t seen = bell;
        const uint64_t made = opener.subgroups_made;
        for (uint64_t number = made; number > 0 && number + kSubgroups > made; --number) {
            const Subgroup& place = opener.subgroups[(number - 1) % kSubgroups];
            if (place.key == key) return open_shared(place.file);
        }
        if (Clock::now() >= deadline || !parent.segment->alive(ranks[0])) return -1;
        futex_wait(bell, seen, 100);
    }
}

}  // namespace npu::emulator::hccl
