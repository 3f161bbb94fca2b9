// C++ exceptions as Python's: CannError carries code, code_name, call and detail.
#include "bindings/bind.h"
#include "cann/error.h"

namespace npu::bindings {
namespace {

struct Types {  // owned by the module, which is never unloaded
    PyObject *error, *hccl, *memory, *symbol, *closed;
};
Types types{};

PyObject* make(py::module_& module, const char* name, py::object bases, const char* doc) {
    py::object type = py::reinterpret_steal<py::object>(PyErr_NewExceptionWithDoc(
        (std::string("npu_common._cann.") + name).c_str(), doc, bases.ptr(), nullptr));
    if (!type) throw py::error_already_set();
    module.attr(name) = type;
    return type.release().ptr();
}

void raise(const cann::Error& error) {
    PyObject* type = error.out_of_memory()                  ? types.memory
                     : error.family() == cann::Family::hccl ? types.hccl
                                                            : types.error;
    py::object value = py::reinterpret_borrow<py::object>(type)(error.what());
    value.attr("code") = error.code();
    value.attr("code_name") = error.code_name();
    value.attr("call") = error.call();
    value.attr("detail") = error.detail();
    PyErr_SetObject(type, value.ptr());
}

}  // namespace

void bind_errors(py::module_& module) {
    const py::handle runtime_error(PyExc_RuntimeError);
    types.error = make(
        module, "CannError", py::make_tuple(runtime_error),
        "A function of CANN failed. code, code_name: CANN's; call: the function; detail: CANN's sentence.");
    const py::handle error(types.error);
    types.hccl =
        make(module, "HcclError", py::make_tuple(error), "A function of HCCL failed; code is an HcclResult.");
    types.memory = make(module, "DeviceMemoryError", py::make_tuple(error, py::handle(PyExc_MemoryError)),
                        "The device has no memory left for what was asked.");
    types.symbol = make(module, "SymbolNotFoundError", py::make_tuple(runtime_error),
                        "This CANN does not have a function that is needed.");
    types.closed = make(module, "ClosedError", py::make_tuple(py::handle(PyExc_ValueError)),
                        "A stream, event or communicator is used after it was closed.");
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer) std::rethrow_exception(pointer);
        } catch (const cann::Error& error) {
            raise(error);
        } catch (const cann::SymbolError& error) {
            PyErr_SetString(types.symbol, error.what());
        } catch (const cann::ClosedError& error) {
            PyErr_SetString(types.closed, error.what());
        } catch (const std::out_of_range& error) {
            PyErr_SetString(PyExc_ValueError,
                            error.what());  // pybind11 makes it an IndexError, which ends loops
        } catch (const std::logic_error& error) {
            PyErr_SetString(PyExc_ValueError, error.what());
        }
    });
}

}  // namespace npu::bindings
