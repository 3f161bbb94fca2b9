// The bytes of a buffer, to read and write in place.
#include "pjrt/abi.h"
#include "pjrt/extensions.h"
#include "pjrt/work.h"

namespace npu::pjrt {

/// Keeps the buffer's memory. Thread-safe.
class RawBuffer {
  public:
    explicit RawBuffer(const Buffer& buffer)
        : shape_(buffer.shape()), memory_(buffer.memory()), value_(buffer.value()) {}
    const Shape& shape() const { return shape_; }
    Memory& memory() const { return memory_; }
    const std::shared_ptr<Value>& value() const { return value_; }

  private:
    Shape shape_;
    Memory& memory_;
    std::shared_ptr<Value> value_;
};

namespace {

RawBuffer& raw(RawBuffer* handle) { return need(handle, "raw buffer"); }

void create(PJRT_RawBuffer_CreateRawAliasOfBuffer_Args& args) {
    args.raw_buffer = new RawBuffer(need(args.buffer, "buffer"));
}

void destroy(PJRT_RawBuffer_Destroy_Args& args) { delete args.buffer; }

void size(PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args& args) {
    args.on_device_size_in_bytes = raw(args.buffer).shape().bytes;
}

void memory(PJRT_RawBuffer_GetMemorySpace_Args& args) { args.memory_space = &raw(args.buffer).memory(); }

// Null: the host cannot reach it.
void host_pointer(PJRT_RawBuffer_GetHostPointer_Args& args) {
    const RawBuffer& asked = raw(args.buffer);
    args.host_pointer = asked.memory().on_host() ? asked.value()->get()->address() : nullptr;
}

void to_host(PJRT_RawBuffer_CopyRawDeviceToHost_Args& args) {
    const RawBuffer& from = raw(args.buffer);
    check_range(from.shape(), args.offset, args.transfer_size);
    args.event = new Event(download(from.value(), static_cast<std::size_t>(args.offset),
                                    static_cast<std::size_t>(args.transfer_size), nullptr, args.dst));
}

void from_host(PJRT_RawBuffer_CopyRawHostToDevice_Args& args) {
    const RawBuffer& to = raw(args.buffer);
    check_range(to.shape(), args.offset, args.transfer_size);
    Device& device = to.memory().device();
    void* target = to.value()->get()->at(static_cast<std::size_t>(args.offset));
    if (args.transfer_size > 0)
        cann::copy_async(*device.stream(), target, args.src, static_cast<std::size_t>(args.transfer_size),
                         copy_kind(&to.memory(), nullptr));
    auto done = device.mark();
    done->then([value = to.value()](const Failure*) {});
    args.event = new Event(std::move(done));
}

}  // namespace

PJRT_Extension_Base* raw_buffer_extension(PJRT_Extension_Base* next) {
    static PJRT_RawBuffer_Extension extension{};
    extension.base = {sizeof extension, PJRT_Extension_Type_RawBuffer, next};
    extension.PJRT_RawBuffer_CreateRawAliasOfBuffer = extension_slot<create>();
    extension.PJRT_RawBuffer_Destroy = extension_slot<destroy>();
    extension.PJRT_RawBuffer_GetOnDeviceSizeInBytes = extension_slot<size>();
    extension.PJRT_RawBuffer_GetMemorySpace = extension_slot<memory>();
    extension.PJRT_RawBuffer_CopyRawHostToDevice = extension_slot<from_host>();
    extension.PJRT_RawBuffer_CopyRawDeviceToHost = extension_slot<to_host>();
    extension.PJRT_RawBuffer_GetHostPointer = extension_slot<host_pointer>();
    return &extension.base;
}

}  // namespace npu::pjrt
