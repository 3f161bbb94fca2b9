// aclnn operators by name, with arguments from Python objects.
#include <pybind11/complex.h>
#include <pybind11/stl.h>

#include <complex>
#include <deque>
#include <memory>

#include "bindings/array.h"
#include "cann/op_executor.h"

namespace npu::bindings {
namespace {

using namespace cann;

/// A number with a dtype: the bytes of one element.
struct TypedScalar {
    std::string bytes;
    const DType* dtype;
};

using AnyHandle =
    std::variant<Handle<aclTensor>, Handle<aclScalar>, Handle<aclIntArray>, Handle<aclFloatArray>,
                 Handle<aclBoolArray>, Handle<aclTensorList>, Handle<aclScalarList>>;

// The arguments of one call, and what has to live until both phases are through.
class Arguments {
  public:
    Arguments(const OpExecutor& op, const std::shared_ptr<Stream>& stream) : op_(op), stream_(stream) {}

    void add(const py::handle& object) {
        const std::size_t index = arguments_.size();
        const char letter = op_.prototype().letters[index];
        if (object.is_none() && kNullable.find(letter) != std::string_view::npos)
            arguments_.emplace_back(static_cast<const void*>(nullptr));
        else
            arguments_.push_back(convert(letter, object));
    }

    std::span<const Argument> all() const { return arguments_; }

    void tell_arrays() const {
        for (const auto& [array, written] : arrays_) used_on(*array, stream_, written);
    }

  private:
    static constexpr std::string_view kNullable = "TSIBFLls";

    [[noreturn]] void refuse(const py::handle& object, const std::string& more = "") const {
        const std::size_t index = arguments_.size();
        throw py::type_error(std::string(op_.prototype().name) + ": " + op_.parameters()[index] +
                             " (argument " + std::to_string(index + 1) + ") takes " +
                             kind_of(op_.prototype().letters[index]) + ", not " +
                             std::string(py::str(py::type::handle_of(object).attr("__name__"))) + more);
    }

    template <typename T>
    const void* keep(Handle<T> handle) {
        const void* address = handle.get();
        handles_.push_back(std::move(handle));
        return address;
    }

    Handle<aclTensor> tensor(const py::handle& object) {
        if (!py::isinstance<Array>(object)) refuse(object);
        const auto* array = object.cast<const Array*>();
        const std::size_t index = arguments_.size();
        const bool written = (op_.prototype().written >> index & 1) != 0;
        if (written && array->storage->read_only) refuse(object, " that is read-only");
        use_after_writes(*array, stream_, op_.parameters()[index].c_str());
        arrays_.emplace_back(array, written);
        return make_tensor(array->view());
    }

    Handle<aclScalar> scalar(const py::handle& object) const {
        if (py::isinstance<TypedScalar>(object)) {
            const auto& typed = object.cast<const TypedScalar&>();
            return make_scalar(typed.bytes.data(), typed.dtype->acl);
        }
        PyObject* value = object.ptr();
        if (PyBool_Check(value)) {
            const bool b = value == Py_True;
            return make_scalar(&b, ACL_BOOL);
        }
        if (PyLong_Check(value)) {
            const int64_t i = integer(object);
            return make_scalar(&i, ACL_INT64);
        }
        if (PyFloat_Check(value)) {
            const double d = PyFloat_AS_DOUBLE(value);
            return make_scalar(&d, ACL_DOUBLE);
        }
        if (PyComplex_Check(value)) {
            const auto c = object.cast<std::complex<double>>();
            return make_scalar(&c, ACL_COMPLEX128);
        }
        refuse(object);
    }

    template <typename T, typename Make>
    auto each(const py::handle& object, const Make& make) const {
        if (!PySequence_Check(object.ptr()) || py::isinstance<py::str>(object)) refuse(object);
        std::vector<T> values;
        for (const py::handle& item : py::reinterpret_borrow<py::sequence>(object))
            values.push_back(make(item));
        return values;
    }

    int64_t integer(const py::handle& object) const {
        if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr())) refuse(object);
        const int64_t value =
            PyLong_AsLongLong(py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr())).ptr());
        if (value == -1 && PyErr_Occurred()) throw py::error_already_set();
        return value;
    }

    double real(const py::handle& object) const {
        if (PyBool_Check(object.ptr()) || (!PyFloat_Check(object.ptr()) && !PyLong_Check(object.ptr())))
            refuse(object);
        const double value = PyFloat_AsDouble(object.ptr());
        if (value == -1.0 && PyErr_Occurred()) throw py::error_already_set();
        return value;
    }

    bool boolean(const py::handle& object) const {
        if (!PyBool_Check(object.ptr())) refuse(object);
        return object.ptr() == Py_True;
    }

    const char* text(const py::handle& object) const {
        if (!PyUnicode_Check(object.ptr())) refuse(object);
        const char* utf8 = PyUnicode_AsUTF8(object.ptr());  // lives as long as the argument does
        if (utf8 == nullptr) throw py::error_already_set();
        return utf8;
    }

    Argument as_tensor(const py::handle& object) { return keep(tensor(object)); }
    Argument as_scalar(const py::handle& object) { return keep(scalar(object)); }
    Argument as_integers(const py::handle& object) {
        const auto values = each<int64_t>(object, [&](auto o) { return integer(o); });
        return keep(make_array(std::span(values)));
    }
    Argument as_floats(const py::handle& object) {
        const auto values = each<float>(object, [&](auto o) { return static_cast<float>(real(o)); });
        return keep(make_array(std::span(values)));
    }
    Argument as_booleans(const py::handle& object) {
        const auto values = each<uint8_t>(object, [&](auto o) { return static_cast<uint8_t>(boolean(o)); });
        return keep(make_array(std::span(values)));
    }
    Argument as_tensors(const py::handle& object) {
        return keep(make_list(each<Handle<aclTensor>>(object, [&](auto o) { return tensor(o); })));
    }
    Argument as_scalars(const py::handle& object) {
        return keep(make_list(each<Handle<aclScalar>>(object, [&](auto o) { return scalar(o); })));
    }
    Argument as_text(const py::handle& object) { return static_cast<const void*>(text(object)); }
    Argument as_real(const py::handle& object) { return real(object); }
    Argument as_boolean(const py::handle& object) { return static_cast<int64_t>(boolean(object)); }
    Argument as_integer(const py::handle& object) { return integer(object); }
    Argument as_natural(const py::handle& object) {
        if (PyBool_Check(object.ptr()) || !PyLong_Check(object.ptr())) return integer(object);
        const uint64_t value = PyLong_AsUnsignedLongLong(object.ptr());
        if (value == ~uint64_t{0} && PyErr_Occurred()) throw py::error_already_set();
        return value;
    }

    Argument convert(char letter, const py::handle& object) {
        static constexpr struct {
            char letter;
            Argument (Arguments::*convert)(const py::handle&);
        } kinds[] = {
            {'T', &Arguments::as_tensor},   {'S', &Arguments::as_scalar},  {'q', &Arguments::as_integer},
            {'b', &Arguments::as_boolean},  {'d', &Arguments::as_real},    {'I', &Arguments::as_integers},
            {'L', &Arguments::as_tensors},  {'s', &Arguments::as_text},    {'f', &Arguments::as_real},
            {'B', &Arguments::as_booleans}, {'F', &Arguments::as_floats},  {'l', &Arguments::as_scalars},
            {'Q', &Arguments::as_natural},  {'i', &Arguments::as_integer}, {'u', &Arguments::as_integer},
            {'c', &Arguments::as_integer},  {'t', &Arguments::as_integer},
        };
        for (const auto& kind : kinds)
            if (kind.letter == letter) return (this->*kind.convert)(object);
        throw std::logic_error(std::string("no kind of argument has the letter ") + letter);
    }

    const OpExecutor& op_;
    const std::shared_ptr<Stream>& stream_;
    std::vector<Argument> arguments_;
    std::vector<AnyHandle> handles_;
    std::vector<std::pair<const Array*, bool>> arrays_;
};

void run(const OpExecutor& op, const py::tuple& objects, const std::shared_ptr<Stream>& stream) {
    if (objects.size() != op.parameters().size())
        throw py::type_error(std::string(op.prototype().name) + " takes " +
                             std::to_string(op.parameters().size()) + " arguments (" +
                             op.prototype().parameters + "), " + std::to_string(objects.size()) +
                             " were given");
    Arguments arguments(op, stream);
    for (const py::handle& object : objects) arguments.add(object);
    {
        py::gil_scoped_release release;
        op.run(arguments.all(), stream);
    }
    arguments.tell_arrays();
}

std::vector<std::string> names() {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < kPrototypeCount; ++i) all.emplace_back(kPrototypes[i].name);
    return all;
}

}  // namespace

void bind_operators(py::module_& module) {
    py::class_<TypedScalar>(module, "TypedScalar")
        .def(py::init([](const py::bytes& value, int dtype_code) {
                 const DType* dtype = find_dtype(static_cast<aclDataType>(dtype_code));
                 std::string bytes = value;
                 if (dtype == nullptr || bytes.size() != dtype->size)
                     throw std::invalid_argument("a scalar needs the bytes of one element of its dtype");
                 return TypedScalar{std::move(bytes), dtype};
             }),
             py::arg("value"), py::arg("dtype_code"));
    py::class_<OpExecutor, std::unique_ptr<OpExecutor, py::nodelete>>(module, "Operator")
        .def_static("of", &OpExecutor::of, py::arg("name"), py::return_value_policy::reference)
        .def_property_readonly("name", [](const OpExecutor& op) { return op.prototype().name; })
        .def_property_readonly("letters", [](const OpExecutor& op) { return op.prototype().letters; })
        .def_property_readonly("written", [](const OpExecutor& op) { return op.prototype().written; })
        .def_property_readonly("parameters",
                               [](const OpExecutor& op) {
                                   return py::tuple(py::cast(std::vector<std::string>(
                                       op.parameters().begin(), op.parameters().end())));
                               })
        .def("run", &run, py::arg("arguments"), py::arg("stream"));
    module.def("operator_exists", &OpExecutor::exists, py::arg("name"));
    module.def("operator_names", &names);
}

}  // namespace npu::bindings
