// Pools, pinned memory, copies.
#include <pybind11/stl.h>

#include <map>
#include <mutex>

#include "bindings/bind.h"
#include "cann/pool.h"

namespace npu::bindings {
namespace {

using namespace cann;

// Pinned memory that asynchronous copies may use beyond its owner's interest: its end waits for them.
class PinnedMemory {
  public:
    PinnedMemory(int device, std::size_t size) : buffer_(device, size) {}
    ~PinnedMemory() {
        for (const auto& [stream, event] : uses_) {
            try {
                event->synchronize();
            } catch (const std::exception&) {  // the device failed: nothing will write here any more
            }
        }
    }

    const HostBuffer& buffer() const { return buffer_; }
    void used_by(const Stream& stream) {
        std::lock_guard lock(mutex_);
        std::unique_ptr<Event>& event = uses_[stream.handle()];
        if (!event) event = std::make_unique<Event>(stream.device(), false);
        stream.record(*event);
    }

  private:
    HostBuffer buffer_;
    std::mutex mutex_;
    std::map<aclrtStream, std::unique_ptr<Event>> uses_;
};

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

aclrtMemcpyKind kind_from(int kind) {
    if (kind < 0 || kind > static_cast<int>(ACL_MEMCPY_DEVICE_TO_DEVICE))
        throw std::invalid_argument("a copy's kind is one of aclrtMemcpyKind 0 to 3, not " +
                                    std::to_string(kind));
    return static_cast<aclrtMemcpyKind>(kind);
}

py::dict as_dict(const PoolStats& stats) {
    py::dict d;
    d["allocated_bytes"] = stats.allocated;
    d["peak_allocated_bytes"] = stats.peak_allocated;
    d["reserved_bytes"] = stats.reserved;
    d["peak_reserved_bytes"] = stats.peak_reserved;
    d["allocations"] = stats.allocations;
    d["frees"] = stats.frees;
    d["device_allocations"] = stats.device_allocations;
    d["device_frees"] = stats.device_frees;
    d["retries"] = stats.retries;
    d["blocks_in_use"] = stats.blocks_in_use;
    return d;
}

}  // namespace

void bind_memory(py::module_& module) {
    py::class_<PinnedMemory, std::shared_ptr<PinnedMemory>>(module, "PinnedMemory", py::buffer_protocol())
        .def(py::init([](int device, std::size_t size) {
                 py::gil_scoped_release release;
                 return std::shared_ptr<PinnedMemory>(new PinnedMemory(device, size), DeleteWithoutGil());
             }),
             py::arg("device"), py::arg("size"))
        .def_property_readonly("size", [](const PinnedMemory& m) { return m.buffer().size(); })
        .def_property_readonly(
            "address",
            [](const PinnedMemory& m) { return reinterpret_cast<uintptr_t>(m.buffer().address()); })
        .def("used_by", &PinnedMemory::used_by, py::arg("stream"), NoGil())
        .def_buffer([](const PinnedMemory& m) {
            return py::buffer_info(m.buffer().address(), 1, py::format_descriptor<uint8_t>::format(),
                                   static_cast<py::ssize_t>(m.buffer().size()));
        });
    module.def(
        "pool_stats", [](int device) { return as_dict(Pool::of(device)->stats()); }, py::arg("device"));
    module.def("pool_trim", [](int device) { Pool::of(device)->trim(); }, py::arg("device"), NoGil());
    module.def("pool_reset_peaks", [](int device) { Pool::of(device)->reset_peaks(); }, py::arg("device"));
    module.def(
        "copy",
        [](int device, uintptr_t to, uintptr_t from, std::size_t size, int kind) {
            copy(device, pointer(to), pointer(from), size, kind_from(kind));
        },
        py::arg("device"), py::arg("to"), py::arg("from_"), py::arg("size"), py::arg("kind"), NoGil());
    module.def(
        "copy_async",
        [](const Stream& stream, uintptr_t to, uintptr_t from, std::size_t size, int kind) {
            copy_async(stream, pointer(to), pointer(from), size, kind_from(kind));
        },
        py::arg("stream"), py::arg("to"), py::arg("from_"), py::arg("size"), py::arg("kind"), NoGil());
    module.def(
        "fill_async",
        [](const Stream& stream, uintptr_t to, uint8_t value, std::size_t size) {
            fill_async(stream, pointer(to), value, size);
        },
        py::arg("stream"), py::arg("to"), py::arg("value"), py::arg("size"), NoGil());
}

}  // namespace npu::bindings
