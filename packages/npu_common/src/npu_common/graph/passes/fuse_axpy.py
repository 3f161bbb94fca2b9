"""x + alpha * y with a constant alpha is Axpy: the steps of optimisers go through memory once less.

Only where no other fused operator is made of the parts, hence last; the sum rounds once or twice, as the device likes.
"""

from __future__ import annotations

from collections.abc import Iterator

from npu_common.graph.builder import Builder
from npu_common.graph.ir import Graph, Node, Value
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import scalar


def fuse_axpy(graph: Graph, language: GraphLanguage) -> int:
    builder = Builder(graph.name, language)
    builder.graph = graph
    changes = 0
    for node in graph.order():
        if node.type not in ("Add", "AddV2", "Sub") or node.controls or node.output.dtype.name != "float32":
            continue
        for x, scaled in _summands(node):
            found = _scaled(scaled)
            if x is None or found is None:
                continue
            y, alpha = found
            if (
                not x.is_static
                or x.shape != y.shape
                or (x.dtype, x.shape) != (node.output.dtype, node.output.shape)
            ):
                continue
            new = builder.add("Axpy", x, y, alpha=-alpha if node.type == "Sub" else alpha)
            changes += node.output.replace_uses(new) > 0
            break
    return changes


def _summands(node: Node) -> Iterator[tuple[Value | None, Value | None]]:
    left, right = node.inputs
    yield left, right
    if node.type != "Sub":
        yield right, left


def _scaled(value: Value | None) -> tuple[Value, float] | None:
    """y and alpha of a product alpha * y that nobody else reads."""
    if value is None or value.node.type != "Mul" or value.node.controls or len(value.uses) != 1:
        return None
    for factor, y in (value.node.inputs, value.node.inputs[::-1]):
        alpha = scalar(factor) if factor is not None else None
        if alpha is not None and y is not None and y.constant is None and y.shape == value.shape:
            return y, alpha
    return None


FUSE_AXPY = Pass("fuse axpy", fuse_axpy)
