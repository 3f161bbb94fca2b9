#include "pjrt/buffer.h"

#include <utility>

#include "pjrt/callbacks.h"
#include "pjrt/layout.h"

namespace npu::pjrt {

Shape Shape::of(int type, std::span<const int64_t> dims) {
    return {type, {dims.begin(), dims.end()}, dense_bytes(type, dims)};
}

Shape read_shape(int type, const int64_t* dims, std::size_t rank, const PJRT_Buffer_MemoryLayout* layout) {
    if (rank > kMostDimensions)
        throw invalid("an array of " + std::to_string(rank) + " dimensions is refused; at most " +
                      std::to_string(kMostDimensions) + " are possible");
    Shape shape = Shape::of(type, {dims, rank});
    if (layout != nullptr && !is_row_major(*layout, shape))
        throw unimplemented("npu buffers are row-major; the caller asked for another layout of " +
                            shape.text());
    return shape;
}

void check_range(const Shape& shape, int64_t offset, int64_t size) {
    if (offset < 0 || size < 0 || offset > static_cast<int64_t>(shape.bytes) ||
        size > static_cast<int64_t>(shape.bytes) - offset)
        throw invalid(std::to_string(size) + " bytes from " + std::to_string(offset) + " are not within " +
                      shape.text() + " of " + std::to_string(shape.bytes) + " bytes");
}

const std::shared_ptr<Storage>& Value::get() const {
    if (!ready->ready()) {
        const CallerUnlocked unlocked;
        ready->wait();
    }
    if (const Failure* failure = ready->wait()) throw Status(*failure);
    return storage;
}

Buffer::Buffer(Shape shape, Memory& memory, std::shared_ptr<Value> value)
    : shape_(std::move(shape)), memory_(memory), value_(std::move(value)), ready_(value_->ready) {}

Buffer::~Buffer() = default;

std::shared_ptr<Value> Buffer::value() const {
    std::lock_guard lock(mutex_);
    if (!value_) throw invalid("the buffer " + shape_.text() + " has been deleted or donated");
    return value_;
}

std::shared_ptr<Value> Buffer::donate() {
    std::lock_guard lock(mutex_);
    if (!value_) throw invalid("the buffer " + shape_.text() + " has been deleted or donated already");
    if (holds_ > 0)
        throw invalid("the buffer " + shape_.text() + " cannot be donated: somebody outside refers to it");
    return std::exchange(value_, nullptr);
}

void Buffer::remove() {
    std::shared_ptr<Value> last;  // let go of without the lock
    std::lock_guard lock(mutex_);
    if (holds_ > 0) held_ = value_;
    last = std::exchange(value_, nullptr);
}

bool Buffer::removed() const {
    std::lock_guard lock(mutex_);
    return !value_;
}

std::shared_ptr<Signal> Buffer::ready() const { return ready_; }

void Buffer::hold() {
    std::lock_guard lock(mutex_);
    if (!value_) throw invalid("the buffer " + shape_.text() + " has been deleted or donated");
    ++holds_;
}

void Buffer::release() {
    std::shared_ptr<Value> last;
    std::lock_guard lock(mutex_);
    if (holds_ == 0) throw invalid("nobody refers to the buffer " + shape_.text() + " from outside");
    if (--holds_ == 0) last = std::exchange(held_, nullptr);
}

}  // namespace npu::pjrt
