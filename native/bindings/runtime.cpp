// Devices, streams, events, and where CANN's functions come from.
#include <pybind11/stl.h>

#include "bindings/bind.h"
#include "cann/loader.h"
#include "cann/op_executor.h"

namespace npu::bindings {
namespace {

using namespace cann;

// Runs a Python callable once on CANN's thread. Its exception cannot reach anybody: sys.unraisablehook gets
// it.
void call_python(void* argument) {
    py::gil_scoped_acquire gil;
    const py::object function = py::reinterpret_steal<py::object>(static_cast<PyObject*>(argument));
    try {
        function();
    } catch (py::error_already_set& error) {
        error.discard_as_unraisable("a function that was put on a stream");
    }
}

void launch_host(const Stream& stream, const py::function& function) {
    PyObject* argument = function.inc_ref().ptr();
    try {
        py::gil_scoped_release release;
        stream.launch_host(&call_python, argument);
    } catch (...) {
        py::handle(argument).dec_ref();
        throw;
    }
}

Part part_from(const std::string& name) {
    static constexpr std::pair<const char*, Part> parts[] = {{"runtime", Part::runtime},
                                                             {"hccl", Part::hccl},
                                                             {"aclnn", Part::aclnn},
                                                             {"operators", Part::operators},
                                                             {"graph", Part::graph}};
    for (const auto& [known, part] : parts)
        if (name == known) return part;
    throw std::invalid_argument("\"" + name +
                                "\" is no part of CANN; there are runtime, hccl, aclnn, operators, graph");
}

void bind_loader(py::module_& module) {
    py::class_<Origin>(module, "Origin")
        .def_readonly("symbol", &Origin::symbol)
        .def_readonly("file", &Origin::file)
        .def_readonly("version", &Origin::version)
        .def("__repr__",
             [](const Origin& o) { return o.symbol + " of CANN " + o.version + " (" + o.file + ")"; });
    module.def(
        "origin",
        [](const std::string& part, const std::string& name) {
            return origin(part_from(part), name.c_str());
        },
        py::arg("part"), py::arg("name"));
    module.def("bound_symbols", &bound);
    module.def("version", &version);
    module.def("device_count", &device_count, NoGil());
    module.def("soc_name", &soc_name, NoGil());
}

void bind_device(py::module_& module) {
    py::class_<Device>(module, "Device")
        .def(py::init<int>(), py::arg("id"), NoGil())
        .def_property_readonly("id", &Device::id)
        .def(
            "synchronize",
            [](const Device& device, std::optional<double> timeout) {
                device.synchronize(timeout_from(timeout));
            },
            py::arg("timeout") = py::none(), NoGil())
        .def("reset", &Device::reset, NoGil())
        .def(
            "abort", [](const Device& device, double timeout) { device.abort(*timeout_from(timeout)); },
            py::arg("timeout"), NoGil())
        .def("memory_info",
             [](const Device& device) {
                 const MemoryInfo info = [&] {
                     py::gil_scoped_release release;
                     return device.memory_info();
                 }();
                 return std::make_pair(info.free, info.total);
             })
        .def("can_access_peer", &Device::can_access_peer, py::arg("peer"), NoGil())
        .def("enable_peer_access", &Device::enable_peer_access, py::arg("peer"), NoGil())
        .def("stream_priority_range", &Device::stream_priority_range, NoGil());
}

void bind_stream(py::module_& module) {
    py::class_<Stream, std::shared_ptr<Stream>>(module, "Stream")
        .def(py::init([](int device, int priority) {
                 py::gil_scoped_release release;
                 return std::shared_ptr<Stream>(new Stream(device, priority), DeleteWithoutGil());
             }),
             py::arg("device"), py::arg("priority") = 0)
        .def_static(
            "borrow",
            [](int device, uintptr_t handle) {
                return Stream::borrow(device, reinterpret_cast<aclrtStream>(handle));
            },
            py::arg("device"), py::arg("handle"))
        .def_property_readonly("device", &Stream::device)
        .def_property_readonly("handle",
                               [](const Stream& s) { return reinterpret_cast<uintptr_t>(s.handle()); })
        .def_property_readonly("id", &Stream::id)
        .def_property_readonly("closed", &Stream::closed)
        .def("close", &Stream::close, NoGil())
        .def(
            "synchronize",
            [](const Stream& stream, std::optional<double> timeout) {
                stream.synchronize(timeout_from(timeout));
            },
            py::arg("timeout") = py::none(), NoGil())
        .def("idle", &Stream::idle, NoGil())
        .def("record", &Stream::record, py::arg("event"), NoGil())
        .def("wait", &Stream::wait, py::arg("event"), NoGil())
        .def("launch_host", &launch_host, py::arg("function"))
        .def("abort", &Stream::abort, NoGil());
}

void bind_event(py::module_& module) {
    py::class_<Event, std::shared_ptr<Event>>(module, "Event")
        .def(py::init<int, bool>(), py::arg("device"), py::arg("timing") = true, NoGil())
        .def_property_readonly("device", &Event::device)
        .def_property_readonly("timing", &Event::timing)
        .def_property_readonly("closed", &Event::closed)
        .def("close", &Event::close, NoGil())
        .def("complete", &Event::complete, NoGil())
        .def(
            "synchronize",
            [](const Event& event, std::optional<double> timeout) {
                event.synchronize(timeout_from(timeout));
            },
            py::arg("timeout") = py::none(), NoGil())
        .def("elapsed_since", &Event::elapsed_since, py::arg("start"), NoGil());
}

}  // namespace

void bind_runtime(py::module_& module) {
    bind_loader(module);
    bind_device(module);
    bind_stream(module);
    bind_event(module);
}

}  // namespace npu::bindings
