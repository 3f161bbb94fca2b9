// Streams of other libraries in one process: theirs and ours wait for each other without the host.
#include "pjrt/abi.h"
#include "pjrt/buffer.h"
#include "pjrt/extensions.h"

namespace npu::pjrt {
namespace {

void get(PJRT_Get_Stream_For_External_Ready_Events_Args& args) {
    args.stream = reinterpret_cast<int64_t>(need(args.device, "device").stream()->handle());
}

void wait(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args& args) {
    const Buffer& buffer = need(args.buffer, "buffer");
    Device& device = buffer.device();
    const std::shared_ptr<Signal> ready = buffer.ready();
    if (!ready->ready() && !ready->precedes(*device.stream())) ready->wait();
    if (const Failure* failure = ready->known_failure()) throw Status(*failure);
    if (ready->ready()) return;
    const auto event = std::make_shared<cann::Event>(device.number(), false);
    device.stream()->record(*event);
    cann::Stream::borrow(device.number(), reinterpret_cast<aclrtStream>(args.stream))->wait(*event);
    device.mark()->then([event](const Failure*) {});
}

}  // namespace

PJRT_Extension_Base* stream_extension(PJRT_Extension_Base* next) {
    static PJRT_Stream_Extension extension{};
    extension.base = {sizeof extension, PJRT_Extension_Type_Stream, next};
    extension.get_stream = extension_slot<get>();
    extension.wait_stream = extension_slot<wait>();
    return &extension.base;
}

}  // namespace npu::pjrt
