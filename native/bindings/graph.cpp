// The graph language for Python: catalogue, inference, the model reader and its checks, as plain Python
// values.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "graph/attributes.h"
#include "graph/datatypes.h"
#include "graph/infer.h"

namespace py = pybind11;

namespace npu::bindings {
namespace {

using namespace npu::graph;

/// Text out of a model may be any bytes.
py::str text(const std::string& bytes) {
    return py::reinterpret_steal<py::str>(
        PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace"));
}

DataType dtype_named(const std::string& name) {
    for (const DataTypeRow& row : data_types())
        if (name == row.name) return static_cast<DataType>(row.number);
    throw py::value_error("there is no data type named " + name);
}

// Values to Python. A data type is its name; a constant is (dtype, dims, bytes); an unknown rank is None.

py::object dims_to_python(const TensorType& type) { return type.ranked ? py::cast(type.dims) : py::none(); }

py::tuple to_python(const TensorType& type) {
    return py::make_tuple(dtype_name(type.dtype), dims_to_python(type));
}

py::object held_to_python(const std::shared_ptr<const Constant>& value) {
    return py::make_tuple(dtype_name(value->type.dtype), value->type.dims,
                          py::bytes(reinterpret_cast<const char*>(value->data.data()), value->data.size()));
}

py::object held_to_python(const std::string& value) { return text(value); }
py::object held_to_python(const TypeAttribute& value) { return py::str(dtype_name(value.value)); }

template <class T>
py::object held_to_python(const std::vector<T>& values) {
    if constexpr (!std::is_same_v<T, std::string> && !std::is_same_v<T, TypeAttribute>)
        return py::cast(values);
    py::list out;
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, TypeAttribute>)
        for (const T& value : values) out.append(held_to_python(value));
    return out;
}

py::object to_python(const std::string& name) { return text(name); }

py::object to_python(const Attribute& value) {
    return std::visit(
        [](const auto& held) -> py::object {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>>)
                return py::cast(held);
            else
                return held_to_python(held);
        },
        value);
}

py::dict to_python(const Attributes& attributes) {
    py::dict out;
    for (const auto& [name, value] : attributes) out[text(name)] = to_python(value);
    return out;
}

py::dict to_python(const Port& port) {
    constexpr const char* kArity[] = {"required", "optional", "dynamic"};
    py::list types;
    for (DataType type : port.types) types.append(dtype_name(type));
    return py::dict(py::arg("name") = port.name, py::arg("arity") = kArity[static_cast<int>(port.arity)],
                    py::arg("types") = types);
}

py::dict to_python(const AttributeDef& def) {
    return py::dict(py::arg("name") = def.name, py::arg("type") = def.type,
                    py::arg("required") = def.required,
                    py::arg("default") = def.fallback ? to_python(*def.fallback) : py::none());
}

py::dict to_python(const Node& node);
py::dict to_python(const Graph& graph);

template <class Item>
py::list list_of(const std::vector<Item>& items) {
    py::list out;
    for (const Item& item : items) out.append(to_python(item));
    return out;
}

py::object operator_to_python(const std::string& type) {
    const OperatorDef* op = find_operator(type);
    if (!op) return py::none();
    return py::dict(py::arg("name") = op->name, py::arg("inputs") = list_of(op->inputs),
                    py::arg("outputs") = list_of(op->outputs),
                    py::arg("attributes") = list_of(op->attributes), py::arg("subgraphs") = op->subgraphs,
                    py::arg("dynamic_subgraphs") = op->dynamic_subgraphs);
}

py::dict to_python(const Node& node) {
    py::list inputs;
    for (const Edge& edge : node.inputs)
        inputs.append(edge.node < 0 ? py::object(py::none()) : py::make_tuple(edge.node, edge.output));
    return py::dict(
        py::arg("name") = text(node.name), py::arg("type") = text(node.type), py::arg("inputs") = inputs,
        py::arg("controls") = node.controls, py::arg("attributes") = to_python(node.attributes),
        py::arg("input_descs") = list_of(node.input_descs),
        py::arg("output_descs") = list_of(node.output_descs),
        py::arg("input_names") = list_of(node.input_names), py::arg("subgraphs") = list_of(node.subgraphs));
}

py::dict to_python(const Graph& graph) {
    return py::dict(py::arg("name") = text(graph.name), py::arg("nodes") = list_of(graph.nodes),
                    py::arg("data") = graph.data, py::arg("net_output") = graph.net_output,
                    py::arg("attributes") = to_python(graph.attributes));
}

py::dict to_python(const Model& model) {
    return py::dict(py::arg("name") = text(model.name), py::arg("graphs") = list_of(model.graphs),
                    py::arg("attributes") = to_python(model.attributes));
}

// Values from Python.

Constant constant_from(const TensorType& type, const py::object& array) {
    auto bytes = array.attr("tobytes")().cast<std::string>();
    if (element_size(type.dtype) * static_cast<std::size_t>(type.elements()) != bytes.size())
        throw py::value_error("a value of " + std::to_string(bytes.size()) + " bytes is not one of " +
                              type.text());
    auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    return {type, {begin, begin + bytes.size()}};
}

TensorType type_from(const py::sequence& operand) {
    TensorType type{dtype_named(operand[0].cast<std::string>()), {}, !operand[1].is_none()};
    if (type.ranked) type.dims = operand[1].cast<std::vector<int64_t>>();
    return type;
}

Attribute list_from(const AttributeDef& def, const py::sequence& values) {
    if (def.type == "ListFloat") return values.cast<std::vector<double>>();
    if (def.type == "ListBool") return values.cast<std::vector<bool>>();
    if (def.type == "ListString") return values.cast<std::vector<std::string>>();
    if (def.type == "ListListInt") return values.cast<std::vector<std::vector<int64_t>>>();
    if (def.type == "ListType") {
        std::vector<TypeAttribute> types;
        for (const auto& value : values) types.push_back({dtype_named(value.cast<std::string>())});
        return types;
    }
    if (def.type == "Tensor") {
        auto type = type_from(values);
        return std::make_shared<const Constant>(constant_from(type, values[2]));
    }
    return values.cast<std::vector<int64_t>>();
}

/// As the catalogue's type suggests; complete() checks that it is that type.
Attribute attribute_from(const AttributeDef& def, const py::object& value) {
    if (def.type == "Type" && py::isinstance<py::str>(value))
        return TypeAttribute{dtype_named(value.cast<std::string>())};
    if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
    if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
    if (py::isinstance<py::float_>(value)) return value.cast<double>();
    if (py::isinstance<py::str>(value)) return value.cast<std::string>();
    return list_from(def, value.cast<py::sequence>());
}

Attributes attributes_from(const OperatorDef& op, const py::dict& values) {
    Attributes out;
    for (auto [key, value] : values) {
        auto name = key.cast<std::string>();
        const AttributeDef* def = op.attribute(name);
        // complete() refuses what the operator does not have, by name.
        out[name] =
            def ? attribute_from(*def, py::reinterpret_borrow<py::object>(value)) : Attribute(int64_t{0});
    }
    complete(op, out);
    return out;
}

py::list infer_from_python(const std::string& type, const py::dict& attributes, const py::list& inputs,
                           const std::vector<std::string>& input_names, std::size_t outputs) {
    const OperatorDef& op = operator_named(type);
    std::vector<Operand> operands;
    std::vector<std::unique_ptr<Constant>> values;
    for (const auto& input : inputs) {
        operands.emplace_back();
        if (input.is_none()) continue;
        auto operand = input.cast<py::sequence>();
        operands.back().type = type_from(operand);
        if (operand.size() < 3 || operand[2].is_none()) continue;
        values.push_back(std::make_unique<Constant>(constant_from(operands.back().type, operand[2])));
        operands.back().value = values.back().get();
    }
    py::list out;
    for (const Inferred& result : infer(op, attributes_from(op, attributes), operands, input_names, outputs))
        out.append(py::make_tuple(dtype_name(result.type.dtype), dims_to_python(result.type), result.bound));
    return out;
}

Model model_from(const py::bytes& bytes) {
    std::string_view view = bytes;
    return read_model(std::as_bytes(std::span(view.data(), view.size())));
}

}  // namespace

void bind_graph(py::module_& parent) {
    auto module =
        parent.def_submodule("graph", "CANN's operator catalogue, shape inference and the model protobuf.");
    py::register_exception<GraphError>(module, "GraphError", PyExc_ValueError);
    module.def("operator_names", &operator_names, "Every operator of the catalogue, sorted.");
    module.def("find_operator", &operator_to_python, py::arg("type"),
               "The operator's inputs, outputs, attributes and subgraphs as a dict, or None.");
    module.def("inferred_operators", &inferred_operators, "The operators that infer() knows, sorted.");
    module.def("has_rule", &has_rule, py::arg("type"));
    module.def(
        "value_inputs",
        [](const std::string& type) {
            auto names = value_inputs(type);
            return std::vector<std::string>(names.begin(), names.end());
        },
        py::arg("type"), "The inputs whose value decides a shape, by their names in the catalogue.");
    module.def("infer", &infer_from_python, py::arg("type"), py::arg("attributes"), py::arg("inputs"),
               py::arg("input_names") = std::vector<std::string>{}, py::arg("outputs") = 0,
               "The outputs as (dtype, dims or None, bound) of inputs (dtype, dims or None, value or "
               "nothing) or None; "
               "-1 is an unknown size. A data type is its name, also as an attribute. Raises GraphError.");
    module.def(
        "read_model", [](const py::bytes& bytes) { return to_python(model_from(bytes)); }, py::arg("model"),
        "A serialised ge.proto.ModelDef or GraphDef as dicts and lists, nodes in topological order. Raises "
        "GraphError.");
    module.def(
        "verify",
        [](const py::bytes& bytes) {
            Model model = model_from(bytes);
            verify(model);
            return to_python(model);
        },
        py::arg("model"),
        "read_model(), checked against the catalogue and with attributes completed. Raises GraphError.");
}

}  // namespace npu::bindings
