// Suspending a communicator and bringing it back.
//
// CANN's pages say what the calls are for, not how work that is under way ends. Here: Suspend is local; from
// then on the rank's calls are refused with HCCL_E_SUSPENDING, and what waits for a peer ends with that code
// as the device's error. Resume is called by all ranks (the pages ask for a synchronisation of the cluster
// first); they meet in a new segment, so nothing of the interrupted work is left.
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "communicator.h"
#include "meeting.h"

namespace npu::emulator::hccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{5};         ///< for work on streams that ends by itself
constexpr uint64_t kResumption = 0x7265'7375'6d65U;  ///< beyond the numbers of groups, which have 32 bits

/// Queued work holds the communicator; the table and the caller do too.
bool idle(const std::shared_ptr<Communicator>& communicator) { return communicator.use_count() <= 2; }

bool wait_until_idle(const std::shared_ptr<Communicator>& communicator) {
    const auto deadline = Clock::now() + kPatience;
    while (!idle(communicator)) {
        if (Clock::now() >= deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/// The ranks come together again; what `old` had goes with its segment.
HcclResult rejoin(Communicator& old, const char* function) {
    std::vector<uint32_t> everyone(old.size);
    for (uint32_t rank = 0; rank < old.size; ++rank) everyone[rank] = rank;
    const int fd = subgroup_file(old, everyone, kResumption);
    if (fd < 0) {
        return refuse(HCCL_E_TIMEOUT, std::string(function) +
                                          ": rank 0 did not come to resume the group within " +
                                          std::to_string(seconds_from("HCCL_CONNECT_TIMEOUT", 120)) +
                                          " s (HCCL_CONNECT_TIMEOUT), or its process ended");
    }
    Communicator fresh;
    fresh.rank = old.rank;
    fresh.size = old.size;
    if (const HcclResult code = join(fd, old.size, old.rank, function, &fresh); code != HCCL_SUCCESS)
        return code;
    std::lock_guard lock(old.mutex);
    old.kept.clear();
    old.segment.swap(fresh.segment);
    old.readable = fresh.readable;
    old.sent.swap(fresh.sent);
    old.received.swap(fresh.received);
    old.subgroups_joined.clear();
    return HCCL_SUCCESS;
}

}  // namespace
}  // namespace npu::emulator::hccl

using namespace npu::emulator::hccl;

HcclResult HcclCommSuspend(HcclComm comm) {
    const auto communicator = find(comm, "HcclCommSuspend");
    if (!communicator) return HCCL_E_PARA;
    communicator->suspended = true;
    return HCCL_SUCCESS;
}

HcclResult HcclCommResume(HcclComm comm) {
    constexpr const char* function = "HcclCommResume";
    const auto communicator = find(comm, function);
    if (!communicator) return HCCL_E_PARA;
    if (!communicator->suspended) return HCCL_SUCCESS;
    if (!wait_until_idle(communicator)) {
        return refuse(HCCL_E_AGAIN, std::string(function) +
                                        ": work of the communicator is still on streams or in a group; "
                                        "synchronise them, or reset the device, and call again");
    }
    if (communicator->size > 1) {
        if (const HcclResult code = rejoin(*communicator, function); code != HCCL_SUCCESS) return code;
    }
    std::lock_guard lock(communicator->mutex);
    communicator->called = 0;
    communicator->turn = 1;
    communicator->broken = false;
    communicator->async_error = HCCL_SUCCESS;
    communicator->suspended = false;
    return HCCL_SUCCESS;
}

/// commId: the communicator's name. A name that this process does not know is HCCL_COMM_STATUS_INVALID.
HcclResult HcclCommGetStatus(const char* commId, HcclCommStatus* status) {
    if (commId == nullptr || status == nullptr)
        return refuse(HCCL_E_PTR, "HcclCommGetStatus: a pointer is null");
    const auto communicator = find_named(commId);
    if (!communicator) {
        *status = HCCL_COMM_STATUS_INVALID;
    } else {
        *status = communicator->suspended ? HCCL_COMM_STATUS_SUSPENDING : HCCL_COMM_STATUS_READY;
    }
    return HCCL_SUCCESS;
}
