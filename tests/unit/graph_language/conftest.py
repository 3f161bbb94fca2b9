"""The graph language as tests reach it, and the model protobuf made from its facts."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
FACTS = REPOSITORY / "native/cann/facts"

_SCALARS = {
    "bytes": 12,
    "string": 9,
    "int64": 3,
    "int32": 5,
    "uint32": 13,
    "uint64": 4,
    "float": 2,
    "bool": 8,
}


def load_language() -> ModuleType:
    """The module of native/bindings/graph.cpp, built by CMake's target npu_graph_python."""
    (path,) = (REPOSITORY / "build/native/python").glob("_graph.*.so")
    spec = importlib.util.spec_from_file_location("_graph", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.graph


def load_messages() -> SimpleNamespace:
    """Message classes of package ge.proto by name (nested ones too), made by the protobuf package from the facts."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    facts = json.loads((FACTS / "ge_ir_proto.json").read_text())
    enums = {name.rsplit(".", 1)[-1] for name in (record["name"] for record in facts["enums"])}
    file = descriptor_pb2.FileDescriptorProto(
        name="ge_ir_of_tests.proto", package="ge.tests", syntax="proto3"
    )
    flat = {record["name"].replace(".", "_"): record for record in facts["messages"]}
    last = {name.rsplit("_", 1)[-1]: name for name in flat}
    for name, record in flat.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in record["fields"]:
            out = message.field.add(name=field, number=number, label=3 if label == "repeated" else 1)
            if kind.startswith("map<"):
                key, value = (part.strip() for part in kind[4:-1].split(","))
                entry = message.nested_type.add(name=field.title().replace("_", "") + "Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=_SCALARS[key])
                item = entry.field.add(name="value", number=2, label=1, type=_SCALARS.get(value, 11))
                if value not in _SCALARS:
                    item.type_name = f".ge.tests.{value}"
                out.label, out.type, out.type_name = 3, 11, f".ge.tests.{name}.{entry.name}"
            elif kind in _SCALARS or kind in enums:
                out.type = _SCALARS.get(kind, 5)  # an enumeration travels as an int32
            else:
                out.type, out.type_name = 11, f".ge.tests.{kind if kind in flat else last[kind]}"
            if label.startswith("oneof:"):
                groups = [group.name for group in message.oneof_decl]
                if label[6:] not in groups:
                    message.oneof_decl.add(name=label[6:])
                    groups.append(label[6:])
                out.oneof_index = groups.index(label[6:])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ge.tests.{name}")) for name in flat
    }
    return SimpleNamespace(**classes)


@pytest.fixture(scope="session")
def language() -> ModuleType:
    return load_language()


@pytest.fixture(scope="session")
def ge() -> SimpleNamespace:
    return load_messages()


class ModelBuilder:
    """Writes models the way a client does: nodes by name, inputs as "node:output"."""

    def __init__(self, ge: SimpleNamespace) -> None:
        self.ge = ge
        self.model = ge.ModelDef(name="model")
        self.graph = self.add_graph("main")

    def add_graph(self, name: str) -> Any:
        self.graph = self.model.graph.add(name=name)
        return self.graph

    def node(self, type_: str, name: str, inputs: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> Any:
        op = self.graph.op.add(name=name, type=type_)
        op.input.extend(inputs)
        for port in names:
            op.input_desc.add(name=port)
        return op

    def data(self, name: str, index: int, dtype: int = 1, dims: tuple[int, ...] = (2, 3)) -> Any:
        """dtype is the protobuf's: 1 float32, 7 int32, 8 int64."""
        op = self.node("Data", name)
        op.attr["index"].i = index
        op.output_desc.add(name="y", dtype=dtype).shape.dim.extend(dims)
        return op

    def const(self, name: str, dtype: int, dims: tuple[int, ...], data: bytes) -> Any:
        op = self.node("Const", name)
        value = op.attr["value"].t
        value.desc.dtype = dtype
        value.desc.shape.dim.extend(dims)
        value.data = data
        return op

    def output(self, *inputs: str) -> Any:
        return self.node("NetOutput", f"NetOutput_{len(self.model.graph)}", inputs)

    def bytes(self) -> bytes:
        return self.model.SerializeToString()


@pytest.fixture
def build(ge: SimpleNamespace) -> ModelBuilder:
    return ModelBuilder(ge)


@pytest.fixture
def relu_model(build: ModelBuilder) -> ModelBuilder:
    """Data -> Relu -> NetOutput."""
    build.data("x", 0)
    build.node("Relu", "relu", ("x:0",))
    build.output("relu:0")
    return build
