"""A graph as Graphviz text: `dot -Tsvg`. Subgraphs are clusters, constants are left small."""

from __future__ import annotations

from npu_common.graph.ir import CONSTANTS, Graph, Node
from npu_common.graph.text import attribute_text


def dot(graph: Graph) -> str:
    lines = ["digraph {", "  node [shape=box, fontname=Helvetica, fontsize=10];", "  edge [fontsize=8];"]
    for index, sub in enumerate(graph.walk()):
        lines += _cluster(sub, index)
    return "\n".join([*lines, "}"])


def _cluster(graph: Graph, index: int) -> list[str]:
    ids = {node: f"n{index}_{i}" for i, node in enumerate([*graph.order(), graph.result])}
    lines = [f"  subgraph cluster_{index} {{", f"    label={_quoted(graph.name)};"]
    lines += [f"    {key} [label={_quoted(_label(node))}{_style(node)}];" for node, key in ids.items()]
    for node, key in ids.items():
        for value in node.inputs:
            if value is not None:
                lines.append(f"    {ids[value.node]} -> {key} [label={_quoted(value.type_text())}];")
        lines += [f"    {ids[before]} -> {key} [style=dashed];" for before in node.controls]
    return [*lines, "  }"]


def _label(node: Node) -> str:
    if node.type == "Data":
        return f"{node.name}\n{node.outputs[0].type_text()}"
    if node.type in CONSTANTS:
        return attribute_text(node.attributes["value"])
    attributes = [
        f"{k}={attribute_text(v)}" for k, v in sorted(node.attributes.items()) if not k.startswith("_")
    ]
    return "\n".join([node.type, *attributes])


def _style(node: Node) -> str:
    if node.type in ("Data", "NetOutput"):
        return ", style=filled, fillcolor=lightblue"
    return ", shape=ellipse, fontsize=8" if node.type in CONSTANTS else ""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
