"""Removes nodes that no result needs."""

from __future__ import annotations

from npu_common.graph.ir import Graph, Node
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.effects import has_effect
from npu_common.graph.passes.manager import Pass


def remove_dead_code(graph: Graph, language: GraphLanguage) -> int:
    pending = [value.node for value in graph.outputs]
    pending += [node for node in graph.nodes if has_effect(node) or node.type == "Data"]
    alive: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in alive:
            alive.add(node)
            pending += [value.node for value in node.inputs if value is not None]
            pending += node.controls
    dead = [node for node in graph.nodes if node not in alive]
    for node in dead:
        node.set_inputs([], [])
    for node in dead:
        graph.remove(node)
    return len(dead)


DEAD_CODE = Pass("dead code", remove_dead_code)
