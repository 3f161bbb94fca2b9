// Compiled graphs: building a model from a serialised graph, loading it, running it on arrays. Captured ones:
// replay.
#include "cann/graph_session.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "bindings/array.h"
#include "cann/captured_graph.h"
#include "cann/model_builder.h"

namespace npu::bindings {
namespace {

using namespace cann;
using Arrays = std::vector<std::shared_ptr<Array>>;
using Shapes = std::vector<std::vector<int64_t>>;

std::span<const std::byte> bytes_of(const py::bytes& bytes) {
    const std::string_view view = bytes;
    return std::as_bytes(std::span(view.data(), view.size()));
}

bool is_dynamic(const Port& port) {
    return std::ranges::any_of(port.shape, [](int64_t extent) { return extent < 0; });
}

std::vector<Buffer> buffers(const Arrays& arrays, const std::vector<Port>& ports, const char* what,
                            const std::shared_ptr<Stream>& stream) {
    std::vector<Buffer> made;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const Array& array = *arrays[i];
        const std::string name = std::string(what) + " " + std::to_string(i);
        if (!array.contiguous()) throw std::invalid_argument(name + " is not contiguous: copy() it first");
        if (i < ports.size() && array.dtype->acl != ports[i].type)
            throw std::invalid_argument(name + " has another data type than the model's");
        use_after_writes(array, stream, name.c_str());
        Buffer buffer{array.address, static_cast<std::size_t>(array.size()) * array.dtype->size};
        if (i < ports.size() && is_dynamic(ports[i])) buffer.shape = array.shape;
        made.push_back(std::move(buffer));
    }
    return made;
}

Shapes run(GraphSession& session, const Arrays& inputs, const Arrays& outputs,
           const std::shared_ptr<Stream>& stream) {
    for (const auto& array : outputs)
        if (array->storage->read_only) throw std::invalid_argument("an output is read-only");
    const std::vector<Buffer> in = buffers(inputs, session.inputs(), "input", stream);
    const std::vector<Buffer> out = buffers(outputs, session.outputs(), "output", stream);
    Shapes shapes;
    {
        py::gil_scoped_release release;
        shapes = session.run(in, out, stream);
    }
    for (const auto& array : inputs) used_on(*array, stream, false);
    for (const auto& array : outputs) used_on(*array, stream, true);
    return shapes;
}

py::list ports(const std::vector<Port>& all) {
    py::list list;
    for (const Port& port : all)
        list.append(py::make_tuple(port.name, static_cast<int>(port.type), py::tuple(py::cast(port.shape))));
    return list;
}

}  // namespace

void bind_graph_session(py::module_& module) {
    py::class_<GraphSession, std::shared_ptr<GraphSession>>(module, "GraphSession")
        .def_static(
            "load",
            [](const py::bytes& model, const std::shared_ptr<Stream>& stream) {
                const auto bytes = bytes_of(model);
                py::gil_scoped_release release;
                return let_go_without_gil(GraphSession::load(bytes, stream));
            },
            py::arg("model"), py::arg("stream"))
        .def_property_readonly("device", &GraphSession::device)
        .def_property_readonly("inputs", [](const GraphSession& s) { return ports(s.inputs()); })
        .def_property_readonly("outputs", [](const GraphSession& s) { return ports(s.outputs()); })
        .def_property_readonly("closed", &GraphSession::closed)
        .def("close", &GraphSession::close, NoGil())
        .def("run", &run, py::arg("inputs"), py::arg("outputs"), py::arg("stream"));
    py::class_<CapturedGraph, std::shared_ptr<CapturedGraph>>(module, "CapturedGraph")
        .def_property_readonly("device", &CapturedGraph::device)
        .def_property_readonly("closed", &CapturedGraph::closed)
        .def("close", &CapturedGraph::close, NoGil())
        .def("replay", &CapturedGraph::replay, py::arg("stream"), NoGil());
    py::class_<Capture>(module, "Capture")
        .def(py::init<std::shared_ptr<Stream>>(), py::arg("stream"), NoGil())
        .def("finish", [](Capture& capture) {
            py::gil_scoped_release release;
            return let_go_without_gil(capture.finish());
        });
    module.def(
        "build_model",
        [](const py::bytes& graph, const std::string& name, const BuildOptions& options,
           const std::optional<std::string>& autofuse_flags) {
            const auto bytes = bytes_of(graph);
            std::string model;
            {
                py::gil_scoped_release release;
                model = build_model(bytes, name, options, autofuse_flags);
            }
            return py::bytes(model);
        },
        py::arg("graph"), py::arg("name"), py::arg("options") = BuildOptions{},
        py::arg("autofuse_flags") = py::none());
    module.def("finish_building", &finish_building, NoGil());
}

}  // namespace npu::bindings
