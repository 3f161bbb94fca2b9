// The calls that make buffers from something else than a program.
#include <cstring>

#include "pjrt/abi.h"
#include "pjrt/client.h"
#include "pjrt/layout.h"
#include "pjrt/work.h"

namespace npu::pjrt {
namespace {

// The host's array, dense: itself, or a copy in `packed` where its strides are others.
const void* dense(const void* data, const Shape& shape, const int64_t* strides, std::size_t count,
                  std::unique_ptr<std::byte[]>& packed) {
    if (strides == nullptr || count == 0 || shape.bytes == 0) return data;
    if (count != shape.dims.size())
        throw invalid(std::to_string(count) + " strides do not describe " + shape.text());
    const std::vector<int64_t> given(strides, strides + count), ours = row_major_strides(shape);
    bool same = true;
    for (std::size_t i = 0; i < count; ++i) same = same && (shape.dims[i] == 1 || given[i] == ours[i]);
    if (same) return data;
    packed = std::make_unique_for_overwrite<std::byte[]>(shape.bytes);
    copy_strided(packed.get(), ours, data, given, shape);
    return packed.get();
}

// The bytes are taken within the call, whatever the caller allows beyond that.
void from_host(PJRT_Client_BufferFromHostBuffer_Args& args) {
    Memory& memory = need(args.client, "client").place(args.memory, args.device);
    Shape shape = read_shape(static_cast<int>(args.type), args.dims, args.num_dims, args.device_layout);
    std::unique_ptr<std::byte[]> packed;
    const void* data = dense(args.data, shape, args.byte_strides, args.num_byte_strides, packed);
    auto value = upload(memory, data, shape.bytes);
    auto done = std::make_unique<Event>(Signal::done());
    args.buffer = new Buffer(std::move(shape), memory, std::move(value));
    args.done_with_host_buffer = done.release();
}

void uninitialised(PJRT_Client_CreateUninitializedBuffer_Args& args) {
    Memory& memory = need(args.client, "client").place(args.memory, args.device);
    Shape shape = read_shape(static_cast<int>(args.shape_element_type), args.shape_dims, args.shape_num_dims,
                             args.shape_layout);
    auto value = std::make_shared<Value>(Value{Storage::allocate(memory, shape.bytes), Signal::done()});
    args.buffer = new Buffer(std::move(shape), memory, std::move(value));
}

// Work that the caller has on a stream of its own comes before all of ours from now on.
std::shared_ptr<Signal> after_stream(Device& device, int64_t handle) {
    if (handle == 0) return Signal::done();
    const auto theirs = cann::Stream::borrow(device.number(), reinterpret_cast<aclrtStream>(handle));
    const auto event = std::make_shared<cann::Event>(device.number(), false);
    theirs->record(*event);
    device.stream()->wait(*event);
    auto ready = device.mark();
    ready->then([event](const Failure*) {});  // which must not go before the wait is over
    return ready;
}

void view(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
    Memory& memory = need(args.client, "client").place(args.memory, args.device);
    Shape shape = read_shape(static_cast<int>(args.element_type), args.dims, args.num_dims, args.layout);
    if (args.device_buffer_ptr == nullptr && shape.bytes > 0)
        throw invalid("the caller gave no memory for a view of " + shape.text());
    std::shared_ptr<Signal> ready = after_stream(memory.device(), args.stream);
    std::function<void()> released;
    if (args.on_delete_callback != nullptr)
        released = [callback = args.on_delete_callback, address = args.device_buffer_ptr,
                    argument = args.on_delete_callback_arg] { callback(address, argument); };
    auto storage = Storage::borrow(memory, args.device_buffer_ptr, shape.bytes, std::move(released));
    auto value = std::make_shared<Value>(Value{std::move(storage), std::move(ready)});
    args.buffer = new Buffer(std::move(shape), memory, std::move(value));
}

void of_error(PJRT_Client_CreateErrorBuffer_Args& args) {
    Memory& memory = need(args.memory, "memory");
    Shape shape = read_shape(static_cast<int>(args.shape_element_type), args.shape_dims, args.shape_num_dims,
                             args.shape_layout);
    auto ready = Signal::failed(
        {static_cast<int>(args.error_code), text(args.error_message, args.error_message_size)});
    args.buffer = new Buffer(std::move(shape), memory, std::make_shared<Value>(Value{nullptr, ready}));
}

}  // namespace

void bind_buffer_creation(PJRT_Api& api) {
    api.PJRT_Client_BufferFromHostBuffer = slot<from_host>;
    api.PJRT_Client_CreateUninitializedBuffer = slot<uninitialised>;
    api.PJRT_Client_CreateViewOfDeviceBuffer = slot<view>;
    api.PJRT_Client_CreateErrorBuffer = slot<of_error>;
}

}  // namespace npu::pjrt
