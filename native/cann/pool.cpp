#include "cann/pool.h"

#include <algorithm>

namespace npu::cann {
namespace {

constexpr std::size_t kSmallest = 512;  // CANN's alignment of device memory
constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;  // what aclrtMalloc rounds large sizes to anyway

std::size_t up_to(std::size_t size, std::size_t step) { return (size + step - 1) / step * step; }

// A block may serve what needs at least three quarters of it; a small one anything, its waste is small.
bool fits(std::size_t block, std::size_t size) { return block <= kLarge || size >= block / 4 * 3; }

}  // namespace

Block::~Block() { pool_->give_back(*this); }

void Block::used_by(const std::shared_ptr<Stream>& stream) {
    if (stream->handle() == stream_->handle()) return;
    std::lock_guard lock(mutex_);
    std::unique_ptr<Event>& event = uses_[stream->handle()];
    if (!event) event = std::make_unique<Event>(stream->device(), false);
    stream->record(*event);
}

std::shared_ptr<Pool> Pool::of(int device) {
    static std::mutex mutex;
    static auto* pools =
        new std::map<int, std::shared_ptr<Pool>>;  // kept to the end: blocks may outlive statics
    std::lock_guard lock(mutex);
    std::shared_ptr<Pool>& pool = (*pools)[device];
    if (!pool) pool = std::make_shared<Pool>(Device(device).id());
    return pool;
}

std::size_t Pool::rounded(std::size_t size) {
    return size <= kLarge ? std::max(up_to(size, kSmallest), kSmallest) : up_to(size, kHugePage);
}

std::shared_ptr<Block> Pool::allocate(const std::shared_ptr<Stream>& stream, std::size_t size) {
    if (stream->device() != device_)
        throw std::invalid_argument("memory of npu:" + std::to_string(device_) +
                                    " was asked for a stream of npu:" + std::to_string(stream->device()));
    const aclrtStream owner = stream->handle();
    const std::size_t wanted = rounded(size);
    std::unique_ptr<DeviceBuffer> buffer;
    {
        Buffers ownerless;  // freed after the lock is
        std::lock_guard lock(mutex_);
        ownerless = collect();
        buffer = take_kept(owner, wanted);
    }
    if (!buffer) buffer = take_new(wanted);
    std::lock_guard lock(mutex_);
    stats_.allocated += buffer->size();
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    ++stats_.allocations;
    ++stats_.blocks_in_use;
    return std::shared_ptr<Block>(new Block(shared_from_this(), stream, std::move(buffer)));
}

std::unique_ptr<DeviceBuffer> Pool::take_kept(aclrtStream stream, std::size_t size) {
    const auto owner = kept_.find(stream);
    if (owner == kept_.end()) return nullptr;
    const auto found = owner->second.lower_bound(size);
    if (found == owner->second.end() || !fits(found->first, size)) return nullptr;
    auto buffer = std::move(found->second);
    owner->second.erase(found);
    return buffer;
}

std::unique_ptr<DeviceBuffer> Pool::take_new(std::size_t size) {
    const auto take = [&] {
        auto buffer = std::make_unique<DeviceBuffer>(device_, size);
        std::lock_guard lock(mutex_);
        ++stats_.device_allocations;
        stats_.reserved += buffer->size();
        stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
        return buffer;
    };
    try {
        return take();
    } catch (const Error& error) {
        if (!error.out_of_memory() || !release_kept()) throw;
    }
    {
        std::lock_guard lock(mutex_);
        ++stats_.retries;
    }
    return take();
}

void Pool::give_back(Block& block) noexcept {
    std::lock_guard lock(mutex_);
    stats_.allocated -= block.buffer_->size();
    ++stats_.frees;
    --stats_.blocks_in_use;
    try {
        const aclrtStream owner = block.stream_->closed() ? nullptr : block.stream_->handle();
        if (owner != nullptr && block.uses_.empty()) {
            const std::size_t size = block.buffer_->size();
            kept_[owner].emplace(size, std::move(block.buffer_));
        } else {
            Waiting waiting{owner, std::move(block.buffer_), {}};
            for (auto& [stream, event] : block.uses_) waiting.events.push_back(std::move(event));
            waiting_.push_back(std::move(waiting));
        }
    } catch (const std::exception&) {  // no room for the note, or closed this instant: CANN has it back
        if (block.buffer_) stats_.reserved -= block.buffer_->size();
        block.buffer_.reset();
    }
}

// Looks which blocks are free again. Gives those whose stream is closed, for the caller to free without the
// lock.
Pool::Buffers Pool::collect() {
    Buffers ownerless;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
        if (!std::ranges::all_of(each->events, [](const auto& event) { return event->complete(); })) {
            ++each;
            continue;
        }
        const std::size_t size = each->buffer->size();
        if (each->owner != nullptr) {
            kept_[each->owner].emplace(size, std::move(each->buffer));
        } else {
            stats_.reserved -= size;
            ++stats_.device_frees;
            ownerless.push_back(std::move(each->buffer));
        }
        each = waiting_.erase(each);
    }
    return ownerless;
}

// Whether there was anything to give back to CANN.
bool Pool::release_kept() {
    Kept kept;
    std::list<Waiting> waiting;
    {
        std::lock_guard lock(mutex_);
        for (auto each = kept_.begin(); each != kept_.end();) {
            const auto next = std::next(each);
            if (!held_.contains(each->first)) kept.insert(kept_.extract(each));
            each = next;
        }
        waiting.swap(waiting_);
        const auto forget = [&](const DeviceBuffer& buffer) {
            stats_.reserved -= buffer.size();
            ++stats_.device_frees;
        };
        for (const auto& [owner, buffers] : kept)
            for (const auto& [size, buffer] : buffers) forget(*buffer);
        for (const Waiting& each : waiting) forget(*each.buffer);
    }
    if (kept.empty() && waiting.empty()) return false;
    Device(device_).synchronize();  // aclrtFree does not wait for work that still uses the memory
    for (const Waiting& each : waiting)
        for (const auto& event : each.events) event->synchronize();  // of other devices' streams too
    return true;
}

Pool::Hold Pool::hold(const std::shared_ptr<Stream>& stream) {
    const aclrtStream handle = stream->handle();
    std::lock_guard lock(mutex_);
    held_.insert(handle);
    return {shared_from_this(), handle};
}

void Pool::Hold::release() {
    const std::shared_ptr<Pool> pool = std::move(pool_);
    if (!pool) return;
    std::lock_guard lock(pool->mutex_);
    pool->held_.erase(pool->held_.find(stream_));
}

void Pool::trim() { release_kept(); }

PoolStats Pool::stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
}

void Pool::reset_peaks() {
    std::lock_guard lock(mutex_);
    stats_.peak_allocated = stats_.allocated;
    stats_.peak_reserved = stats_.reserved;
}

}  // namespace npu::cann
