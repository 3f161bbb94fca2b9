#include "pjrt/host_step.h"

#include "pjrt/callbacks.h"

namespace npu::pjrt {
namespace {

// Arrays in host memory for the length of a call.
class HostArrays {
  public:
    explicit HostArrays(const std::vector<Shape>& shapes) {
        for (const Shape& shape : shapes) {
            memory_.push_back(std::make_unique<std::byte[]>(std::max<std::size_t>(shape.bytes, 1)));
            arrays_.push_back({memory_.back().get(), shape.type, static_cast<int32_t>(shape.dims.size()),
                               shape.dims.data()});
        }
    }
    std::vector<NpuHostArray>& arrays() { return arrays_; }
    void* address(std::size_t index) const { return memory_[index].get(); }

  private:
    std::vector<std::unique_ptr<std::byte[]>> memory_;
    std::vector<NpuHostArray> arrays_;
};

}  // namespace

Storages run_on_host(Device& device, const HostCall& call, const Storages& inputs,
                     const std::vector<Shape>& shapes, const std::vector<Shape>& results) {
    HostArrays in(shapes), out(results);
    device.stream()->synchronize();
    for (std::size_t i = 0; i < inputs.size(); ++i)
        copy_now(device, in.address(i), nullptr, inputs[i]->address(), &inputs[i]->memory(), shapes[i].bytes);
    call_host(call.target, call.attributes, in.arrays(), out.arrays());
    Storages made;
    for (std::size_t i = 0; i < results.size(); ++i) {
        made.push_back(Storage::allocate(device.default_memory(), results[i].bytes));
        if (results[i].bytes > 0)  // pageable memory: the bytes are taken within the call
            cann::copy_async(*device.stream(), made[i]->address(), out.address(i), results[i].bytes,
                             ACL_MEMCPY_HOST_TO_DEVICE);
    }
    return made;
}

}  // namespace npu::pjrt
