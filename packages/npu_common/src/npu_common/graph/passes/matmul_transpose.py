"""Transposes of the last two dimensions become attributes of the matrix product that reads them, or that they read:
(A B)^T is B^T A^T."""

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
    changes = 0
    for node in graph.order():
        if node.type in _PRODUCTS and not node.controls:
            changes += _fold(node, 0, builder) + _fold(node, 1, builder)
        elif node.type == "Transpose" and not node.controls and node.output.uses:
            changes += _swap(node, builder)
    return changes


def _fold(node: Node, position: int, builder: Builder) -> int:
    source = _untransposed(node.inputs[position])
    if source is None or node.output.dtype.kind == "c":  # adj conjugates complex numbers
        return 0
    name = _PRODUCTS[node.type][position]
    node.attributes[name] = not node.attributes.get(name, False)
    node.set_input(position, source)
    return 1


def _swap(transpose: Node, builder: Builder) -> int:
    """The transpose of a product that nothing else reads is the product the other way round."""
    product = _untransposed(transpose.output)
    if product is None or product.node.type not in _PRODUCTS or product.dtype.kind == "c":
        return 0
    inner = product.node
    others = [value for value in inner.inputs[2:] if value is not None]  # a bias goes along the rows
    if others or inner.controls or len(product.uses) != 1:
        return 0
    first, second = _PRODUCTS[inner.type]
    turned = {
        **inner.attributes,
        first: not inner.attributes.get(second, False),
        second: not inner.attributes.get(first, False),
    }
    swapped = builder.add(inner.type, inner.inputs[1], inner.inputs[0], attributes=turned)
    return transpose.output.replace_uses(swapped)


def _untransposed(value: Value | None) -> Value | None:
    if value is None or value.node.type != "Transpose":
        return None
    perm = integers(value.node.inputs[1])
    if perm is None or len(perm) < 2:
        return None
    rank = len(perm)
    return value.node.inputs[0] if perm == [*range(rank - 2), rank - 1, rank - 2] else None


MATMUL_TRANSPOSE = Pass("transposes into matmul", fold_transposes)
