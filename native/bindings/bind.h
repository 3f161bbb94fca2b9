// The parts of npu_common._cann; each binds what its name says. Objects hold shared pointers, so that the
// order in which Python lets go of them does not matter. Whatever may wait releases the GIL first.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <memory>
#include <optional>

#include "cann/runtime.h"

namespace npu::bindings {

namespace py = pybind11;
using NoGil = py::call_guard<py::gil_scoped_release>;

void bind_errors(py::module_& module);
void bind_runtime(py::module_& module);
void bind_memory(py::module_& module);
void bind_array(py::module_& module);
void bind_operators(py::module_& module);
void bind_communicator(py::module_& module);
void bind_graph_session(py::module_& module);
void bind_graph(py::module_& module);  // the submodule graph: links to nothing of CANN

/// Destroys what waits for a device when it ends. Python lets go of objects with the GIL held, and the work
/// that is waited for may need it (a host function).
struct DeleteWithoutGil {
    template <typename T>
    void operator()(T* object) const {
        std::optional<py::gil_scoped_release> release;
        if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) release.emplace();
        delete object;
    }
};

/// The same object, let go of without the GIL.
template <typename T>
std::shared_ptr<T> let_go_without_gil(std::shared_ptr<T> object) {
    if (!object) return nullptr;
    auto* owner = new std::shared_ptr<T>(std::move(object));
    return std::shared_ptr<T>(owner->get(), [owner](T*) { DeleteWithoutGil()(owner); });
}

/// A timeout in seconds from Python as CANN wants it; a tenth of a millisecond still waits a millisecond.
/// Throws std::invalid_argument: negative.
inline std::optional<cann::Milliseconds> timeout_from(std::optional<double> seconds) {
    if (!seconds) return std::nullopt;
    if (!(*seconds >= 0) || *seconds > 2e6)
        throw std::invalid_argument("a timeout is between 0 and 2e6 seconds");
    return std::chrono::ceil<cann::Milliseconds>(std::chrono::duration<double>(*seconds));
}

}  // namespace npu::bindings
