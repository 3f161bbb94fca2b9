"""Builds graphs: every node is checked against CANN's catalogue and inferred the moment it is added.

g = Builder("example")
x = g.input("x", "float32", (2, 3))
y = g.add("Add", x, g.constant(np.ones(3, np.float32)))
g.output(y * 2.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npu_common.graph import dtypes
from npu_common.graph.ir import Attribute, Graph, GraphError, Node, Shape, Value
from npu_common.graph.language import GraphLanguage, Operand, Operator, Port, native

# Operators whose results are those of their subgraphs: nothing to infer, the branches say it.
CONTROL_FLOW = frozenset(
    ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "PartitionedCall",
     "StatefulPartitionedCall")
)  # fmt: skip
# Values above this many elements are never read by inference; they decide no shape.
_VALUE_LIMIT = 1 << 16

Input = Any  # Value, None, an array, a number, or a list of those


class Builder:
    """Wraps a `Graph`; `graph` is complete as soon as the last output is named."""

    def __init__(self, name: str, language: GraphLanguage | None = None) -> None:
        self.graph = Graph(name)
        self._language = language

    def input(self, name: str, dtype: Any, shape: Sequence[int | None] | None) -> Value:
        """A graph input. A size that is not known is None or -1; shape None: not even the rank."""
        dims = None if shape is None else tuple(None if d is None or d < 0 else int(d) for d in shape)
        return self.graph.add_input(name, dtype, dims)

    def constant(self, value: Any, dtype: Any = None, name: str | None = None) -> Value:
        """A constant; Python integers become int64, floats float32 unless `dtype` says else."""
        return self.graph.add_constant(_array(value, dtype), name)

    def add(self, type: str, *inputs: Input, **arguments: Any) -> Value:
        """A node with one output, which is returned. Arguments: see `emit`."""
        values = emit(self.graph, type, *inputs, language=self._language, **arguments)
        if len(values) != 1:
            raise GraphError(f"{type} has {len(values)} outputs: use add_many")
        return values[0]

    def add_many(self, type: str, *inputs: Input, **arguments: Any) -> list[Value]:
        """A node with any number of outputs. Arguments: see `emit`."""
        return emit(self.graph, type, *inputs, language=self._language, **arguments)

    def output(self, value: Value, donated: Value | None = None) -> int:
        """Names a result. `donated`: the input whose memory it may take over (same bytes)."""
        index = None if donated is None else self.graph.inputs.index(donated)
        return self.graph.add_output(value, index)


def emit(
    graph: Graph,
    type: str,
    *inputs: Input,
    language: GraphLanguage | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    outputs: int | Sequence[tuple[Any, Shape | None]] | None = None,
    node_name: str | None = None,
    subgraphs: Sequence[Graph | Builder] = (),
    controls: Sequence[Node] = (),
    **named: Any,
) -> list[Value]:
    """Adds a checked node, returns its outputs.

    Args:
        inputs: in the catalogue's order; a list for a dynamic input, None for an optional one that is absent.
            Numbers and arrays become constants: a number takes the dtype of the first value, lists of
            integers (shapes, axes) are int64.
        attributes: those whose name is an input's too, or no Python name.
        outputs: how many, where the operator's output is dynamic; or their (dtype, shape) where the graph
            language has no rule for the operator.
        named: attributes, and inputs by name.

    Raises:
        GraphError: names the operator and what does not fit.
    """
    language = language or native()
    operator = find(language, type)
    given, attrs = _split_named(operator, named, attributes)
    values, names = _bind(graph, operator, inputs, given)
    attrs = {name: normal_attribute(operator, name, value) for name, value in attrs.items()}
    graphs = [item.graph if isinstance(item, Builder) else item for item in subgraphs]
    check_attributes(operator, attrs, graphs)
    if isinstance(outputs, Sequence):
        types = [(dtypes.dtype(d), None if s is None else tuple(s)) for d, s in outputs]
    else:
        types = infer_types(language, type, attrs, values, names, graphs, outputs or 0)
    node = graph.add_node(type, values, names, types, attrs, node_name, graphs)
    node.controls = list(controls)
    return list(node.outputs)


def find(language: GraphLanguage, type: str) -> Operator:
    operator = language.find_operator(type)
    if operator is None:
        raise GraphError(f"CANN's catalogue has no operator '{type}'")
    return operator


def infer_types(
    language: GraphLanguage,
    type: str,
    attributes: Mapping[str, Attribute],
    values: Sequence[Value | None],
    names: Sequence[str],
    subgraphs: Sequence[Graph],
    outputs: int = 0,
) -> list[tuple[dtypes.DType, Shape | None]]:
    """The types of a node's outputs. Raises GraphError."""
    if type in CONTROL_FLOW:
        return _subgraph_types(type, subgraphs)
    return language.infer(type, attributes, [_operand(v) for v in values], names, outputs)


def normal_attribute(operator: Operator, name: str, value: Attribute) -> Attribute:
    """The value in the form the graph holds: floats as the model keeps them (float32), types as dtypes."""
    known = operator.attributes.get(name)
    kind = known.type if known else ""
    if kind in ("Float", "ListFloat") and not isinstance(value, bool):
        if isinstance(value, (list, tuple)):
            return [float(np.float32(v)) for v in value]
        return float(np.float32(value))
    if kind == "Type":
        return dtypes.dtype(value) if not isinstance(value, (int, np.integer)) else dtypes.from_ge(int(value))
    if kind == "ListType":
        return [dtypes.dtype(v) for v in value]
    if kind == "Int" and not isinstance(value, (int, np.integer, bool)):
        return _int_attribute(operator, name, value)
    return _plain(value)


def check_attributes(
    operator: Operator, attributes: Mapping[str, Attribute], subgraphs: Sequence[Graph]
) -> None:
    """Raises GraphError: an attribute the operator has not, one that is missing, wrong subgraphs."""
    for name in attributes:
        if name not in operator.attributes and not name.startswith("_"):
            known = ", ".join(operator.attributes) or "none"
            raise GraphError(f"{operator.name} has no attribute '{name}'; it has {known}")
    missing = [a.name for a in operator.attributes.values() if a.required and a.name not in attributes]
    if missing:
        raise GraphError(f"{operator.name} needs the attribute '{missing[0]}'")
    wanted = len(operator.subgraphs)
    if len(subgraphs) < wanted or (len(subgraphs) > wanted and not operator.dynamic_subgraphs):
        raise GraphError(
            f"{operator.name} takes the subgraphs {list(operator.subgraphs)}, {len(subgraphs)} were given"
        )


def _int_attribute(operator: Operator, name: str, value: Attribute) -> int:
    # Cast's dst_type and the like are integers that number a data type in ge::DataType.
    try:
        return dtypes.ge_number(value)
    except TypeError:
        raise GraphError(f"attribute '{name}' of {operator.name} is an integer, not {value!r}") from None


def _plain(value: Attribute) -> Attribute:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _operand(value: Value | None) -> Operand | None:
    if value is None:
        return None
    constant = value.constant
    small = constant is not None and constant.size <= _VALUE_LIMIT
    return Operand(value.dtype, value.shape, constant if small else None)


def _subgraph_types(type: str, subgraphs: Sequence[Graph]) -> list[tuple[dtypes.DType, Shape | None]]:
    # While repeats its body (the second graph); the others return what any of their graphs returns.
    results = [g.outputs for g in (subgraphs[1:2] if "While" in type else subgraphs)]
    if len({len(r) for r in results}) != 1:
        raise GraphError(
            f"the branches of {type} return {[len(r) for r in results]} values: give all the same"
        )
    joined = []
    for position, values in enumerate(zip(*results, strict=True)):
        if len({v.dtype for v in values}) != 1:
            texts = [v.type_text() for v in values]
            raise GraphError(f"result {position} of {type} differs between its branches: {texts}")
        joined.append((values[0].dtype, join_shapes([v.shape for v in values])))
    return joined


def join_shapes(shapes: Sequence[Shape | None]) -> Shape | None:
    """What is sure about a value that has one of these shapes."""
    known = [s for s in shapes if s is not None]
    if len(known) != len(shapes) or len({len(s) for s in known}) != 1:
        return None
    return tuple(dims[0] if len(set(dims)) == 1 else None for dims in zip(*known, strict=True))


def _split_named(
    operator: Operator, named: Mapping[str, Any], attributes: Mapping[str, Attribute] | None
) -> tuple[dict[str, Input], dict[str, Attribute]]:
    ports = {port.name for port in operator.inputs}
    both = [n for n in named if n in ports and n in operator.attributes]
    if both:
        raise GraphError(
            f"'{both[0]}' is an input and an attribute of {operator.name}: use attributes={{...}}"
        )
    given = {n: v for n, v in named.items() if n in ports}
    attrs = {n: v for n, v in named.items() if n not in ports and v is not None}
    return given, attrs | dict(attributes or {})


def _bind(
    graph: Graph, operator: Operator, inputs: Sequence[Input], given: Mapping[str, Input]
) -> tuple[list[Value | None], list[str]]:
    """Flattened values and their names, trailing absent ones left out."""
    if len(inputs) > len(operator.inputs):
        raise GraphError(
            f"{operator.name} takes {len(operator.inputs)} inputs "
            f"({', '.join(p.name for p in operator.inputs)}), {len(inputs)} were given"
        )
    bound = dict(zip((p.name for p in operator.inputs), inputs, strict=False))
    for name in given:
        if bound.get(name) is not None:
            raise GraphError(f"input '{name}' of {operator.name} is given twice")
    bound.update(given)
    like = [v.dtype for item in bound.values() for v in _values(item)]
    values: list[Value | None] = []
    names: list[str] = []
    for port in operator.inputs:
        for name, item in _flatten(operator, port, bound.get(port.name)):
            values.append(_value(graph, operator, port, item, like))
            names.append(name)
    while values and values[-1] is None:
        values.pop()
        names.pop()
    return values, names


def _values(item: Input) -> list[Value]:
    items = item if isinstance(item, (list, tuple)) else [item]
    return [v for v in items if isinstance(v, Value)]


def _flatten(operator: Operator, port: Port, item: Input) -> list[tuple[str, Input]]:
    if port.arity == "dynamic":
        if item is None:
            return []
        if not isinstance(item, (list, tuple)):
            raise GraphError(f"input '{port.name}' of {operator.name} takes a list of values")
        return [(f"{port.name}{i}", one) for i, one in enumerate(item)]
    if item is None and port.arity == "required":
        raise GraphError(f"{operator.name} needs the input '{port.name}'")
    return [(port.name, item)]


def _value(
    graph: Graph, operator: Operator, port: Port, item: Input, like: Sequence[dtypes.DType]
) -> Value | None:
    if item is None:
        return None
    value = item if isinstance(item, Value) else graph.add_constant(_promoted(item, like, port))
    if value.node.graph is not graph:
        raise GraphError(
            f"input '{port.name}' of {operator.name} is a value of graph '{value.node.graph.name}'"
        )
    name = dtypes.language_name(value.dtype)
    if port.types and name not in port.types:
        raise GraphError(
            f"input '{port.name}' of {operator.name} is {name}; it takes {', '.join(sorted(port.types))}"
        )
    return value


def _promoted(item: Any, like: Sequence[dtypes.DType], port: Port) -> np.ndarray[Any, Any]:
    """A Python number in the dtype of the first value beside it that can hold it and that the input takes."""
    if isinstance(item, (np.ndarray, np.generic)):
        return np.asarray(item)
    if isinstance(item, (bool, int, float)):
        for dtype in like:
            if _holds(dtype, item) and (not port.types or dtypes.language_name(dtype) in port.types):
                return np.asarray(item, dtype)
    array = _array(item, None)
    if array.dtype == np.int64 and port.types and "int64" not in port.types and "int32" in port.types:
        return array.astype(np.int32)
    return array


def _holds(dtype: dtypes.DType, number: bool | int | float) -> bool:
    if isinstance(number, bool):
        return dtype.kind == "b"
    if isinstance(number, int) and dtypes.is_integer(dtype):
        return bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)
    return dtypes.is_float(dtype) or dtype.kind == "c"


def _array(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    if dtype is not None:
        return np.asarray(value, dtypes.dtype(dtype))
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    array = np.asarray(value)
    if array.size == 0 or array.dtype.kind == "i":
        return array.astype(np.int64)
    return array.astype(np.float32) if array.dtype == np.float64 else array
