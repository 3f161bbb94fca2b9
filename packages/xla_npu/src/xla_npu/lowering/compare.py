"""Comparisons and what is built from them: select, clamp, maximum and minimum."""

from __future__ import annotations

from typing import Any

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.elementwise import elementwise, parts
from xla_npu.lowering.helpers import bitcast, is_float, scalar, signed
from xla_npu.lowering.integers import ordered
from xla_npu.lowering.registry import lowers
from xla_npu.lowering.storage import decode

_DIRECTIONS = {
    "EQ": "Equal",
    "NE": "NotEqual",
    "LT": "Less",
    "LE": "LessEqual",
    "GT": "Greater",
    "GE": "GreaterEqual",
}
# What these operators of CANN take; the others of their kind are rewritten.
_EXTREMES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64")


@lowers("stablehlo.compare")
def compare(ctx: Context, op: Any, x: Value, y: Value) -> Value:
    element = ctx.operand_type(op).element
    if element.is_storage:
        x, y = decode(ctx, x, element), decode(ctx, y, element)
    direction = str(op.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")
    total = "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"])
    return compared(ctx, _DIRECTIONS[direction], x, y, total)


def compared(ctx: Context, type: str, x: Value, y: Value, total_order: bool = False) -> Value:
    """bool: x and y compared by one of CANN's operators (Less), whatever their dtype."""
    if x.dtype.kind == "c":
        return _compared_complex(ctx, type, x, y)
    if is_float(x.dtype):
        return ctx.add(type, *((total(ctx, x), total(ctx, y)) if total_order else (x, y)))
    if type in ("Equal", "NotEqual") and x.dtype.kind in "ub":
        bits = signed(x.dtype)
        return ctx.add(type, bitcast(ctx, x, bits), bitcast(ctx, y, bits))
    return ctx.add(type, ordered(ctx, x), ordered(ctx, y))


def total(ctx: Context, value: Value) -> Value:
    """Integers in the order of IEEE 754's totalOrder: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    bits = bitcast(ctx, value, signed(value.dtype))
    width = 8 * bits.dtype.itemsize
    sign = ctx.add("RightShift", bits, scalar(ctx, width - 1, bits.dtype))
    below = ctx.add("BitwiseAnd", sign, scalar(ctx, (1 << width - 1) - 1, bits.dtype))
    return ctx.add("BitwiseXor", bits, below)


def _compared_complex(ctx: Context, type: str, x: Value, y: Value) -> Value:
    """By real part, then by imaginary part."""
    if type in ("Equal", "NotEqual"):
        same = ctx.add("Equal", x, y)
        return same if type == "Equal" else ctx.add("LogicalNot", same)
    (a, b), (c, d) = parts(ctx, x), parts(ctx, y)
    strict = ctx.add(type.removesuffix("Equal"), a, c)
    tie = ctx.add("LogicalAnd", ctx.add("Equal", a, c), ctx.add(type, b, d))
    return ctx.add("LogicalOr", strict, tie)


@elementwise("maximum")
def maximum(ctx: Context, op: Any, x: Value, y: Value) -> Value:
    return extreme(ctx, "Maximum", x, y)


@elementwise("minimum")
def minimum(ctx: Context, op: Any, x: Value, y: Value) -> Value:
    return extreme(ctx, "Minimum", x, y)


def extreme(ctx: Context, type: str, x: Value, y: Value) -> Value:
    """Maximum or Minimum of any dtype. NaN wins."""
    if x.dtype.name in _EXTREMES:
        return ctx.add(type, x, y)
    if x.dtype.kind == "b":
        return ctx.add("LogicalOr" if type == "Maximum" else "LogicalAnd", x, y)
    chosen = compared(ctx, "Greater" if type == "Maximum" else "Less", x, y)
    if x.dtype.kind == "c":  # a NaN in x compares as nothing
        chosen = ctx.add("LogicalOr", chosen, ctx.add("LogicalNot", ctx.add("Equal", x, x)))
    return ctx.add("SelectV2", chosen, x, y)


@lowers("stablehlo.clamp")
def clamp(ctx: Context, op: Any, low: Value, x: Value, high: Value) -> Value:
    element = ctx.operand_type(op, 1).element
    if not element.is_storage:
        return extreme(ctx, "Minimum", extreme(ctx, "Maximum", low, x), high)
    a, b, c = (decode(ctx, v, element) for v in (low, x, high))
    above = ctx.add("SelectV2", ctx.add("Less", b, a), low, x)
    return ctx.add("SelectV2", ctx.add("Greater", ctx.add("Maximum", a, b), c), high, above)


@lowers("stablehlo.select")
def select(ctx: Context, op: Any, predicate: Value, x: Value, y: Value) -> Value:
    return ctx.add("SelectV2", predicate, x, y)
