// How the ranks of a group come together, and how they notice that one is gone.
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "communicator.h"
#include "meeting.h"
#include "runtime/launch.h"

namespace npu::emulator::hccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMilliseconds = 100;          ///< between two looks at whether the peers still live
constexpr std::chrono::microseconds kSpin{30};  ///< before sleeping: about the cost of being woken

std::string names(const std::vector<uint32_t>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
    return text;
}

/// True if every peer's memory can be read; what cannot be read travels as copies.
bool reads_peers(Segment& segment, uint32_t self) {
    const char* wish = std::getenv("NPU_EMULATOR_HCCL_TRANSPORT");
    if (wish != nullptr && std::string(wish) == "copy") return false;
    for (uint32_t peer = 0; peer < segment.ranks(); ++peer) {
        if (peer == self || segment.slot(peer).process == getpid()) continue;
        uint64_t word = 0;
        iovec here{&word, sizeof word};
        iovec there{reinterpret_cast<void*>(segment.slot(peer).probe), sizeof word};
        if (process_vm_readv(segment.slot(peer).process, &here, 1, &there, 1, 0) != sizeof word) return false;
    }
    return true;
}

/// Why the ranks did not come together.
struct Problem {
    HcclResult code = HCCL_SUCCESS;
    std::string sentence;
};

/// Blames a rank for the group's failure, unless another one was blamed before; returns the one to name. A
/// rank that heard of a loss ends, too, and must not be taken for the cause.
uint32_t blame(Segment& segment, uint32_t rank) {
    uint32_t first = 0;
    return segment.header().failed.compare_exchange_strong(first, rank + 1) ? rank : first - 1;
}

/// Why the ranks cannot come together any more; success: they still can.
Problem trouble(Segment& segment, Clock::time_point deadline, int seconds) {
    std::vector<uint32_t> missing, dead;
    for (uint32_t rank = 0; rank < segment.ranks(); ++rank) {
        if (segment.slot(rank).process == 0)
            missing.push_back(rank);
        else if (!segment.alive(rank))
            dead.push_back(rank);
    }
    const bool late = Clock::now() >= deadline;
    const uint32_t failed = segment.header().failed;
    if (failed == 0 && dead.empty() && !late) return {};
    if (failed == 0 && dead.empty() && missing.empty())
        return {HCCL_E_TIMEOUT, "the other ranks did not answer within " + std::to_string(seconds) +
                                    " s (HCCL_CONNECT_TIMEOUT)"};
    std::vector<uint32_t>& found = dead.empty() ? missing : dead;
    const uint32_t named = blame(segment, failed != 0 ? failed - 1 : found.front());
    if (failed != 0 || named != found.front()) found = {named};  // the rest only heard of it
    if (segment.slot(named).process != 0)
        return {HCCL_E_REMOTE, names(found) + " died while the group came together"};
    return {HCCL_E_TIMEOUT,
            names(found) + " did not come within " + std::to_string(seconds) + " s (HCCL_CONNECT_TIMEOUT)"};
}

/// Waits for all ranks at a counter of the header.
Problem meet(Segment& segment, std::atomic<uint32_t>& counter, int seconds) {
    const auto deadline = Clock::now() + std::chrono::seconds(seconds);
    if (counter.fetch_add(1) + 1 == segment.ranks()) futex_wake(counter);
    while (true) {
        const uint32_t here = counter;
        if (here >= segment.ranks()) return {};
        futex_wait(counter, here, kLookMilliseconds);
        if (counter >= segment.ranks()) return {};
        if (Problem problem = trouble(segment, deadline, seconds); problem.code != HCCL_SUCCESS)
            return problem;
    }
}

}  // namespace

int seconds_from(const char* variable, int fallback) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return fallback;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    return end != text && *end == '\0' && value >= 0 && value <= INT32_MAX ? static_cast<int>(value)
                                                                           : fallback;
}

HcclResult join(int fd, uint32_t ranks, uint32_t rank, const char* function, Communicator* communicator) {
    const std::string prefix = std::string(function) + ": ";
    try {
        communicator->segment = std::make_unique<Segment>(fd, ranks);
    } catch (const std::system_error& error) {
        return refuse(HCCL_E_SYSCALL, prefix + "the group's shared memory cannot be mapped: " + error.what());
    }
    Segment& segment = *communicator->segment;
    Header& header = segment.header();
    uint32_t others = 0;
    if (!header.ranks.compare_exchange_strong(others, ranks) && others != ranks) {
        communicator->segment.reset();
        return refuse(HCCL_E_PARA, prefix + "this rank was told of " + std::to_string(ranks) +
                                       " ranks, and another one of " + std::to_string(others));
    }
    // Yama lets only descendants be read, unless they allow more. Ranks are siblings.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    RankSlot& mine = segment.slot(rank);
    int32_t nobody = 0;
    mine.start_time = start_time_of(getpid());
    mine.probe = reinterpret_cast<uint64_t>(&communicator->called);
    if (!mine.process.compare_exchange_strong(nobody, getpid())) {
        communicator->segment.reset();
        return refuse(HCCL_E_PARA, prefix + "rank " + std::to_string(rank) +
                                       " of the group is taken by process " + std::to_string(nobody));
    }
    const int seconds = seconds_from("HCCL_CONNECT_TIMEOUT", 120);
    Problem problem = meet(segment, header.attached, seconds);
    if (problem.code == HCCL_SUCCESS) {
        if (!reads_peers(segment, rank)) header.unreadable = 1;
        problem = meet(segment, header.verified, seconds);
    }
    if (problem.code != HCCL_SUCCESS) {
        communicator->segment.reset();
        return refuse(problem.code, prefix + problem.sentence);
    }
    communicator->readable = header.unreadable == 0;
    communicator->sent.resize(ranks);
    communicator->received.resize(ranks);
    communicator->exec_timeout = seconds_from("HCCL_EXEC_TIMEOUT", 1836);
    return HCCL_SUCCESS;
}

Communicator::~Communicator() {
    if (!segment) return;
    for (const Subgroup& place : segment->slot(rank).subgroups) {
        if (place.key != 0) leave_meeting_place(place.file);
    }
    segment->slot(rank).left = 1;
}

void Communicator::keep(Message& message, const void* from, uint64_t bytes) {
    auto copy = std::make_unique<SharedCopy>(from, bytes);
    message.source = {Source::file, copy->file(), 0};
    std::lock_guard lock(mutex);
    std::erase_if(kept, [](const Kept& one) { return one.message->turn != one.turn; });
    kept.push_back({&message, message.turn, std::move(copy)});
}

void Communicator::settle(int milliseconds) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(milliseconds);
    std::atomic<uint32_t>& bell = segment->slot(rank).bell;
    while (Clock::now() < deadline && segment->header().failed == 0) {
        const uint32_t seen = bell;
        {
            std::lock_guard lock(mutex);
            std::erase_if(kept, [](const Kept& one) { return one.message->turn != one.turn; });
            if (kept.empty()) return;
        }
        futex_wait(bell, seen, kLookMilliseconds);
    }
}

void Communicator::fail(HcclResult code, const std::string& sentence) { fail(code, sentence, rank); }

void Communicator::fail(HcclResult code, const std::string& sentence, uint32_t culprit) {
    if (segment) blame(*segment, culprit);
    HcclResult none = HCCL_SUCCESS;
    async_error.compare_exchange_strong(none, code);
    throw TaskError(code == HCCL_E_TIMEOUT ? ACL_ERROR_RT_AICPU_TIMEOUT : ACL_ERROR_RT_AICPU_EXCEPTION,
                    sentence + " (group " + name + ", this is rank " + std::to_string(rank) + " of " +
                        std::to_string(size) + ")");
}

void Communicator::lost(uint32_t peer, const char* function) {
    peer = blame(*segment, peer);
    RankSlot& slot = segment->slot(peer);
    std::string why = "a call of it failed, or was not made in time";
    if (!segment->alive(peer))
        why = "its process " + std::to_string(slot.process) + " ended";
    else if (slot.left != 0)
        why = "it destroyed its communicator";
    if (peer == rank) {
        fail(HCCL_E_REMOTE, std::string(function) + ": the other ranks have given up this one, since " + why);
    }
    fail(HCCL_E_REMOTE, std::string(function) + " lost rank " + std::to_string(peer) + ": " + why);
}

void Communicator::await(std::atomic<uint32_t>& word, const char* function,
                         const std::function<bool()>& ready,
                         const std::function<std::vector<uint32_t>()>& late) {
    const auto start = Clock::now();
    while (Clock::now() - start < kSpin) {
        if (ready()) return;
        sched_yield();
    }
    auto looked = start;
    while (true) {
        const uint32_t seen = word;
        if (ready()) return;
        futex_wait(word, seen, kLookMilliseconds);
        if (ready()) return;
        if (word != seen && Clock::now() - looked < std::chrono::milliseconds(kLookMilliseconds)) continue;
        looked = Clock::now();
        const std::vector<uint32_t> awaited = late();
        if (suspended) {
            fail(HCCL_E_SUSPENDING, std::string(function) + " was waiting for " + names(awaited) +
                                        " when the communicator was suspended");
        }
        if (const uint32_t failed = segment->header().failed; failed != 0) lost(failed - 1, function);
        for (const uint32_t peer : awaited) {
            const bool gone = segment->slot(peer).left != 0 || !segment->alive(peer);
            if (!gone) continue;
            if (ready()) return;  // what it did before it went was all that was needed
            lost(peer, function);
        }
        if (exec_timeout > 0 && Clock::now() - start >= std::chrono::seconds(exec_timeout)) {
            fail(HCCL_E_TIMEOUT,
                 std::string(function) + " waited " + std::to_string(exec_timeout) +
                     " s (HCCL_EXEC_TIMEOUT) for " + names(awaited),
                 awaited.empty() ? rank : awaited.front());
        }
    }
}

}  // namespace npu::emulator::hccl
