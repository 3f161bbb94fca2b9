// The calls that copy buffers: to the host, to another memory, as other types.
#include "pjrt/abi.h"
#include "pjrt/client.h"
#include "pjrt/layout.h"
#include "pjrt/work.h"

namespace npu::pjrt {
namespace {

Buffer& buffer(Buffer* handle) { return need(handle, "buffer"); }

void to_host(PJRT_Buffer_ToHostBuffer_Args& args) {
    const Buffer& source = buffer(args.src);
    const Shape shape = source.shape();
    if (args.dst == nullptr) {
        args.dst_size = shape.bytes;
        return;
    }
    if (args.dst_size < shape.bytes)
        throw invalid(shape.text() + " needs " + std::to_string(shape.bytes) +
                      " bytes, the host's buffer has " + std::to_string(args.dst_size));
    std::function<void(const std::byte*)> taken;
    if (args.host_layout != nullptr && !is_row_major(*args.host_layout, shape))
        taken = [to = args.dst, strides = byte_strides(*args.host_layout, shape),
                 shape](const std::byte* from) {
            copy_strided(to, strides, from, row_major_strides(shape), shape);
        };
    args.event = new Event(download(source.value(), 0, shape.bytes, std::move(taken), args.dst));
}

void raw_to_host(PJRT_Buffer_CopyRawToHost_Args& args) {
    const Buffer& source = buffer(args.buffer);
    check_range(source.shape(), args.offset, args.transfer_size);
    args.event = new Event(download(source.value(), static_cast<std::size_t>(args.offset),
                                    static_cast<std::size_t>(args.transfer_size), nullptr, args.dst));
}

// A copy of the value in another memory, of the same device or another one.
Buffer* copy_to(const Buffer& source, Memory& target) {
    Device& device = target.device();
    device.stream();  // fails here where it belongs to another process
    const std::shared_ptr<Value> value = source.value();
    const std::size_t bytes = source.shape().bytes;
    const Produced produced = produce(device, {value}, 1, true, [value, &target, bytes] {
        auto storage = Storage::allocate(target, bytes);
        copy_on_stream(*storage, *value->storage);
        return Storages{std::move(storage)};
    });
    // The pool of the target's stream knows nothing of memory that belongs elsewhere.
    if (&source.device() != &device || source.memory().on_host() || target.on_host())
        produced.done->then([value, made = produced.values](const Failure*) {});
    return new Buffer(source.shape(), target, produced.values[0]);
}

void to_device(PJRT_Buffer_CopyToDevice_Args& args) {
    args.dst_buffer = copy_to(buffer(args.buffer), need(args.dst_device, "device").default_memory());
}

void to_memory(PJRT_Buffer_CopyToMemory_Args& args) {
    args.dst_buffer = copy_to(buffer(args.buffer), need(args.dst_memory, "memory"));
}

void bitcast(PJRT_Buffer_Bitcast_Args& args) {
    const Buffer& source = buffer(args.buffer);
    Shape shape =
        read_shape(static_cast<int>(args.element_type), args.dims, args.num_dims, args.device_layout);
    if (shape.bytes != source.shape().bytes)
        throw invalid(source.shape().text() + " cannot be read as " + shape.text() + ": it has " +
                      std::to_string(source.shape().bytes) + " bytes, not " + std::to_string(shape.bytes));
    args.out_buffer = new Buffer(std::move(shape), source.memory(), source.value());
}

}  // namespace

void bind_buffer_copies(PJRT_Api& api) {
    api.PJRT_Buffer_ToHostBuffer = slot<to_host>;
    api.PJRT_Buffer_CopyRawToHost = slot<raw_to_host>;
    api.PJRT_Buffer_CopyToDevice = slot<to_device>;
    api.PJRT_Buffer_CopyToMemory = slot<to_memory>;
    api.PJRT_Buffer_Bitcast = slot<bitcast>;
}

}  // namespace npu::pjrt
