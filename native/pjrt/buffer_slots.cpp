// PJRT_Buffer_*: what a buffer is, and its life.
#include <vector>

#include "pjrt/abi.h"
#include "pjrt/buffer.h"
#include "pjrt/layout.h"

namespace npu::pjrt {
namespace {

Buffer& buffer(Buffer* handle) { return need(handle, "buffer"); }

void destroy(PJRT_Buffer_Destroy_Args& args) { delete args.buffer; }

void element_type(PJRT_Buffer_ElementType_Args& args) {
    args.type = static_cast<uint32_t>(buffer(args.buffer).shape().type);
}

void dimensions(PJRT_Buffer_Dimensions_Args& args) {
    const auto& dims = buffer(args.buffer).shape().dims;
    args.dims = dims.data();
    args.num_dims = dims.size();
}

void unpadded_dimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
    const auto& dims = buffer(args.buffer).shape().dims;
    args.unpadded_dims = dims.data();
    args.num_dims = dims.size();
}

void dynamic_dimensions(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
    buffer(args.buffer);
    args.dynamic_dim_indices = nullptr;
    args.num_dynamic_dims = 0;
}

// Row-major: the last dimension first.
const int64_t* minor_to_major(std::size_t rank) {
    static const auto orders = [] {
        std::vector<std::vector<int64_t>> all(kMostDimensions + 1);
        for (std::size_t rank = 0; rank <= kMostDimensions; ++rank)
            for (std::size_t i = rank; i-- > 0;) all[rank].push_back(static_cast<int64_t>(i));
        return all;
    }();
    return orders[rank].data();
}

void memory_layout(PJRT_Buffer_GetMemoryLayout_Args& args) {
    const std::size_t rank = buffer(args.buffer).shape().dims.size();
    args.layout = {};
    args.layout.struct_size = sizeof args.layout;
    args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    args.layout.value.tiled.struct_size = sizeof args.layout.value.tiled;
    args.layout.value.tiled.minor_to_major = minor_to_major(rank);
    args.layout.value.tiled.minor_to_major_size = rank;
}

void on_device_size(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
    args.on_device_size_in_bytes = buffer(args.buffer).shape().bytes;
}

void device(PJRT_Buffer_Device_Args& args) { args.device = &buffer(args.buffer).device(); }

void memory(PJRT_Buffer_Memory_Args& args) { args.memory = &buffer(args.buffer).memory(); }

void remove(PJRT_Buffer_Delete_Args& args) { buffer(args.buffer).remove(); }

void is_removed(PJRT_Buffer_IsDeleted_Args& args) { args.is_deleted = buffer(args.buffer).removed(); }

void is_on_cpu(PJRT_Buffer_IsOnCpu_Args& args) {
    buffer(args.buffer);
    args.is_on_cpu = false;
}

void ready_event(PJRT_Buffer_ReadyEvent_Args& args) { args.event = new Event(buffer(args.buffer).ready()); }

void unsafe_pointer(PJRT_Buffer_UnsafePointer_Args& args) {
    args.buffer_pointer = reinterpret_cast<std::size_t>(buffer(args.buffer).value()->get()->address());
}

void opaque_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
    args.device_memory_ptr = buffer(args.buffer).value()->get()->address();
}

void hold(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) { buffer(args.buffer).hold(); }

void release(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) { buffer(args.buffer).release(); }

}  // namespace

void bind_buffer(PJRT_Api& api) {
    api.PJRT_Buffer_Destroy = slot<destroy>;
    api.PJRT_Buffer_ElementType = slot<element_type>;
    api.PJRT_Buffer_Dimensions = slot<dimensions>;
    api.PJRT_Buffer_UnpaddedDimensions = slot<unpadded_dimensions>;
    api.PJRT_Buffer_DynamicDimensionIndices = slot<dynamic_dimensions>;
    api.PJRT_Buffer_GetMemoryLayout = slot<memory_layout>;
    api.PJRT_Buffer_OnDeviceSizeInBytes = slot<on_device_size>;
    api.PJRT_Buffer_Device = slot<device>;
    api.PJRT_Buffer_Memory = slot<memory>;
    api.PJRT_Buffer_Delete = slot<remove>;
    api.PJRT_Buffer_IsDeleted = slot<is_removed>;
    api.PJRT_Buffer_IsOnCpu = slot<is_on_cpu>;
    api.PJRT_Buffer_ReadyEvent = slot<ready_event>;
    api.PJRT_Buffer_UnsafePointer = slot<unsafe_pointer>;
    api.PJRT_Buffer_OpaqueDeviceMemoryDataPointer = slot<opaque_pointer>;
    api.PJRT_Buffer_IncreaseExternalReferenceCount = slot<hold>;
    api.PJRT_Buffer_DecreaseExternalReferenceCount = slot<release>;
}

}  // namespace npu::pjrt
