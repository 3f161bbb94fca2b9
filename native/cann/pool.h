// Device memory that is kept and handed out again, because aclrtMalloc waits for the device.
//
// A block belongs to the stream it was asked for: freeing it makes it available to that stream at once, since
// whatever uses it next on that stream runs after what used it before. Work on another stream is told to the
// pool by `used_by`; the block is then available when that work is done.
//
// Thread-safe. Giving a block back never waits, and nobody waits with the pool's lock held: it may be asked
// for by a thread that holds another lock (Python's) which the work that is waited for needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cann/memory.h"
#include "cann/runtime.h"

namespace npu::cann {

/// Bytes and counts of one device's pool, since the start or the last reset of the peaks.
struct PoolStats {
    std::size_t allocated = 0, peak_allocated = 0;      ///< handed out, in bytes as rounded
    std::size_t reserved = 0, peak_reserved = 0;        ///< taken from CANN, in bytes
    uint64_t allocations = 0, frees = 0;                ///< by callers
    uint64_t device_allocations = 0, device_frees = 0;  ///< aclrtMalloc and aclrtFree
    uint64_t retries = 0;  ///< times that memory was short and the kept blocks were given back
    std::size_t blocks_in_use = 0;
};

class Pool;

/// A piece of a pool's memory; at its end the pool has it again.
class Block {
  public:
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    void* address() const { return buffer_->address(); }
    std::size_t size() const { return buffer_->size(); }  ///< as rounded; at least what was asked for
    int device() const { return buffer_->device(); }
    /// Tells that work on this stream uses the block too, up to what has been put on it by now.
    void used_by(const std::shared_ptr<Stream>& stream);

  private:
    friend class Pool;
    Block(std::shared_ptr<Pool> pool, std::shared_ptr<Stream> stream, std::unique_ptr<DeviceBuffer> buffer)
        : pool_(std::move(pool)), stream_(std::move(stream)), buffer_(std::move(buffer)) {}

    std::shared_ptr<Pool> pool_;
    std::shared_ptr<Stream> stream_;
    std::unique_ptr<DeviceBuffer> buffer_;
    std::mutex mutex_;
    std::map<aclrtStream, std::unique_ptr<Event>>
        uses_;  // by other streams: an event behind each one's last use
};

class Pool : public std::enable_shared_from_this<Pool> {
  public:
    /// The pool of a device, one a process.
    static std::shared_ptr<Pool> of(int device);
    static std::size_t rounded(std::size_t size);

    explicit Pool(int device) : device_(device) {}

    /// Throws Error (out_of_memory(), with what the pool holds) or ClosedError.
    std::shared_ptr<Block> allocate(const std::shared_ptr<Stream>& stream, std::size_t size);
    /// While it lives, memory that was handed out for the stream stays with it, in use or not: a captured
    /// graph works there.
    class Hold {
      public:
        Hold(std::shared_ptr<Pool> pool, aclrtStream stream) : pool_(std::move(pool)), stream_(stream) {}
        Hold(Hold&& other) noexcept : pool_(std::move(other.pool_)), stream_(other.stream_) {}
        Hold& operator=(Hold&&) = delete;
        ~Hold() { release(); }
        void release();

      private:
        std::shared_ptr<Pool> pool_;  ///< null: released
        aclrtStream stream_;
    };
    Hold hold(const std::shared_ptr<Stream>& stream);

    /// Gives everything that is not in use back to CANN, once the work that uses it is done.
    void trim();
    PoolStats stats() const;
    void reset_peaks();

  private:
    friend class Block;
    struct Waiting {
        aclrtStream owner;  ///< null: closed by now, nobody can ask for its blocks any more
        std::unique_ptr<DeviceBuffer> buffer;
        std::vector<std::unique_ptr<Event>> events;
    };
    // By owner, then by size: the smallest that fits is taken.
    using Kept = std::map<aclrtStream, std::multimap<std::size_t, std::unique_ptr<DeviceBuffer>>>;

    using Buffers = std::vector<std::unique_ptr<DeviceBuffer>>;

    void give_back(Block& block) noexcept;
    std::unique_ptr<DeviceBuffer> take_kept(aclrtStream stream, std::size_t size);
    std::unique_ptr<DeviceBuffer> take_new(std::size_t size);
    bool release_kept();
    Buffers collect();

    const int device_;
    mutable std::mutex mutex_;
    Kept kept_;
    std::multiset<aclrtStream> held_;
    std::list<Waiting> waiting_;
    PoolStats stats_;
};

}  // namespace npu::cann
