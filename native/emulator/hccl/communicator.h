// Communicators: a rank's membership in a group of ranks, in processes or threads of this machine.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cann/hccl.h"
#include "element.h"
#include "segment.h"
#include "transport.h"

namespace npu::emulator::hccl {

struct Communicator {
    std::string name;
    int32_t device = -1;  ///< of the thread that created it
    uint32_t rank = 0;
    uint32_t size = 1;
    std::unique_ptr<Segment> segment;  ///< none for a group of one rank
    bool readable = true;              ///< peers' memory can be read in place
    int exec_timeout = 0;              ///< seconds a collective may wait for a peer; 0: for ever

    std::atomic<HcclResult> async_error{HCCL_SUCCESS};
    std::atomic<bool> suspended{false};

    /// Collectives run in the order of their calls, whatever streams they are on.
    std::mutex mutex;
    std::condition_variable turn_came;
    uint64_t called = 0;  ///< number of the last call
    uint64_t turn = 1;    ///< number of the call that may run
    bool broken = false;  ///< a call never ran: nothing after it can

    /// Messages sent to and received from each rank.
    std::vector<uint64_t> sent, received;

    /// Copies of messages whose sends have ended, until they are received.
    struct Kept {
        Message* message;
        uint64_t turn;
        std::unique_ptr<SharedCopy> copy;
    };
    std::vector<Kept> kept;

    std::map<uint64_t, uint64_t> subgroups_joined;  ///< how often, by members and id

    /// Memory for what the running collective pulls from its peers; kept, since fresh memory costs page
    /// faults.
    std::byte* scratch(std::size_t bytes) {
        if (scratch_.size() < bytes) scratch_.resize(bytes);
        return scratch_.data();
    }

    ~Communicator();

    /// Makes a copy of a message for its receiver and forgets those that were received.
    void keep(Message& message, const void* from, uint64_t bytes);

    /// Waits until all kept copies were received, or their receivers are gone, or for that long.
    void settle(int milliseconds);

    /// Waits until `ready` on a word of the segment, which is woken when it changes. Throws TaskError, and
    /// keeps the error for HcclGetCommAsyncError, when one of the ranks that `late` names died or left, or at
    /// the time-out.
    void await(std::atomic<uint32_t>& word, const char* function, const std::function<bool()>& ready,
               const std::function<std::vector<uint32_t>()>& late);

    /// Marks the group as failed, because of this rank or another one, and throws. No collective of any of
    /// its ranks succeeds after that.
    [[noreturn]] void fail(HcclResult code, const std::string& sentence);
    [[noreturn]] void fail(HcclResult code, const std::string& sentence, uint32_t culprit);

    /// The same when this rank cannot reach that one.
    [[noreturn]] void lost(uint32_t peer, const char* function);

  private:
    std::vector<std::byte> scratch_;
};

/// The communicator of a live handle, or nullptr after setting the error's sentence.
std::shared_ptr<Communicator> find(HcclComm handle, const char* function);

/// A live communicator of that name, or nullptr. Ranks that are threads of one process share the name: the
/// one of the calling thread's device comes first.
std::shared_ptr<Communicator> find_named(const std::string& name);

/// Takes a handle's communicator out of the table; nullptr: it is not in it.
std::shared_ptr<Communicator> forget(HcclComm handle);

/// Sets the calling thread's sentence (aclGetRecentErrMsg) and returns the code.
HcclResult refuse(HcclResult code, const std::string& sentence);

/// Joins the group whose segment is in the file `fd` (taken), and waits for its other ranks.
HcclResult join(int fd, uint32_t ranks, uint32_t rank, const char* function, Communicator* communicator);

/// Registers the communicator and gives out its handle.
HcclComm publish(std::shared_ptr<Communicator> communicator);

/// Seconds from an environment variable of HCCL's; `fallback` where it is unset or no number.
int seconds_from(const char* variable, int fallback);

}  // namespace npu::emulator::hccl
