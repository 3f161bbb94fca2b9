// The memory that the ranks of one group share: who is there, what each rank brings to the collective that
// runs, and mailboxes for messages between two ranks.
//
// Small payloads travel inside. Large ones stay where they are: a rank shows their address, and peers read
// them with process_vm_readv, once, straight into place. Where the system forbids that, the rank puts a copy
// into a memory file for its peers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cann/hccl.h"
#include "runtime/shared_file.h"

namespace npu::emulator::hccl {

constexpr uint32_t kMaxRanks = 64;
constexpr std::size_t kInlineBytes = 16 * 1024;        ///< of one rank in one collective
constexpr std::size_t kInlineMessageBytes = 4 * 1024;  ///< of one message
constexpr uint32_t kMailboxEntries = 8;
constexpr uint32_t kSubgroups = 16;  ///< that one rank can have open for joining at a time

enum class Kind : uint32_t {
    barrier,
    broadcast,
    scatter,
    reduce,
    all_reduce,
    all_gather,
    all_gather_v,
    reduce_scatter,
    reduce_scatter_v,
    all_to_all,
    all_to_all_v,
    all_to_all_vc,
};

/// Where a rank's bytes are.
struct Source {
    enum Place : uint32_t { inlined, process, file };
    Place place;
    SharedFile shared;  ///< for file
    uint64_t address;   ///< for process
};

/// What one rank brings to one collective. All fields but counts and displs must agree among ranks.
struct Post {
    Kind kind;
    HcclDataType type;
    HcclReduceOp op;
    uint32_t root;
    uint64_t count;
    Source source;
    Source result;               ///< where peers read what this rank has reduced
    uint64_t counts[kMaxRanks];  ///< elements for each peer, where they differ
    uint64_t displs[kMaxRanks];
    std::byte data[kInlineBytes];
};

struct Subgroup {
    uint64_t key;
    SharedFile file;
};

struct RankSlot {
    std::atomic<int32_t> process;    ///< 0: not here yet
    uint64_t start_time;             ///< of the process, which tells it from a later one of that number
    uint64_t probe;                  ///< a word that peers try to read
    std::atomic<uint32_t> left;      ///< destroyed its communicator
    std::atomic<uint64_t> progress;  ///< number of its last collective * 4 + the gate of it that it came to
    std::atomic<uint32_t> bell;      ///< futex: something in a mailbox changed
    std::atomic<uint64_t> subgroups_made;
    Subgroup subgroups[kSubgroups];
    Post posts[2];  ///< by parity of the collective's number
};

/// A meeting point of all ranks, used again for each collective of its parity.
struct Gate {
    std::atomic<uint32_t> arrived;
    std::atomic<uint32_t> epoch;  ///< futex: low bits of the last collective that all came to
};

/// The gates of a collective, in their order.
enum GateName : uint32_t { posted, reduced, finished, kGates };

struct Message {
    enum State : uint32_t { empty, shown, taking, moving, kept };  // kept: the sender has gone on
    std::atomic<uint32_t> state;
    std::atomic<uint64_t> turn;  ///< how many messages were received here
    HcclDataType type;
    uint64_t bytes;
    Source source;
    std::byte data[kInlineMessageBytes];
};

struct Mailbox {
    Message messages[kMailboxEntries];
};

struct Header {
    std::atomic<uint32_t> ranks;     ///< 0 until the first rank is here
    std::atomic<uint32_t> attached;  ///< futex
    std::atomic<uint32_t> verified;  ///< futex: ranks that tried to read their peers
    std::atomic<uint32_t> unreadable;
    std::atomic<uint32_t> failed;  ///< 1 + the rank that is lost
    Gate gates[kGates][2];         ///< by parity of the collective's number
};

/// One rank's view of the segment.
class Segment {
  public:
    /// Maps the file for a group of `ranks`; takes `fd`. Throws std::system_error.
    Segment(int fd, uint32_t ranks);
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;
    ~Segment();

    static std::size_t bytes(uint32_t ranks);

    Header& header() { return *header_; }
    RankSlot& slot(uint32_t rank) { return slots_[rank]; }
    Mailbox& mailbox(uint32_t from, uint32_t to) { return mailboxes_[from * ranks_ + to]; }
    uint32_t ranks() const { return ranks_; }

    /// Whether the process of a rank that attached still runs.
    bool alive(uint32_t rank);

  private:
    uint32_t ranks_;
    std::size_t size_;
    Header* header_;
    RankSlot* slots_;
    Mailbox* mailboxes_;
};

/// Start of the process in clock ticks since boot; 0: there is no such process, or it is ending: it has no
/// memory any more, or only waits to be reaped.
uint64_t start_time_of(int32_t process);

/// Sleeps while the word holds `value`, at most `milliseconds`.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, int milliseconds);
void futex_wake(std::atomic<uint32_t>& word);

}  // namespace npu::emulator::hccl
