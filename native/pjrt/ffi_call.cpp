// One call of a handler: the frame it reads, and what becomes of its answer.
#include "pjrt/ffi.h"

namespace npu::pjrt {
namespace {

// Device arrays in the form in which handlers read them.
class Buffers {
  public:
    Buffers(const Storages& storages, const std::vector<Shape>& shapes) {
        buffers_.reserve(shapes.size());
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            XLA_FFI_Buffer& buffer = buffers_.emplace_back();
            buffer.struct_size = sizeof buffer;
            buffer.dtype = ffi_type(shapes[i].type);
            buffer.data = storages[i]->address();
            buffer.rank = static_cast<int64_t>(shapes[i].dims.size());
            buffer.dims = const_cast<int64_t*>(shapes[i].dims.data());  // as the API has it; nobody writes
            addresses_.push_back(&buffer);
        }
        types_.assign(shapes.size(), XLA_FFI_ArgType_BUFFER);  // XLA_FFI_RetType_BUFFER is the same number
    }
    int64_t count() const { return static_cast<int64_t>(buffers_.size()); }
    void* types() { return types_.data(); }
    void* addresses() { return addresses_.data(); }

  private:
    std::vector<XLA_FFI_Buffer> buffers_;
    std::vector<void*> addresses_;
    std::vector<uint32_t> types_;
};
static_assert(static_cast<int>(XLA_FFI_ArgType_BUFFER) == static_cast<int>(XLA_FFI_RetType_BUFFER));

}  // namespace

Storages run_ffi(Device& device, const HostCall& call, const Storages& inputs,
                 const std::vector<Shape>& shapes, const std::vector<Shape>& results, const RunInfo& run) {
    const FfiHandler handler = ffi_handler(call.target);
    Storages given = inputs, made;
    for (const Shape& shape : results)
        made.push_back(Storage::allocate(device.default_memory(), shape.bytes));
    // The handler may write into the memory of both; the input's own is not given away.
    for (const Alias& alias : call.aliases) {
        copy_on_stream(*made[alias.result], *inputs[alias.parameter]);
        given[alias.parameter] = made[alias.result];
    }
    Buffers arguments(given, shapes), answers(made, results);
    FfiAttributes attributes(call.attributes);
    FfiContext context{device, run, {}};
    XLA_FFI_CallFrame frame{};
    frame.struct_size = kFfiCallFrameSize;
    frame.api = const_cast<XLA_FFI_Api*>(&ffi_api());
    frame.ctx = &context;
    frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame.args = {sizeof frame.args, nullptr, arguments.count(), arguments.types(), arguments.addresses()};
    frame.rets = {sizeof frame.rets, nullptr, answers.count(), answers.types(), answers.addresses()};
    frame.attrs = attributes.frame();
    const cann::DeviceGuard current(device.number());  // for the handler's own calls of CANN
    const std::unique_ptr<FfiError> error(static_cast<FfiError*>(handler(&frame)));
    const std::unique_ptr<FfiFuture> future(static_cast<FfiFuture*>(frame.future));
    if (error) throw Status(error->failure);
    if (future)
        if (const Failure* failure = future->signal->wait()) throw Status(*failure);
    return made;
}

}  // namespace npu::pjrt
