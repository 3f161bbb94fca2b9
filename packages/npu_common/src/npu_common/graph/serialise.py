"""Graphs as the engine's own bytes (ge.proto.ModelDef) and back.

Filled in as torchair does, which CANN is known to take: `input` "node:output", "" for an absent optional input
with a descriptor marked `_is_unfed_optional`, descriptors named as the catalogue's inputs, Const `value`, Data
`index`, NetOutput last. Subgraphs are further graphs of the model, their Data and NetOutput say which input or
output of the outer node they are by `_parent_node_index`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from npu_common.graph import dtypes
from npu_common.graph.attributes import from_attribute, to_attribute
from npu_common.graph.builder import infer_types, normal_attribute
from npu_common.graph.ir import CONSTANTS, Graph, GraphError, Node, Shape, Value
from npu_common.graph.language import GraphLanguage, native
from npu_common.graph.proto import messages

_UNKNOWN_RANK = -2
_PARENT = "_parent_node_index"
_OURS = "_npu_common_types"  # attribute of a model of ours: its types between nodes can be relied on
_ALIASES = "_npu_output_aliases"  # pairs output, input: our donation, kept through a file
# Written for the engine from what the node holds anyway; not read back into attributes.
_DERIVED = ("_input_name_key", "_input_name_value", "_output_name_key", "_output_name_value", _PARENT)
# The first input of these chooses the branch and is not handed to it.
_HEADED = ("If", "StatelessIf", "Case", "StatelessCase")


def to_model(graph: Graph, language: GraphLanguage | None = None) -> bytes:
    """ModelDef bytes; the same graph gives the same bytes.

    Raises:
        GraphError: a cycle, or an attribute that the model cannot hold.
    """
    return _write(graph, language or native(), canonical=False)


def canonical_bytes(graph: Graph, language: GraphLanguage | None = None) -> bytes:
    """Bytes that are the same for graphs which compute the same way, whatever their nodes are called."""
    return _write(graph, language or native(), canonical=True)


def from_model(data: bytes, language: GraphLanguage | None = None) -> Graph:
    """The graph of ModelDef or bare GraphDef bytes. Types between nodes are inferred anew, because models of
    other writers (torchair) carry none that can be relied on.

    Raises:
        GraphError: not a model, an edge to no node, a type without a NumPy form, or what inference refuses.
    """
    model = _parse(data)
    reader = _Reader({g.name: g for g in model.graph}, language or native(), _OURS in model.attr)
    try:
        return reader.read(model.graph[0])
    except TypeError as error:  # a data type that dtypes does not have
        raise GraphError(f"model '{model.name}': {error}") from None


def _parse(data: bytes) -> Any:
    kinds = messages()
    for kind in ("ModelDef", "GraphDef"):
        try:
            message = kinds[kind].FromString(data)
        except Exception:  # protobuf's DecodeError; upb raises others for invalid UTF-8
            continue
        if kind == "ModelDef" and message.graph:
            return message
        if kind == "GraphDef" and message.op:
            return kinds["ModelDef"](graph=[message])
    raise GraphError(f"these {len(data)} bytes are no model of the graph engine (ge.proto.ModelDef)")


# 1. Writing.


def _write(graph: Graph, language: GraphLanguage, canonical: bool) -> bytes:
    model = messages()["ModelDef"](name="" if canonical else graph.name, version=1)
    model.attr[_OURS].b = True
    names = {id(sub): _graph_name(sub, i, canonical) for i, sub in enumerate(graph.walk())}
    if len(set(names.values())) != len(names):
        names = {key: f"{name}_{i}" if i else name for i, (key, name) in enumerate(names.items())}
    parents = {id(sub): node for g in graph.walk() for node in g.nodes for sub in node.subgraphs}
    for sub in graph.walk():
        _write_graph(model.graph.add(), sub, names, parents.get(id(sub)), language, canonical)
    return bytes(model.SerializeToString(deterministic=True))


def _graph_name(graph: Graph, index: int, canonical: bool) -> str:
    return f"graph{index}" if canonical else graph.name


def _write_graph(
    out: Any,
    graph: Graph,
    names: dict[int, str],
    parent: Node | None,
    language: GraphLanguage,
    canonical: bool,
) -> None:
    out.name = names[id(graph)]
    order = graph.order()
    # Inputs first and in order: their place is part of what a graph is.
    data = [value.node for value in graph.inputs]
    order = data + [node for node in order if node.type != "Data"]
    called = {node: str(i) if canonical else node.name for i, node in enumerate(order)}
    for name, value in graph.attributes.items():
        to_attribute(out.attr[name], "", value)
    if graph.aliases:
        pairs = [i for pair in sorted(graph.aliases.items()) for i in pair]
        to_attribute(out.attr[_ALIASES], "ListInt", pairs)
    for node in order:
        op = out.op.add(name=called[node], type=node.type)
        if node.type == "Data":
            _write_data(op, graph.inputs.index(node.outputs[0]), node.outputs[0], parent)
        else:
            _write_node(op, node, called, language)
        op.subgraph_name.extend(names[id(sub)] for sub in node.subgraphs)
    _write_result(out.op.add(name=graph.result.name, type="NetOutput"), graph, called, parent)
    out.input.extend(f"{called[node]}:0" for node in data)
    out.output.extend(f"{called[v.node]}:{v.index}" for v in graph.outputs)


def _write_data(op: Any, index: int, value: Value, parent: Node | None) -> None:
    op.attr["index"].i = index
    if parent is not None:
        op.attr[_PARENT].i = index + (parent.type in _HEADED)
    _write_desc(op.input_desc.add(name="x"), value.dtype, value.shape)
    _write_desc(op.output_desc.add(name="y"), value.dtype, value.shape)
    _write_names(op)


def _write_node(op: Any, node: Node, called: dict[Node, str], language: GraphLanguage) -> None:
    operator = language.find_operator(node.type)
    kinds = operator.attributes if operator else {}
    for value, name in zip(node.inputs, node.input_names, strict=True):
        desc = op.input_desc.add(name=name)
        if value is None:
            op.input.append("")
            desc.attr["_is_unfed_optional"].i = 1
            continue
        op.input.append(f"{called[value.node]}:{value.index}")
        _write_desc(desc, value.dtype, value.shape)
    op.input.extend(f"{called[before]}:-1" for before in node.controls)
    for value, name in zip(node.outputs, _output_names(operator, len(node.outputs)), strict=True):
        _write_desc(op.output_desc.add(name=name), value.dtype, value.shape)
    for name, attribute in node.attributes.items():
        to_attribute(op.attr[name], kinds[name].type if name in kinds else "", attribute)
    _write_names(op)


def _output_names(operator: Any, count: int) -> list[str]:
    if operator is None:
        return [f"y{i}" for i in range(count)]
    fixed = [port for port in operator.outputs if port.arity != "dynamic"]
    names: list[str] = []
    for port in operator.outputs:
        many = count - len(fixed)
        names += [f"{port.name}{i}" for i in range(many)] if port.arity == "dynamic" else [port.name]
    return names[:count] + [f"y{i}" for i in range(len(names), count)]


def _write_result(op: Any, graph: Graph, called: dict[Node, str], parent: Node | None) -> None:
    for index, value in enumerate(graph.outputs):
        op.input.append(f"{called[value.node]}:{value.index}")
        desc = op.input_desc.add(name=f"input{index}")
        _write_desc(desc, value.dtype, value.shape)
        if parent is not None:
            desc.attr[_PARENT].i = index
    _write_names(op)


def _write_desc(desc: Any, dtype: dtypes.DType, shape: Shape | None) -> None:
    desc.dtype = dtypes.proto_number(dtype)
    desc.layout = "ND"
    desc.device_type = "NPU"
    desc.shape.dim.extend([_UNKNOWN_RANK] if shape is None else [-1 if d is None else d for d in shape])


def _write_names(op: Any) -> None:
    for side, descs in (("input", op.input_desc), ("output", op.output_desc)):
        to_attribute(op.attr[f"_{side}_name_key"], "ListString", [d.name for d in descs])
        to_attribute(op.attr[f"_{side}_name_value"], "ListInt", list(range(len(descs))))


# 2. Reading.


class _Reader:
    def __init__(self, graphs: dict[str, Any], language: GraphLanguage, trusted: bool) -> None:
        self._trusted = trusted  # whether types between nodes are as written
        self._graphs = graphs
        self._language = language
        self._done: dict[str, Graph] = {}
        self._open: set[str] = set()

    def read(self, definition: Any) -> Graph:
        """Subgraphs before the node that holds them: its results are theirs."""
        graph = Graph(definition.name)
        self._open.add(definition.name)
        made: dict[str, Node] = {}
        for op in self._in_order(definition):
            if op.type == "NetOutput":
                graph.set_outputs([v for v in self._inputs(op, made) if v is not None])
            else:
                made[op.name] = self._read_node(graph, op, made)
        graph.inputs = [n.outputs[0] for n in sorted(
            (n for n in made.values() if n.type == "Data"), key=lambda n: n.attributes.pop("index")
        )]  # fmt: skip
        for name, attribute in definition.attr.items():
            graph.attributes[name] = from_attribute(attribute, "")
        pairs = graph.attributes.pop(_ALIASES, [])
        graph.aliases = dict(zip(pairs[::2], pairs[1::2], strict=False))
        self._open.discard(definition.name)
        self._done[definition.name] = graph
        return graph

    def _in_order(self, definition: Any) -> Iterable[Any]:
        """Any order of operators is a legal model. Depth first without recursion: graphs are deep."""
        by_name = {op.name: op for op in definition.op}
        if len(by_name) != len(definition.op):
            raise GraphError(f"graph '{definition.name}' has two nodes of one name")
        state: dict[str, int] = {}
        for root in definition.op:
            stack = [(root, iter(_sources(root)))] if state.setdefault(root.name, 1) == 1 else []
            while stack:
                op, rest = stack[-1]
                source = next(rest, None)
                if source is None:
                    stack.pop()
                    state[op.name] = 2
                    yield op
                elif source not in by_name:
                    raise GraphError(f"{op.type} '{op.name}' reads '{source}', which is no node of its graph")
                elif state.setdefault(source, 0) == 1:
                    raise GraphError(f"graph '{definition.name}' has a cycle through '{source}'")
                elif state[source] == 0:
                    state[source] = 1
                    stack.append((by_name[source], iter(_sources(by_name[source]))))

    def _inputs(self, op: Any, made: dict[str, Node]) -> list[Value | None]:
        values: list[Value | None] = []
        for text in op.input:
            name, _, index = text.rpartition(":")
            if text == "":
                values.append(None)
            elif index != "-1":
                outputs = made[name].outputs
                if not index.isdigit() or int(index) >= len(outputs):
                    raise GraphError(
                        f"{op.type} '{op.name}' reads '{text}': '{name}' has {len(outputs)} outputs"
                    )
                values.append(outputs[int(index)])
        return values

    def _read_node(self, graph: Graph, op: Any, made: dict[str, Node]) -> Node:
        operator = self._language.find_operator(op.type)
        kinds = operator.attributes if operator else {}
        attributes: dict[str, Any] = {
            name: from_attribute(attribute, kinds[name].type if name in kinds else "")
            for name, attribute in op.attr.items()
            if name not in _DERIVED
        }
        if operator:
            attributes = {n: normal_attribute(operator, n, v) for n, v in attributes.items()}
        if op.type == "Data":
            attributes.setdefault("index", 0)
        inputs = [] if op.type == "Data" else self._inputs(op, made)
        names = _input_names(op, len(inputs))
        subgraphs = [self._subgraph(op, name) for name in op.subgraph_name]
        types = self._types(op, attributes, inputs, names, subgraphs)
        node = graph.add_node(op.type, inputs, names, types, attributes, op.name, subgraphs)
        node.controls = [made[t.rpartition(":")[0]] for t in op.input if t.endswith(":-1")]
        return node

    def _subgraph(self, op: Any, name: str) -> Graph:
        if name not in self._graphs:
            raise GraphError(f"{op.type} '{op.name}' names the subgraph '{name}', which the model has not")
        if name in self._open:
            raise GraphError(f"graph '{name}' contains itself, by {op.type} '{op.name}'")
        return self._done[name] if name in self._done else self.read(self._graphs[name])

    def _types(
        self,
        op: Any,
        attributes: dict[str, Any],
        inputs: list[Value | None],
        names: list[str],
        graphs: list[Graph],
    ) -> list[tuple[dtypes.DType, Shape | None]]:
        if op.type in CONSTANTS:
            array = attributes.get("value")
            if not isinstance(array, np.ndarray):
                raise GraphError(f"{op.type} '{op.name}' has no value")
            return [(array.dtype, array.shape)]
        written = [(dtypes.from_proto(d.dtype), _shape(d.shape.dim)) for d in op.output_desc]
        if op.type == "Data":
            return written
        if not (graphs or self._language.has_rule(op.type)):
            if not self._trusted:
                raise GraphError(
                    f"{op.type} '{op.name}': the graph language has no rule for its outputs' types"
                )
            return written
        return infer_types(self._language, op.type, attributes, inputs, names, graphs, len(op.output_desc))


def _sources(op: Any) -> list[str]:
    return [text.rpartition(":")[0] for text in op.input if text and op.type != "Data"]


def _input_names(op: Any, count: int) -> list[str]:
    names = [desc.name for desc in op.input_desc][:count]
    return names + [f"input{i}" for i in range(len(names), count)]


def _shape(dims: Iterable[int]) -> Shape | None:
    listed = list(dims)
    return None if listed == [_UNKNOWN_RANK] else tuple(None if d < 0 else d for d in listed)


def equal(one: Graph, other: Graph, language: GraphLanguage | None = None) -> bool:
    """Whether two graphs compute the same way: operators, edges, attributes, types, constants, donations."""
    return canonical_bytes(one, language) == canonical_bytes(other, language)
