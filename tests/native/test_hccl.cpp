// Ranks of one process (HcclCommInitAll) that run collectives, messages, groups and a suspension.
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "cann/hccl.h"
#include "check.h"

namespace {

constexpr uint32_t kRanks = 2;
constexpr uint64_t kSizes[] = {0, 1, 100, 30'001};  // inside the group's memory, and beyond

using Values = std::vector<int64_t>;

Values numbers(uint64_t size, uint32_t rank) {
    Values values(size);
    std::iota(values.begin(), values.end(), 1000 * rank);
    return values;
}

/// Device memory with values in it.
class Memory {
  public:
    explicit Memory(const Values& values) : size_(values.size()) {
        OK(aclrtMalloc(&address_, bytes() + 8, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMemcpy(address_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { OK(aclrtFree(address_)); }
    operator void*() const { return address_; }
    Values values() const {
        Values values(size_);
        OK(aclrtMemcpy(values.data(), bytes(), address_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
        return values;
    }

  private:
    size_t bytes() const { return size_ * sizeof(int64_t); }
    void* address_ = nullptr;
    uint64_t size_;
};

struct Rank {
    uint32_t id = 0;
    HcclComm comm = nullptr;
    aclrtStream stream = nullptr;
    void finish() { OK(aclrtSynchronizeStream(stream)); }
};

/// body(rank) on a thread and a device for each rank.
template <class Body>
void on_ranks(Body body) {
    HcclComm comms[kRanks];
    int32_t devices[kRanks];
    std::iota(devices, devices + kRanks, 0);
    OK(HcclCommInitAll(kRanks, devices, comms));
    std::vector<std::thread> threads;
    for (uint32_t id = 0; id < kRanks; ++id) {
        threads.emplace_back([&, id] {
            Rank rank{id, comms[id], nullptr};
            OK(aclrtSetDevice(static_cast<int32_t>(id)));
            OK(aclrtCreateStream(&rank.stream));
            body(rank);
            OK(HcclCommDestroy(rank.comm));
            OK(aclrtDestroyStream(rank.stream));
            OK(aclrtResetDevice(static_cast<int32_t>(id)));
        });
    }
    for (std::thread& thread : threads) thread.join();
}

Values sum(uint64_t size) {
    Values total(size);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
        const Values part = numbers(size, rank);
        for (uint64_t i = 0; i < size; ++i) total[i] += part[i];
    }
    return total;
}

void all_reduce(Rank& rank, uint64_t size) {
    const Memory send(numbers(size, rank.id)), receive(Values(size, -1));
    OK(HcclAllReduce(send, receive, size, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM, rank.comm, rank.stream));
    rank.finish();
    HOLDS(receive.values() == sum(size));
}

}  // namespace

CASE(collectives_between_threads) {
    on_ranks([](Rank& rank) {
        for (const uint64_t size : kSizes) {
            all_reduce(rank, size);
            const Memory part(numbers(size, rank.id)), whole(Values(kRanks * size, -1));
            OK(HcclAllGather(part, whole, size, HCCL_DATA_TYPE_INT64, rank.comm, rank.stream));
            rank.finish();
            const Values gathered = whole.values();
            const Memory back(Values(size, -1));
            OK(HcclReduceScatter(whole, back, size, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_MAX, rank.comm,
                                 rank.stream));
            rank.finish();
            HOLDS(back.values() == numbers(size, rank.id));
            HOLDS(Values(gathered.begin(), gathered.begin() + static_cast<int64_t>(size)) ==
                  numbers(size, 0));
            OK(HcclAlltoAll(whole, size, HCCL_DATA_TYPE_INT64, whole, size, HCCL_DATA_TYPE_INT64, rank.comm,
                            rank.stream));
            OK(HcclBroadcast(part, size, HCCL_DATA_TYPE_INT64, 1, rank.comm, rank.stream));
            OK(HcclBarrier(rank.comm, rank.stream));
            rank.finish();
            HOLDS(part.values() == numbers(size, 1));
        }
    });
}

CASE(parts_of_different_sizes) {
    on_ranks([](Rank& rank) {
        // Row i: what rank i sends to each rank.
        const std::vector<uint64_t> matrix{3, 20'000, 0, 5};
        const uint64_t sent = matrix[rank.id * kRanks] + matrix[rank.id * kRanks + 1];
        const uint64_t received = matrix[rank.id] + matrix[kRanks + rank.id];
        const Memory send(numbers(sent, rank.id)), receive(Values(received, -1));
        OK(HcclAlltoAllVC(send, matrix.data(), HCCL_DATA_TYPE_INT64, receive, HCCL_DATA_TYPE_INT64, rank.comm,
                          rank.stream));
        rank.finish();
        Values expected;
        for (uint32_t peer = 0; peer < kRanks; ++peer) {
            const Values theirs = numbers(matrix[peer * kRanks] + matrix[peer * kRanks + 1], peer);
            const auto begin =
                theirs.begin() + static_cast<int64_t>(rank.id == 0 ? 0 : matrix[peer * kRanks]);
            expected.insert(expected.end(), begin,
                            begin + static_cast<int64_t>(matrix[peer * kRanks + rank.id]));
        }
        HOLDS(receive.values() == expected);
    });
}

CASE(messages_and_groups) {
    on_ranks([](Rank& rank) {
        const uint32_t peer = 1 - rank.id;
        for (const uint64_t size : kSizes) {
            const Memory send(numbers(size, rank.id)), receive(Values(size, -1));
            for (int round = 0; round < 20; ++round) {  // more than there are places for
                OK(HcclGroupStart());
                OK(HcclRecv(receive, size, HCCL_DATA_TYPE_INT64, peer, rank.comm, rank.stream));
                OK(HcclSend(send, size, HCCL_DATA_TYPE_INT64, peer, rank.comm, rank.stream));
                OK(HcclGroupEnd());
            }
            rank.finish();
            HOLDS(receive.values() == numbers(size, peer));
            // Both send first: the send goes on with a copy.
            const Memory again(Values(size, -1));
            OK(HcclSend(send, size, HCCL_DATA_TYPE_INT64, peer, rank.comm, rank.stream));
            OK(HcclRecv(again, size, HCCL_DATA_TYPE_INT64, peer, rank.comm, rank.stream));
            rank.finish();
            HOLDS(again.values() == numbers(size, peer));
        }
    });
}

CASE(a_part_of_the_group_and_a_suspension) {
    on_ranks([](Rank& rank) {
        uint32_t ids[kRanks] = {1, 0};
        Rank part = rank;
        OK(HcclCreateSubCommConfig(&rank.comm, kRanks, ids, 3, 1 - rank.id, nullptr, &part.comm));
        all_reduce(part, 100);
        OK(HcclCommDestroy(part.comm));
        all_reduce(rank, 100);
        OK(HcclCommSuspend(rank.comm));
        EQUAL(static_cast<int>(HcclBarrier(rank.comm, rank.stream)), static_cast<int>(HCCL_E_SUSPENDING));
        OK(HcclCommResume(rank.comm));
        all_reduce(rank, 30'001);
    });
}

int main() {
    OK(aclInit(nullptr));
    const int result = check::run_all();
    OK(aclFinalize());
    return result | check::failures;
}
