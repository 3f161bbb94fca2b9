"""A graph as lines a person can read and a diff can compare: one node a line, numbered in topological order."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common.graph.ir import Attribute, Graph, Node, Value

_SHOWN = 8  # elements of a constant or a list


def dump(graph: Graph) -> str:
    """`%3 = Add(%1, %2) : float32[2,3]  {attr=...}` a node; subgraphs follow as graphs of their own."""
    subs = list(graph.walk())
    names = {id(sub): f"@{sub.name}" if i == 0 else f"@{sub.name}.{i}" for i, sub in enumerate(subs)}
    return "\n".join(_graph(sub, names) for sub in subs)


def _graph(graph: Graph, names: dict[int, str]) -> str:
    labels: dict[Value, str] = {v: f"%{v.node.name}" for v in graph.inputs}
    order = [node for node in graph.order() if node.type != "Data"]
    for number, node in enumerate(order):
        several = len(node.outputs) > 1
        labels |= {v: f"%{number}:{v.index}" if several else f"%{number}" for v in node.outputs}
    arguments = ", ".join(f"{labels[v]}: {v.type_text()}" for v in graph.inputs)
    lines = [f"graph {names[id(graph)]}({arguments}) {{"]
    lines += [f"  {_node(node, number, labels, names)}" for number, node in enumerate(order)]
    results = []
    for index, value in enumerate(graph.outputs):
        note = (
            f" (in the memory of {labels[graph.inputs[i]]})"
            if (i := graph.aliases.get(index)) is not None
            else ""
        )
        results.append(labels[value] + note)
    return "\n".join([*lines, f"  return {', '.join(results)}", "}"])


def _node(node: Node, number: int, labels: dict[Value, str], names: dict[int, str]) -> str:
    inputs = ", ".join("-" if v is None else labels[v] for v in node.inputs)
    types = ", ".join(v.type_text() for v in node.outputs)
    attributes = [f"{name}={attribute_text(value)}" for name, value in sorted(node.attributes.items())]
    attributes += [f"graph={names[id(sub)]}" for sub in node.subgraphs]
    attributes += [f"after={labels[v]}" for before in node.controls for v in before.outputs[:1]]
    tail = f"  {{{', '.join(attributes)}}}" if attributes else ""
    return f"%{number} = {node.type}({inputs}) : {types}{tail}"


def attribute_text(value: Attribute) -> str:
    """Short: long constants and lists end in '...'."""
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, np.ndarray):
        flat: Any = value.reshape(-1)[:_SHOWN]
        more = ", ..." if value.size > _SHOWN else ""
        items = ", ".join(str(item) for item in flat)
        return items if value.ndim == 0 else f"[{items}{more}]"
    if isinstance(value, (list, tuple)):
        more = ", ..." if len(value) > _SHOWN else ""
        return f"[{', '.join(attribute_text(v) for v in value[:_SHOWN])}{more}]"
    return repr(value)
