"""Reshapes that only add or take away dimensions of size 1 sink below the operators that do not care.

Importers wrap computations in them (a batch dimension here, a group of one head there); below the operators they meet
and cancel, and the patterns of the fused operators see one shape.
"""

from __future__ import annotations

from collections.abc import Callable

from npu_common.graph.builder import Builder
from npu_common.graph.ir import Graph, Node, Value
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import integers

_BINARY = ("Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "SelectV2", "LogicalAnd", "LogicalOr")
_UNARY = ("Abs", "Cast", "Exp", "Log", "Neg", "Relu", "Rsqrt", "Sigmoid", "Sqrt", "Square", "Tanh")
_REDUCTIONS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd")
Sizes = tuple[int, ...]


def sink_reshapes(graph: Graph, language: GraphLanguage) -> int:
    builder = Builder(graph.name, language)
    builder.graph = graph
    changes = 0
    for node in graph.order():
        rule = _RULES.get(node.type)
        if rule is None or node.controls or len(node.outputs) != 1 or not node.output.uses:
            continue
        if not all(value is not None and value.is_static for value in (*node.inputs, node.output)):
            continue
        new = rule(node, builder)
        if new is not None and (new.dtype, new.shape) == (node.output.dtype, node.output.shape):
            changes += node.output.replace_uses(new) > 0
    return changes


def _sizes(value: Value) -> Sizes:
    return tuple(size or 0 for size in value.shape or ())


def _larger(shape: Sizes) -> Sizes:
    return tuple(size for size in shape if size != 1)


def _source(value: Value | None) -> Value | None:
    """What a Reshape changes only in dimensions of size 1."""
    if value is None or value.node.type != "Reshape":
        return None
    source = value.node.inputs[0]
    if source is None or not source.is_static or _larger(_sizes(source)) != _larger(_sizes(value)):
        return None
    return source


def _without_front(shape: Sizes) -> Sizes:
    first = next((axis for axis, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def _elementwise(node: Node, builder: Builder) -> Value | None:
    """Operands whose Reshape adds or takes away dimensions in front broadcast without it as well; one that is
    reshaped in another way may meet only single elements."""
    inputs = [value for value in node.inputs if value is not None]
    sources = [_source(value) for value in inputs]
    if all(source is None for source in sources):
        return None
    small: list[Value] = []
    anywhere = [s for s, v in zip(sources, inputs, strict=True) if s is not None and not _in_front(s, v)]
    alone = all(s is not None or len(_larger(_sizes(v))) == 0 for s, v in zip(sources, inputs, strict=True))
    if anywhere and not (alone and sum(source is not None for source in sources) == 1):
        return None
    for source, value in zip(sources, inputs, strict=True):
        small.append(value if source is None else source)
    if anywhere and any(len(_sizes(v)) > len(_sizes(anywhere[0])) for v in small):
        return None
    made = builder.add(node.type, *small, attributes=node.attributes)
    if not anywhere and _without_front(_sizes(made)) != _without_front(_sizes(node.output)):
        return None
    return _shaped(made, node.output, builder)


def _in_front(source: Value, value: Value) -> bool:
    return _without_front(_sizes(source)) == _without_front(_sizes(value))


def _shaped(made: Value, like: Value, builder: Builder) -> Value:
    return made if made.shape == like.shape else builder.add("Reshape", made, list(_sizes(like)))


def _reduction(node: Node, builder: Builder) -> Value | None:
    """Over the last dimension, which the Reshape leaves the last."""
    value, axes = node.inputs[0], integers(node.inputs[1])
    source = _source(value)
    if source is None or value is None or axes not in ([-1], [len(_sizes(value)) - 1]):
        return None
    if _sizes(source)[-1:] != _sizes(value)[-1:]:
        return None
    made = builder.add(node.type, source, [len(_sizes(source)) - 1], keep_dims=True)
    return _shaped(made, node.output, builder)


def _softmax(node: Node, builder: Builder) -> Value | None:
    value = node.inputs[0]
    source, axes = _source(value), list(node.attributes.get("axes", [-1]))
    if source is None or value is None or axes not in ([-1], [len(_sizes(value)) - 1]):
        return None
    if _sizes(source)[-1:] != _sizes(value)[-1:]:
        return None
    made = builder.add("SoftmaxV2", source, attributes={**node.attributes, "axes": [len(_sizes(source)) - 1]})
    return _shaped(made, node.output, builder)


def _around_transpose(node: Node, builder: Builder) -> Value | None:
    """Reshape, Transpose, Reshape is one Transpose where the Reshapes move nothing."""
    moved = node.inputs[0]
    if _source(node.output) is None or moved is None or moved.node.type != "Transpose":
        return None
    value, perm = _source(moved.node.inputs[0]), integers(moved.node.inputs[1])
    if value is None or perm is None or moved.node.inputs[0] is None:
        return None
    shape, outer = _sizes(value), _sizes(moved.node.inputs[0])
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    of_outer = dict(zip([axis for axis, size in enumerate(outer) if size != 1], kept, strict=True))
    larger = iter([of_outer[axis] for axis in perm if axis in of_outer])
    ones = iter([axis for axis, size in enumerate(shape) if size == 1])
    if len(shape) != len(_sizes(node.output)):
        return None
    order = [next(ones if size == 1 else larger) for size in _sizes(node.output)]
    return builder.add("Transpose", value, order)


_RULES: dict[str, Callable[[Node, Builder], Value | None]] = {
    **dict.fromkeys((*_BINARY, *_UNARY), _elementwise),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "SoftmaxV2": _softmax,
    "Reshape": _around_transpose,
}
RESHAPES = Pass("reshapes sink", sink_reshapes)
