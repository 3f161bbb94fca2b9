"""Checks a graph and says every fault in one readable line each."""

from __future__ import annotations

from collections.abc import Iterator

from npu_common.graph import dtypes
from npu_common.graph.builder import check_attributes, infer_types
from npu_common.graph.ir import CONSTANTS, Graph, GraphError, Node, Shape, Value
from npu_common.graph.language import GraphLanguage, Operator, native

# Where the subgraphs of a control-flow node see its inputs: how many of the first are kept back.
_HELD_BACK = {"If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1}


def verify(graph: Graph, language: GraphLanguage | None = None) -> None:
    """Raises GraphError with all faults of the graph and its subgraphs, one a line."""
    found = list(faults(graph, language or native()))
    if found:
        raise GraphError("\n".join(found))


def faults(graph: Graph, language: GraphLanguage) -> Iterator[str]:
    for sub in graph.walk():
        for fault in _graph_faults(sub, language):
            yield f"graph '{sub.name}': {fault}"


def _graph_faults(graph: Graph, language: GraphLanguage) -> Iterator[str]:
    try:
        order = graph.order()
    except GraphError as error:
        yield str(error)
        return
    yield from _interface_faults(graph)
    for node in order:
        yield from _use_faults(node)
        if node.type != "Data":
            for fault in _node_faults(node, language):
                yield f"{node}: {fault}"


def _interface_faults(graph: Graph) -> Iterator[str]:
    data = [node for node in graph.nodes if node.type == "Data"]
    if {v.node for v in graph.inputs} != set(data) or len(graph.inputs) != len(data):
        yield f"has {len(data)} Data nodes, but {len(graph.inputs)} inputs"
    if not graph.outputs:
        yield "returns nothing: name an output"
    yield from (f"returns {v}, which is not in it" for v in graph.outputs if v.node not in graph.nodes)
    for output, source in graph.aliases.items():
        if not (0 <= output < len(graph.outputs) and 0 <= source < len(graph.inputs)):
            yield f"donates input {source} to output {output}, one of which it has not"
            continue
        one, other = graph.outputs[output], graph.inputs[source]
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            yield f"donates {other.type_text()} (input {source}) to {one.type_text()} (output {output})"
    if len(set(graph.aliases.values())) != len(graph.aliases):
        yield "donates one input to two outputs"


def _use_faults(node: Node) -> Iterator[str]:
    """The use lists are what every pass relies on."""
    for position, value in enumerate(node.inputs):
        if value is not None and (node, position) not in value.uses:
            yield f"{node} reads {value}, which does not know it (use Node.set_input)"
    for value in node.outputs:
        for user, position in value.uses:
            if position >= len(user.inputs) or user.inputs[position] is not value:
                yield f"{value} claims a reader {user} that does not read it"


def _node_faults(node: Node, language: GraphLanguage) -> Iterator[str]:
    operator = language.find_operator(node.type)
    if operator is None:
        yield f"CANN's catalogue has no operator '{node.type}'"
        return
    try:
        check_attributes(operator, node.attributes, node.subgraphs)
    except GraphError as error:
        yield str(error)
        return
    yield from _port_faults(node, operator)
    if node.subgraphs:
        yield from _signature_faults(node)
    yield from _type_faults(node, language)


def _port_faults(node: Node, operator: Operator) -> Iterator[str]:
    """Names and dtypes of inputs against the catalogue."""
    ports = {p.name: p for p in operator.inputs}
    for value, name in zip(node.inputs, node.input_names, strict=True):
        port = ports.get(name) or ports.get(name.rstrip("0123456789"))
        if port is None:
            yield f"has an input '{name}'; the operator takes {list(ports)}"
        elif value is None and port.arity == "required":
            yield f"the input '{name}' is missing"
        elif value is not None and port.types and dtypes.language_name(value.dtype) not in port.types:
            yield f"input '{name}' is {value.dtype.name}; it takes {', '.join(sorted(port.types))}"
    for port in operator.inputs:
        if port.arity == "required" and port.name not in node.input_names:
            yield f"the input '{port.name}' is missing"


def _signature_faults(node: Node) -> Iterator[str]:
    passed = node.inputs[_HELD_BACK.get(node.type, 0) :]
    for sub in node.subgraphs:
        if len(sub.inputs) != len(passed):
            yield f"hands {len(passed)} values to '{sub.name}', which takes {len(sub.inputs)}"
            continue
        for given, taken in zip(passed, sub.inputs, strict=True):
            if given is not None and not _compatible(given, taken):
                yield f"hands {given.type_text()} to '{sub.name}', whose '{taken.node.name}' is {taken.type_text()}"
    if "While" in node.type:
        condition, body = node.subgraphs
        if len(condition.outputs) != 1:
            yield f"its condition '{condition.name}' returns {len(condition.outputs)} values, not one"
        for given, result in zip(body.inputs, body.outputs, strict=False):
            if not _compatible(result, given):
                yield f"its body turns {given.type_text()} into {result.type_text()}"


def _compatible(given: Value, taken: Value) -> bool:
    return given.dtype == taken.dtype and _fits(given.shape, taken.shape)


def _fits(one: Shape | None, other: Shape | None) -> bool:
    """Whether both may describe the same tensor."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a is None or b is None or a == b for a, b in zip(one, other, strict=True)
    )


def _type_faults(node: Node, language: GraphLanguage) -> Iterator[str]:
    if node.type in CONSTANTS:
        array, value = node.attributes["value"], node.output
        if (array.dtype, array.shape) != (value.dtype, value.shape):
            yield f"holds {array.dtype.name}{list(array.shape)}, but is {value.type_text()}"
        return
    if not (node.subgraphs or language.has_rule(node.type)):
        return
    try:
        types = infer_types(
            language,
            node.type,
            node.attributes,
            node.inputs,
            node.input_names,
            node.subgraphs,
            len(node.outputs),
        )
    except GraphError as error:
        yield str(error)
        return
    if len(types) != len(node.outputs):
        yield f"has {len(node.outputs)} outputs, inference says {len(types)}"
    for value, (dtype, shape) in zip(node.outputs, types, strict=False):
        if value.dtype != dtype or not _fits(value.shape, shape):
            inferred = Value(node, value.index, dtype, shape).type_text()
            yield f"output {value.index} is {value.type_text()}, inference says {inferred}"
