// A module of its own for the tests of native/graph: bindings/graph.cpp without the rest of npu_common._cann.
#include <pybind11/pybind11.h>

namespace npu::bindings {
void bind_graph(pybind11::module_& parent);
}

PYBIND11_MODULE(_graph, module) { npu::bindings::bind_graph(module); }
