"""Transposes of the last two dimensions become attributes of the matrix product that reads them."""

from __future__ import annotations

from npu_common.graph.builder import Builder
from npu_common.graph.ir import Graph, Node, Value
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import integers

# The attribute that says an input is read transposed, per input.
_PRODUCTS = {
    "MatMul": ("transpose_x1", "transpose_x2"),
    "MatMulV2": ("transpose_x1", "transpose_x2"),
    "MatMulV3": ("transpose_x1", "transpose_x2"),
    "BatchMatMul": ("adj_x1", "adj_x2"),
    "BatchMatMulV2": ("adj_x1", "adj_x2"),
    "BatchMatMulV3": ("adj_x1", "adj_x2"),
}


def fold_transposes(graph: Graph, language: GraphLanguage) -> int:
    builder = Builder(graph.name, language)
    builder.graph = graph
    return sum(
        _fold(node, position, builder)
        for node in graph.order()
        if node.type in _PRODUCTS and not node.controls
        for position in (0, 1)
    )


def _fold(node: Node, position: int, builder: Builder) -> int:
    source = _untransposed(node.inputs[position])
    if source is None or node.output.dtype.kind == "c":  # adj conjugates complex numbers
        return 0
    name = _PRODUCTS[node.type][position]
    node.attributes[name] = not node.attributes.get(name, False)
    node.set_input(position, source)
    return 1


def _untransposed(value: Value | None) -> Value | None:
    if value is None or value.node.type != "Transpose":
        return None
    perm = integers(value.node.inputs[1])
    if perm is None or len(perm) < 2:
        return None
    rank = len(perm)
    return value.node.inputs[0] if perm == [*range(rank - 2), rank - 1, rank - 2] else None


MATMUL_TRANSPOSE = Pass("transposes into matmul", fold_transposes)
