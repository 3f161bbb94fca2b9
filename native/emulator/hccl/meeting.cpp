#include "meeting.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

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

namespace {

/// An address in the abstract namespace, which has no file.
struct Address {
    sockaddr_un address{};
    socklen_t size;
    explicit Address(const std::string& name) {
        address.sun_family = AF_UNIX;
        const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
        std::memcpy(address.sun_path + 1, name.data(), length);
        size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

int open_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/// Opens the memory file of that name that a process has; < 0: it has none.
int open_file_of(pid_t process, const std::string& name) {
    const std::string folder = "/proc/" + std::to_string(process) + "/fd";
    std::error_code none;
    std::filesystem::directory_iterator entry(folder, none), end;
    for (; !none && entry != end; entry.increment(none)) {
        std::error_code gone;
        const std::string target = std::filesystem::read_symlink(entry->path(), gone).string();
        if (target.starts_with("/memfd:" + name + " "))
            return open(entry->path().c_str(), O_RDWR | O_CLOEXEC);
    }
    return -1;
}

}  // namespace

TableMeeting::TableMeeting(const char* rank_table, uint32_t ranks) {
    struct stat about{};
    if (stat(rank_table, &about) != 0) return;
    name_ = "npu-emulator-hccl-" + std::to_string(getuid()) + "-" + std::to_string(about.st_dev) + "-" +
            std::to_string(about.st_ino) + "-" + std::to_string(about.st_mtim.tv_sec) + "-" +
            std::to_string(about.st_mtim.tv_nsec) + "-" + std::to_string(ranks);
    const auto deadline = Clock::now() + std::chrono::seconds(seconds_from("HCCL_CONNECT_TIMEOUT", 120));
    while (!host(ranks) && !visit(ranks)) {
        if (Clock::now() >= deadline) {
            errno = ETIMEDOUT;
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

TableMeeting::~TableMeeting() {
    if (socket_ >= 0) close(socket_);
    if (file_ >= 0) close(file_);
}

/// Becomes the first to come, if nobody is. The file is there before anyone can connect.
bool TableMeeting::host(uint32_t ranks) {
    const Address address(name_);
    socket_ = open_socket();
    if (socket_ >= 0 && bind(socket_, address.get(), address.size) == 0) {
        file_ = memfd_create(name_.c_str(), MFD_CLOEXEC);
        if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(Segment::bytes(ranks))) == 0 &&
            listen(socket_, static_cast<int>(kMaxRanks)) == 0) {
            fd_ = fcntl(file_, F_DUPFD_CLOEXEC, 0);
            return true;
        }
    }
    if (file_ >= 0) close(std::exchange(file_, -1));
    if (socket_ >= 0) close(std::exchange(socket_, -1));
    return false;
}

bool TableMeeting::visit(uint32_t ranks) {
    const Address address(name_);
    const int visitor = open_socket();
    if (visitor < 0) return false;
    ucred owner{};
    socklen_t size = sizeof owner;
    const bool known = connect(visitor, address.get(), address.size) == 0 &&
                       getsockopt(visitor, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0 &&
                       owner.uid == getuid();
    close(visitor);
    fd_ = known ? open_file_of(owner.pid, name_) : -1;
    if (fd_ < 0) return false;
    uint32_t attached = ranks;
    const auto place = static_cast<off_t>(offsetof(Header, attached));
    if (pread(fd_, &attached, sizeof attached, place) == sizeof attached && attached < ranks) return true;
    close(std::exchange(fd_, -1));  // all are there, and it is about to go: ours is the next one
    return false;
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
