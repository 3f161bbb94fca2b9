#include "pjrt/transfer_manager.h"

#include "pjrt/abi.h"
#include "pjrt/client.h"
#include "pjrt/layout.h"

namespace npu::pjrt {

TransferManager::TransferManager(Memory& memory, std::vector<Shape> shapes) : memory_(memory) {
    Device& device = memory.device();
    for (Shape& shape : shapes) {
        auto value = std::make_shared<Value>(
            Value{Storage::allocate(memory, shape.bytes), std::make_shared<Signal>()});
        targets_.push_back({std::move(shape), std::move(value)});
    }
    // From here on the pieces are copied at once, past the stream: earlier users of the memory must be done.
    if (!device.stream()->idle()) device.mark()->wait();
}

TransferManager::~TransferManager() {
    for (const Target& target : targets_)
        target.value->ready->set(Failure{PJRT_Error_Code_CANCELLED, "the transfer to " + target.shape.text() +
                                                                        " was given up before its end"});
}

TransferManager::Target& TransferManager::target(int64_t index) {
    if (index < 0 || index >= static_cast<int64_t>(targets_.size()))
        throw invalid("there is no buffer " + std::to_string(index) + " among the " +
                      std::to_string(targets_.size()) + " of the transfer");
    return targets_[index];
}

std::unique_ptr<Buffer> TransferManager::buffer(int64_t index) {
    Target& asked = target(index);
    return std::make_unique<Buffer>(asked.shape, memory_, asked.value);
}

void TransferManager::transfer(int64_t index, const void* data, int64_t offset, int64_t size, bool last) {
    const Target& asked = target(index);
    check_range(asked.shape, offset, size);
    if (asked.value->ready->ready()) throw precondition("the buffer " + asked.shape.text() + " is complete");
    copy_now(memory_.device(), asked.value->storage->at(static_cast<std::size_t>(offset)), &memory_, data,
             nullptr, static_cast<std::size_t>(size));
    if (last) asked.value->ready->set(std::nullopt);
}

void TransferManager::fail(int64_t index, Failure failure) {
    target(index).value->ready->set(std::move(failure));
}

namespace {

TransferManager& manager(TransferManager* handle) { return need(handle, "transfer manager"); }

void create(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args) {
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < args.num_shape_specs; ++i) {
        const PJRT_ShapeSpec& spec = args.shape_specs[i];
        const PJRT_Buffer_MemoryLayout* layout =
            i < args.num_device_layouts ? args.device_layouts[i] : nullptr;
        shapes.push_back(read_shape(static_cast<int>(spec.element_type), spec.dims, spec.num_dims, layout));
    }
    args.transfer_manager = new TransferManager(need(args.memory, "memory"), std::move(shapes));
}

void destroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args& args) { delete args.transfer_manager; }

void transfer_data(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args) {
    auto done = std::make_unique<Event>(Signal::done());
    manager(args.transfer_manager)
        .transfer(args.buffer_index, args.data, args.offset, args.transfer_size, args.is_last_transfer);
    args.done_with_h2d_transfer = done.release();
}

void transfer_literal(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args& args) {
    auto done = std::make_unique<Event>(Signal::done());
    TransferManager& target = manager(args.transfer_manager);
    const Shape shape = read_shape(static_cast<int>(args.shape_element_type), args.shape_dims,
                                   args.shape_num_dims, args.shape_layout);
    if (!(shape == target.shape(args.buffer_index)))
        throw invalid("a literal " + shape.text() + " was given for " +
                      target.shape(args.buffer_index).text());
    target.transfer(args.buffer_index, args.data, 0, static_cast<int64_t>(shape.bytes), true);
    args.done_with_h2d_transfer = done.release();
}

void retrieve(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& args) {
    args.buffer_out = manager(args.transfer_manager).buffer(args.buffer_index).release();
}

void device(PJRT_AsyncHostToDeviceTransferManager_Device_Args& args) {
    args.device_out = &manager(args.transfer_manager).memory().device();
}

void count(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args& args) {
    args.buffer_count = manager(args.transfer_manager).count();
}

void size(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args& args) {
    args.buffer_size = manager(args.transfer_manager).shape(args.buffer_index).bytes;
}

void set_error(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args& args) {
    manager(args.transfer_manager)
        .fail(args.buffer_index,
              {static_cast<int>(args.error_code), text(args.error_message, args.error_message_size)});
}

// Descriptions for a profiler, which there is none to read.
void add_metadata(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args& args) {
    manager(args.transfer_manager);
}

}  // namespace

void bind_transfer_manager(PJRT_Api& api) {
    api.PJRT_Client_CreateBuffersForAsyncHostToDevice = slot<create>;
    api.PJRT_AsyncHostToDeviceTransferManager_Destroy = slot<destroy>;
    api.PJRT_AsyncHostToDeviceTransferManager_TransferData = slot<transfer_data>;
    api.PJRT_AsyncHostToDeviceTransferManager_TransferLiteral = slot<transfer_literal>;
    api.PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer = slot<retrieve>;
    api.PJRT_AsyncHostToDeviceTransferManager_Device = slot<device>;
    api.PJRT_AsyncHostToDeviceTransferManager_BufferCount = slot<count>;
    api.PJRT_AsyncHostToDeviceTransferManager_BufferSize = slot<size>;
    api.PJRT_AsyncHostToDeviceTransferManager_SetBufferError = slot<set_error>;
    api.PJRT_AsyncHostToDeviceTransferManager_AddMetadata = slot<add_metadata>;
}

}  // namespace npu::pjrt
