// What callers know as PJRT_Buffer: an array on a device, or one that will be there.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pjrt/element_type.h"
#include "pjrt/event.h"
#include "pjrt/storage.h"

namespace npu::pjrt {

/// Shape and element type.
struct Shape {
    int type = 0;
    std::vector<int64_t> dims;
    std::size_t bytes = 0;

    /// Throws Status: impossible.
    static Shape of(int type, std::span<const int64_t> dims);
    bool operator==(const Shape& other) const { return type == other.type && dims == other.dims; }
    std::string text() const { return shape_text(type, dims); }
};

/// Contents that several buffers may share; nobody writes to them once they are ready.
struct Value {
    std::shared_ptr<Storage> storage;  ///< may be set later, but not after `ready` is set without a failure
    std::shared_ptr<Signal> ready;

    /// Waits, then the memory. Throws Status: the failure.
    const std::shared_ptr<Storage>& get() const;
};

/// Thread-safe.
class Buffer {
  public:
    Buffer(Shape shape, Memory& memory, std::shared_ptr<Value> value);
    ~Buffer();

    const Shape& shape() const { return shape_; }
    Memory& memory() const { return memory_; }
    Device& device() const { return memory_.device(); }

    /// Throws Status: deleted or donated.
    std::shared_ptr<Value> value() const;
    /// The same, and it is deleted from now on. Throws Status also where somebody holds a reference from
    /// outside.
    std::shared_ptr<Value> donate();
    void remove();
    bool removed() const;
    /// The signal of its contents, also after it was deleted.
    std::shared_ptr<Signal> ready() const;

    void hold();
    void release();

  private:
    const Shape shape_;
    Memory& memory_;
    mutable std::mutex mutex_;
    std::shared_ptr<Value> value_;  ///< null: deleted
    std::shared_ptr<Signal> ready_;
    std::shared_ptr<Value> held_;  ///< kept for references from outside
    int holds_ = 0;
};

/// The shape of a caller's buffer. Throws Status: impossible, or a layout that is not row-major.
Shape read_shape(int type, const int64_t* dims, std::size_t rank, const PJRT_Buffer_MemoryLayout* layout);

/// Throws Status: not within the shape's bytes.
void check_range(const Shape& shape, int64_t offset, int64_t size);

void bind_buffer(PJRT_Api& api);
void bind_buffer_creation(PJRT_Api& api);
void bind_buffer_copies(PJRT_Api& api);
void bind_buffer_promises(PJRT_Api& api);

}  // namespace npu::pjrt
