"""Clean-up that keeps every value in its bits, NaN, infinities and signed zeros included.

It also brings importers' expansions to the form that the fused patterns are written in: reductions keep their
dimensions, and broadcasting is left to the operators that do it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_common.graph import dtypes
from npu_common.graph.builder import Builder
from npu_common.graph.ir import Graph, Node, Value
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import integers

Rule = Callable[[Node, Builder], Value | None]

# Operators that broadcast their inputs as NumPy does.
_BROADCASTING = frozenset(
    ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum", "Pow", "Equal", "NotEqual", "Less",
     "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
     "LeftShift", "RightShift", "TruncateDiv", "SelectV2")
)  # fmt: skip
_POINTWISE = frozenset(
    (
        "Abs",
        "Bitcast",
        "Cast",
        "Exp",
        "Invert",
        "Log",
        "LogicalNot",
        "Neg",
        "Reciprocal",
        "Relu",
        "Rsqrt",
        "Sigmoid",
        "Sqrt",
        "Square",
        "Tanh",
    )
)
_REDUCTIONS = frozenset(
    ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceAll", "ReduceAny")
)


def clean_up(graph: Graph, language: GraphLanguage) -> int:
    builder = Builder(graph.name, language)
    builder.graph = graph
    changes = 0
    for node in graph.order():
        if node.controls or len(node.outputs) != 1 or not node.output.uses:
            continue
        for rule in _RULES.get(node.type, ()):
            new = rule(node, builder)
            if new is None or new is node.output:
                continue
            if (new.dtype, new.shape) == (node.output.dtype, node.output.shape):
                changes += node.output.replace_uses(new) > 0
                break
    return changes


def _fits(value: Value | None, node: Node) -> Value | None:
    """The value where it can stand for the node's result: an operand may be smaller than what it broadcasts to."""
    same = value is not None and (value.dtype, value.shape) == (node.output.dtype, node.output.shape)
    return value if same else None


def _identity(node: Node, builder: Builder) -> Value | None:
    return _fits(node.inputs[0], node)


def _times_one(node: Node, builder: Builder) -> Value | None:
    left, right = node.inputs
    return _fits(left, node) if _all(right, 1.0) else _fits(right, node) if _all(left, 1.0) else None


def _divided_by_one(node: Node, builder: Builder) -> Value | None:
    return _fits(node.inputs[0], node) if _all(node.inputs[1], 1.0) else None


def _plus_zero(node: Node, builder: Builder) -> Value | None:
    # -0.0 + 0.0 is 0.0, so adding +0.0 changes a float; adding -0.0 changes nothing.
    zero = 0.0 if not dtypes.is_float(node.output.dtype) else -0.0
    left, right = node.inputs
    return _fits(left, node) if _all(right, zero) else _fits(right, node) if _all(left, zero) else None


def _minus_zero(node: Node, builder: Builder) -> Value | None:
    # -0.0 - 0.0 is -0.0: subtracting +0.0 changes nothing, subtracting -0.0 would.
    return _fits(node.inputs[0], node) if _all(node.inputs[1], 0.0) else None


def _all(value: Value | None, number: float) -> bool:
    array = None if value is None else value.constant
    if array is None or array.dtype.kind == "c" or array.size == 0:
        return False
    wide: np.ndarray[Any, Any] = array.astype(np.float64)
    return bool(np.all(wide == number) and np.all(np.signbit(wide) == np.signbit(number)))


def _twice(node: Node, builder: Builder) -> Value | None:
    """Neg(Neg(x)), LogicalNot(LogicalNot(x)). Flips a sign bit twice, also of NaN."""
    inner = node.inputs[0]
    return inner.node.inputs[0] if inner is not None and inner.node.type == node.type else None


def _transpose(node: Node, builder: Builder) -> Value | None:
    source, perm = node.inputs[0], integers(node.inputs[1])
    if source is None or perm is None:
        return None
    if perm == list(range(len(perm))):
        return source
    inner = integers(source.node.inputs[1]) if source.node.type == "Transpose" else None
    if inner is None:
        return None
    return builder.add("Transpose", source.node.inputs[0], [inner[i] for i in perm])


def _reshape(node: Node, builder: Builder) -> Value | None:
    source = node.inputs[0]
    if source is None or not node.output.is_static:
        return None
    if source.shape == node.output.shape:
        return source
    if source.node.type in ("Reshape", "Squeeze", "Unsqueeze", "ExpandDims", "Flatten"):
        return builder.add("Reshape", source.node.inputs[0], list(node.output.shape or ()))
    return _kept_dimensions(node, source, builder)


def _kept_dimensions(node: Node, reduced: Value, builder: Builder) -> Value | None:
    """Reshape(Reduce(x)) that puts the reduced dimensions back as ones is Reduce with keep_dims."""
    inner = reduced.node
    if inner.type not in _REDUCTIONS or inner.attributes.get("keep_dims", False) or inner.controls:
        return None
    source, axes = inner.inputs[0], integers(inner.inputs[1])
    if source is None or not axes or source.shape is None:
        return None
    rank = len(source.shape)
    gone = {axis % rank for axis in axes}
    if node.output.shape != tuple(1 if i in gone else d for i, d in enumerate(source.shape)):
        return None
    return builder.add(
        inner.type, source, inner.inputs[1], attributes={**inner.attributes, "keep_dims": True}
    )


def _cast(node: Node, builder: Builder) -> Value | None:
    source = node.inputs[0]
    if source is None or source.dtype == node.output.dtype:
        return source
    first = source.node.inputs[0] if source.node.type == "Cast" else None
    if first is None or not _is_lossless(first.dtype, source.dtype):
        return None
    if first.dtype == node.output.dtype:
        return first
    # Widened without loss: what comes after converts the very same number, with one rounding. From floats to integers
    # it does not hold: what becomes of numbers that are out of range may depend on the type they come from.
    if dtypes.is_float(first.dtype) != dtypes.is_float(node.output.dtype) or node.output.dtype.kind == "b":
        return None
    return builder.add("Cast", first, dst_type=node.output.dtype)


def _plain_axes(node: Node, builder: Builder) -> Value | None:
    """Axes counted from the front and sorted, so that one reduction is written in one way."""
    source, axes = node.inputs[0], integers(node.inputs[1])
    if source is None or source.shape is None or not axes or not source.shape:
        return None
    plain = sorted(axis % len(source.shape) for axis in axes)
    return builder.add(node.type, source, plain, attributes=node.attributes) if plain != axes else None


# name -> (bits of the significand, smallest and largest exponent), for floats that hold each other's numbers.
_FLOATS = {
    "float16": (11, -24, 15),
    "bfloat16": (8, -133, 127),
    "float32": (24, -149, 127),
    "float64": (53, -1074, 1023),
}


def _is_lossless(one: dtypes.DType, other: dtypes.DType) -> bool:
    """Whether every value of `one` is a value of `other`. Bool has conversions of its own and is left out."""
    if one.name in _FLOATS and other.name in _FLOATS:
        (p, low, high), (q, below, above) = _FLOATS[one.name], _FLOATS[other.name]
        return p <= q and below <= low and high <= above
    if dtypes.is_integer(one) and dtypes.is_integer(other):
        a, b = np.iinfo(one), np.iinfo(other)
        return bool(b.min <= a.min and a.max <= b.max)
    return False


def _broadcast_to(node: Node, builder: Builder) -> Value | None:
    source = node.inputs[0]
    if source is None or not node.output.is_static:
        return None
    if source.node.type == "BroadcastTo":
        return builder.add("BroadcastTo", source.node.inputs[0], list(node.output.shape or ()))
    return _fits(source, node)


def _implicit_broadcast(node: Node, builder: Builder) -> Value | None:
    """The operator broadcasts by itself: an explicit BroadcastTo before it costs memory, or, where no other
    operand is larger, repeats one computation; then it goes behind the operator."""
    if not node.output.is_static:
        return None
    for position, wide in enumerate(node.inputs):
        narrow = wide.node.inputs[0] if wide is not None and wide.node.type == "BroadcastTo" else None
        if narrow is None or not all(v is not None and v.is_static for v in (narrow, *node.inputs)):
            continue
        inputs = [*node.inputs[:position], narrow, *node.inputs[position + 1 :]]
        small = builder.add(node.type, *inputs, attributes=node.attributes)
        return small if small.shape == node.output.shape else _broadcast(small, node, builder)
    return None


def _unary_broadcast(node: Node, builder: Builder) -> Value | None:
    source = node.inputs[0]
    if source is None or source.node.type != "BroadcastTo" or not node.output.is_static:
        return None
    if node.type == "Bitcast" and source.dtype.itemsize != node.output.dtype.itemsize:
        return None  # it changes the last dimension
    small = builder.add(node.type, source.node.inputs[0], attributes=node.attributes)
    return _broadcast(small, node, builder)


def _broadcast(small: Value, node: Node, builder: Builder) -> Value:
    return builder.add("BroadcastTo", small, list(node.output.shape or ()))


def _and_true(node: Node, builder: Builder) -> Value | None:
    left, right = node.inputs
    return _fits(left, node) if _all(right, 1.0) else _fits(right, node) if _all(left, 1.0) else None


def _or_false(node: Node, builder: Builder) -> Value | None:
    left, right = node.inputs
    return _fits(left, node) if _all(right, 0.0) else _fits(right, node) if _all(left, 0.0) else None


def _true_or_false(node: Node, builder: Builder) -> Value | None:
    condition, then, other = node.inputs
    is_itself = node.output.dtype.kind == "b" and _all(then, 1.0) and _all(other, 0.0)
    return _fits(condition, node) if is_itself else None


def _above_minus_infinity(node: Node, builder: Builder) -> Value | None:
    # max(-inf, x) is x for every x, NaN as well (Maximum hands NaN on). JAX's softmax writes it.
    left, right = node.inputs
    for low, kept in ((left, right), (right, left)):
        if low is not None and low.node.type == "BroadcastTo":
            low = low.node.inputs[0]
        if _all(low, float("-inf")):
            return _fits(kept, node)
    return None


def _squeeze_as_reshape(node: Node, builder: Builder) -> Value | None:
    """One operator for all that only renames dimensions, so that the rules above see through them."""
    if not node.output.is_static or node.inputs[0] is None:
        return None
    return builder.add("Reshape", node.inputs[0], list(node.output.shape or ()))


_RULES: dict[str, tuple[Rule, ...]] = {
    "Identity": (_identity,),
    "Mul": (_times_one,),
    "RealDiv": (_divided_by_one,),
    "Div": (_divided_by_one,),
    "Add": (_plus_zero,),
    "AddV2": (_plus_zero,),
    "Sub": (_minus_zero,),
    "Neg": (_twice,),
    "LogicalNot": (_twice,),
    "Transpose": (_transpose,),
    "Reshape": (_reshape,),
    "Squeeze": (_squeeze_as_reshape,),
    "Unsqueeze": (_squeeze_as_reshape,),
    "ExpandDims": (_squeeze_as_reshape,),
    "Cast": (_cast,),
    "BroadcastTo": (_broadcast_to,),
    "Maximum": (_above_minus_infinity,),
    "LogicalAnd": (_and_true,),
    "LogicalOr": (_or_false,),
    "SelectV2": (_true_or_false,),
}
for _type in _BROADCASTING:
    _RULES[_type] = (*_RULES.get(_type, ()), _implicit_broadcast)
for _type in _POINTWISE:
    _RULES[_type] = (*_RULES.get(_type, ()), _unary_broadcast)
for _type in _REDUCTIONS:
    _RULES[_type] = (_plain_axes,)

ALGEBRA = Pass("algebra", clean_up)
