// Buffers whose contents, or the place they are copied to, are told later.
#include "pjrt/abi.h"
#include "pjrt/work.h"

namespace npu::pjrt {
namespace {

// What a caller tells by a code and a sentence.
std::optional<Failure> failure_of(uint32_t code, const char* message, std::size_t size) {
    if (code == PJRT_Error_Code_OK) return std::nullopt;
    return Failure{static_cast<int>(code), text(message, size)};
}

std::optional<Failure> copied(const Failure* failure) {
    return failure == nullptr ? std::nullopt : std::optional(*failure);
}

// What fulfils an alias buffer: its contents, to be set once.
struct Alias {
    std::shared_ptr<Value> value;
    Shape shape;
};

void alias(PJRT_Client_CreateAliasBuffer_Args& args) {
    Memory& memory = need(args.memory, "memory");
    Shape shape = read_shape(static_cast<int>(args.shape_element_type), args.shape_dims, args.shape_num_dims,
                             args.shape_layout);
    auto alias = std::make_unique<Alias>(
        Alias{std::make_shared<Value>(Value{nullptr, std::make_shared<Signal>()}), shape});
    args.alias_buffer = new Buffer(std::move(shape), memory, alias->value);
    args.fulfill_alias_buffer_cb = alias.release();
}

void fulfil(PJRT_Client_FulfillAliasBuffer_Args& args) {
    const std::unique_ptr<Alias> alias(static_cast<Alias*>(args.fulfill_alias_buffer_cb));
    need(alias.get(), "alias buffer");
    const std::shared_ptr<Value> target = alias->value;
    if (const auto failure = failure_of(args.status_code, args.error_message, args.error_message_size))
        return target->ready->set(failure);
    const Buffer& source = need(args.buffer, "buffer");
    if (!(source.shape() == alias->shape)) {
        const Failure failure{
            PJRT_Error_Code_INVALID_ARGUMENT,
            "an alias buffer of " + alias->shape.text() + " was fulfilled with " + source.shape().text()};
        target->ready->set(failure);
        throw Status(failure);
    }
    source.ready()->then([target, value = source.value()](const Failure* failure) {
        target->storage = value->storage;
        target->ready->set(copied(failure));
    });
}

// The same contents behind a buffer that is ready only when the caller says so.
struct Dependency {
    std::shared_ptr<Value> from, to;
};

void dependency_ready(PJRT_Buffer_DonateWithControlDependency_Callback_Args* args) {
    const std::unique_ptr<Dependency> dependency(static_cast<Dependency*>(args->callback_data));
    const auto failure = failure_of(args->error_code, args->error_message, args->error_message_size);
    if (failure) return dependency->to->ready->set(failure);
    dependency->from->ready->then([from = dependency->from, to = dependency->to](const Failure* failed) {
        to->storage = from->storage;
        to->ready->set(copied(failed));
    });
}

void donate_after(PJRT_Buffer_DonateWithControlDependency_Args& args) {
    Buffer& source = need(args.buffer, "buffer");
    auto to = std::make_shared<Value>(Value{nullptr, std::make_shared<Signal>()});
    auto buffer = std::make_unique<Buffer>(source.shape(), source.memory(), to);
    auto dependency = std::make_unique<Dependency>(Dependency{source.donate(), std::move(to)});
    args.out_buffer = buffer.release();
    args.callback_data = dependency.release();
    args.dependency_ready_callback = reinterpret_cast<void*>(dependency_ready);
}

// A copy to host memory that the caller names later.
struct LaterCopy {
    std::shared_ptr<Value> value;
    std::size_t offset, bytes;
    std::shared_ptr<Signal> done;
};

void destination_ready(PJRT_Buffer_CopyRawToHostFuture_Callback_Args* args) {
    const std::unique_ptr<LaterCopy> copy(static_cast<LaterCopy*>(args->callback_data));
    const auto failure = failure_of(args->error_code, args->error_message, args->error_message_size);
    if (failure) return copy->done->set(failure);
    download(copy->value, copy->offset, copy->bytes, nullptr, args->dst)
        ->then([done = copy->done](const Failure* failed) { done->set(copied(failed)); });
}

void copy_later(PJRT_Buffer_CopyRawToHostFuture_Args& args) {
    const Buffer& source = need(args.buffer, "buffer");
    check_range(source.shape(), args.offset, args.transfer_size);
    auto done = std::make_shared<Signal>();
    auto event = std::make_unique<Event>(done);
    auto copy = std::make_unique<LaterCopy>(LaterCopy{source.value(), static_cast<std::size_t>(args.offset),
                                                      static_cast<std::size_t>(args.transfer_size), done});
    args.event = event.release();
    args.callback_data = copy.release();
    args.future_ready_callback = reinterpret_cast<void*>(destination_ready);
}

}  // namespace

void bind_buffer_promises(PJRT_Api& api) {
    api.PJRT_Client_CreateAliasBuffer = slot<alias>;
    api.PJRT_Client_FulfillAliasBuffer = slot<fulfil>;
    api.PJRT_Buffer_DonateWithControlDependency = slot<donate_after>;
    api.PJRT_Buffer_CopyRawToHostFuture = slot<copy_later>;
}

}  // namespace npu::pjrt
