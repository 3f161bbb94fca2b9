"""A graph as a file Netron opens: an ONNX model whose operators are CANN's, in a domain of their own.

ONNX, because every release of Netron reads it; its view of the engine's own models is for compiled ones. Nothing
here is meant to be run by an ONNX runtime. Only the few fields that Netron shows are declared: numbers and types as
in onnx.proto (ONNX IR version 10).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from npu_common.graph.ir import CONSTANTS, Graph, Node, Value
from npu_common.graph.proto import FieldRow, make_messages
from npu_common.graph.text import attribute_text

DOMAIN = "cann.ge"
_MESSAGES: dict[str, list[FieldRow]] = {
    "AttributeProto": [
        ("name", 1, "string", "singular"),
        ("f", 2, "float", "singular"),
        ("i", 3, "int64", "singular"),
        ("s", 4, "bytes", "singular"),
        ("g", 6, "GraphProto", "singular"),
        ("floats", 7, "float", "repeated"),
        ("ints", 8, "int64", "repeated"),
        ("type", 20, "int32", "singular"),
    ],
    "NodeProto": [
        ("input", 1, "string", "repeated"),
        ("output", 2, "string", "repeated"),
        ("name", 3, "string", "singular"),
        ("op_type", 4, "string", "singular"),
        ("attribute", 5, "AttributeProto", "repeated"),
        ("domain", 7, "string", "singular"),
    ],
    "TensorProto": [
        ("dims", 1, "int64", "repeated"),
        ("data_type", 2, "int32", "singular"),
        ("name", 8, "string", "singular"),
        ("raw_data", 9, "bytes", "singular"),
    ],
    "Dimension": [("dim_value", 1, "int64", "oneof:value"), ("dim_param", 2, "string", "oneof:value")],
    "TensorShapeProto": [("dim", 1, "Dimension", "repeated")],
    "TensorTypeProto": [("elem_type", 1, "int32", "singular"), ("shape", 2, "TensorShapeProto", "singular")],
    "TypeProto": [("tensor_type", 1, "TensorTypeProto", "singular")],
    "ValueInfoProto": [("name", 1, "string", "singular"), ("type", 2, "TypeProto", "singular")],
    "GraphProto": [
        ("node", 1, "NodeProto", "repeated"),
        ("name", 2, "string", "singular"),
        ("initializer", 5, "TensorProto", "repeated"),
        ("input", 11, "ValueInfoProto", "repeated"),
        ("output", 12, "ValueInfoProto", "repeated"),
        ("value_info", 13, "ValueInfoProto", "repeated"),
    ],
    "OperatorSetIdProto": [("domain", 1, "string", "singular"), ("version", 2, "int64", "singular")],
    "ModelProto": [
        ("ir_version", 1, "int64", "singular"),
        ("producer_name", 2, "string", "singular"),
        ("graph", 7, "GraphProto", "singular"),
        ("opset_import", 8, "OperatorSetIdProto", "repeated"),
    ],
}
# TensorProto.DataType
_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8_e4m3fn": 17, "float8_e5m2": 19, "float8_e8m0fnu": 24,
}  # fmt: skip


@cache
def _messages() -> dict[str, Any]:
    return make_messages("npu_onnx", dict(_MESSAGES), {})


def onnx_bytes(graph: Graph) -> bytes:
    """Write it to a file that ends in .onnx."""
    model = _messages()["ModelProto"](ir_version=10, producer_name="npu_common")
    model.opset_import.add(domain=DOMAIN, version=1)
    _fill(model.graph, graph)
    return bytes(model.SerializeToString(deterministic=True))


def _name(value: Value) -> str:
    return value.node.name if len(value.node.outputs) == 1 else f"{value.node.name}:{value.index}"


def _fill(out: Any, graph: Graph) -> None:
    out.name = graph.name
    for value in graph.inputs:
        _info(out.input.add(), value)
    for node in graph.order():
        if node.type in CONSTANTS:
            array = node.attributes["value"]
            tensor = out.initializer.add(name=_name(node.output), data_type=_TYPES[array.dtype.name])
            tensor.dims.extend(array.shape)
            tensor.raw_data = np.ascontiguousarray(array).tobytes()
        elif node.type != "Data":
            _node(out.node.add(), node)
            for value in node.outputs:
                _info(out.value_info.add(), value)
    for value in graph.outputs:
        _info(out.output.add(), value)


def _info(out: Any, value: Value) -> None:
    out.name = _name(value)
    out.type.tensor_type.elem_type = _TYPES[value.dtype.name]
    if value.shape is not None:
        out.type.tensor_type.shape.SetInParent()
    for size in value.shape or ():
        dim = out.type.tensor_type.shape.dim.add()
        if size is None:
            dim.dim_param = "?"
        else:
            dim.dim_value = size


def _node(out: Any, node: Node) -> None:
    out.name, out.op_type, out.domain = node.name, node.type, DOMAIN
    out.input.extend("" if v is None else _name(v) for v in node.inputs)
    out.output.extend(_name(v) for v in node.outputs)
    for name, value in sorted(node.attributes.items()):
        attribute = out.attribute.add(name=name)
        if isinstance(value, (bool, int)):
            attribute.i, attribute.type = int(value), 2
        elif isinstance(value, float):
            attribute.f, attribute.type = value, 1
        elif isinstance(value, list) and value and all(type(v) is int for v in value):
            attribute.ints.extend(value)
            attribute.type = 7
        else:
            attribute.s, attribute.type = attribute_text(value).strip("'").encode(), 3
    for index, sub in enumerate(node.subgraphs):
        attribute = out.attribute.add(name=f"graph{index}", type=5)
        _fill(attribute.g, sub)
