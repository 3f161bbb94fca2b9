// HCCL's communicators and collectives.
//
// A collective is put on a stream and returns; it is done when the stream says so. Counts are elements,
// buffers are device memory of the communicator's device. One communicator is used by one thread at a time
// (HCCL matches calls by their order).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cann/hccl.h"
#include "cann/runtime.h"

namespace npu::cann {

/// What rank 0 makes and every rank needs: bytes to carry over any channel.
using RootInfo = std::array<std::byte, HCCL_ROOT_INFO_BYTES>;

struct CommunicatorOptions {
    std::string name;                          ///< at most 127 characters; empty: HCCL's choice
    std::optional<uint32_t> buffer_megabytes;  ///< each way; HCCL_BUFFSIZE or 200 otherwise
    std::optional<bool> deterministic;         ///< same result in each run, slower
    std::optional<int32_t> execution_timeout;  ///< seconds; HCCL_EXEC_TIMEOUT otherwise
};

class Communicator {
  public:
    static RootInfo root_info(int device);
    /// Waits for the other ranks. Throws Error: HCCL_E_TIMEOUT (HCCL_CONNECT_TIMEOUT) when they do not come.
    static std::shared_ptr<Communicator> join(const RootInfo& root, int rank, int size, int device,
                                              const CommunicatorOptions& options = {});
    /// One rank a device, all of this process.
    static std::vector<std::shared_ptr<Communicator>> all(std::span<const int> devices);
    /// The communicator of some of this one's ranks (in their order there); all ranks of the parent call it.
    /// Null for a rank that is not among them. `id` tells apart groups of the same ranks.
    std::shared_ptr<Communicator> sub(std::span<const int> ranks, uint64_t id,
                                      const CommunicatorOptions& options = {});

    ~Communicator();
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    int device() const { return device_; }
    std::string name() const;
    bool closed() const { return closed_; }
    /// What has been put on streams still runs. A second time does nothing.
    void close();
    /// Gives up: the work of the device stops, then the communicator ends. The peers see the loss as an
    /// error.
    void abort(Milliseconds timeout);
    /// Throws Error when a collective failed asynchronously.
    void check_async_error() const;

    void all_reduce(const void* send, void* receive, uint64_t count, HcclDataType type, HcclReduceOp op,
                    const Stream& stream);
    void broadcast(void* buffer, uint64_t count, HcclDataType type, int root, const Stream& stream);
    void reduce(const void* send, void* receive, uint64_t count, HcclDataType type, HcclReduceOp op, int root,
                const Stream& stream);
    void reduce_scatter(const void* send, void* receive, uint64_t receive_count, HcclDataType type,
                        HcclReduceOp op, const Stream& stream);
    void reduce_scatter_v(const void* send, std::span<const uint64_t> counts,
                          std::span<const uint64_t> offsets, void* receive, HcclDataType type,
                          HcclReduceOp op, const Stream& stream);
    void scatter(const void* send, void* receive, uint64_t receive_count, HcclDataType type, int root,
                 const Stream& stream);
    void all_gather(const void* send, void* receive, uint64_t send_count, HcclDataType type,
                    const Stream& stream);
    void all_gather_v(const void* send, uint64_t send_count, void* receive, std::span<const uint64_t> counts,
                      std::span<const uint64_t> offsets, HcclDataType type, const Stream& stream);
    void all_to_all(const void* send, void* receive, uint64_t count, HcclDataType type, const Stream& stream);
    struct Pieces {
        std::span<const uint64_t> counts, offsets;  ///< one a rank
    };
    void all_to_all_v(const void* send, Pieces sent, void* receive, Pieces received, HcclDataType type,
                      const Stream& stream);
    void send(const void* buffer, uint64_t count, HcclDataType type, int peer, const Stream& stream);
    void receive(void* buffer, uint64_t count, HcclDataType type, int peer, const Stream& stream);
    void batch_send_receive(std::span<HcclSendRecvItem> items, const Stream& stream);
    void barrier(const Stream& stream);

  private:
    Communicator(HcclComm handle, int rank, int size, int device)
        : handle_(handle), rank_(rank), size_(size), device_(device) {}
    HcclComm handle() const;  ///< Throws ClosedError.
    template <typename F, typename... A>
    void run(F& function, const Stream& stream, A... arguments);
    void require_rank(int rank, const char* what) const;
    void require_pieces(Pieces pieces, const char* what) const;

    HcclComm handle_;
    int rank_, size_, device_;
    std::atomic<bool> closed_ = false;
};

}  // namespace npu::cann
