"""Division, powers, shifts and counts of bits: what StableHLO and XLA define for every integer, and CANN does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.elementwise import elementwise, negated
from xla_npu.lowering.helpers import bitcast, cast, scalar, signed, uniform

_WIDER = {"int16": np.int32, "uint16": np.int32, "uint32": np.int64}


@elementwise("divide")
def divide(ctx: Context, op: Any, x: Value, y: Value) -> Value:
    return quotient(ctx, x, y) if x.dtype.kind in "iu" else ctx.add("RealDiv", x, y)


@elementwise("remainder")
def remainder(ctx: Context, op: Any, x: Value, y: Value) -> Value:
    return rest(ctx, x, y) if x.dtype.kind in "iu" else ctx.add("TruncateMod", x, y)


def quotient(ctx: Context, x: Value, y: Value) -> Value:
    """x / y towards zero. XLA's corners: x / 0 has all bits set, the least number / -1 is itself."""
    if x.dtype == np.uint64:
        return _unsigned_long(ctx, x, y)[0]
    if x.dtype.name in _WIDER and x.dtype.name != "int16":
        wide = _WIDER[x.dtype.name]
        return cast(ctx, quotient(ctx, cast(ctx, x, wide), cast(ctx, y, wide)), x.dtype)
    if _is_plain(y):
        return ctx.add("TruncateDiv", x, y)
    zero, minus = _is(ctx, y, 0), _is(ctx, y, -1) if x.dtype.kind == "i" else None
    bad = zero if minus is None else ctx.add("LogicalOr", zero, minus)
    found = ctx.add("TruncateDiv", x, ctx.add("SelectV2", bad, scalar(ctx, 1, y.dtype), y))
    if minus is not None:
        found = ctx.add("SelectV2", minus, negated(ctx, x), found)
    return ctx.add("SelectV2", zero, scalar(ctx, -1, x.dtype), found)


def rest(ctx: Context, x: Value, y: Value) -> Value:
    """The remainder with the dividend's sign. XLA's corners: x % 0 is x, the least number % -1 is 0."""
    if x.dtype == np.uint64:
        return _unsigned_long(ctx, x, y)[1]
    if x.dtype.name in _WIDER:
        wide = _WIDER[x.dtype.name]
        return cast(ctx, rest(ctx, cast(ctx, x, wide), cast(ctx, y, wide)), x.dtype)
    if _is_plain(y):
        return ctx.add("TruncateMod", x, y)
    zero = _is(ctx, y, 0)
    bad = ctx.add("LogicalOr", zero, _is(ctx, y, -1)) if x.dtype.kind == "i" else zero
    found = ctx.add("TruncateMod", x, ctx.add("SelectV2", bad, scalar(ctx, 1, y.dtype), y))
    return ctx.add("SelectV2", zero, x, found)


def _is(ctx: Context, value: Value, number: int) -> Value:
    return ctx.add("Equal", value, scalar(ctx, number, value.dtype))


def _is_plain(divisor: Value) -> bool:
    """A constant without the numbers that need care."""
    array = divisor.constant
    return (
        array is not None and not np.any(array == 0) and not (array.dtype.kind == "i" and np.any(array == -1))
    )


def _unsigned_long(ctx: Context, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder of uint64, by signed division of half the dividend.

    With y below 2**63: q = 2 * ((x >> 1) / y) is at most one short. From 2**63 on the quotient is 0 or 1.
    """
    a, b = bitcast(ctx, x, np.int64), bitcast(ctx, y, np.int64)
    zero, large = _is(ctx, b, 0), ctx.add("Less", b, scalar(ctx, 0, np.int64))
    safe = ctx.add("SelectV2", ctx.add("LogicalOr", zero, large), scalar(ctx, 1, np.int64), b)
    half = ctx.add("TruncateDiv", shift_right_by(ctx, a, 1), safe)
    double = ctx.add("LeftShift", half, scalar(ctx, 1, np.int64))
    start = ctx.add("SelectV2", large, scalar(ctx, 0, np.int64), double)
    left = ctx.add("Sub", a, ctx.add("Mul", start, b))
    more = cast(ctx, ctx.add("GreaterEqual", ordered(ctx, left, True), ordered(ctx, b, True)), np.int64)
    found = ctx.add("Add", start, more)
    left = ctx.add("Sub", left, ctx.add("Mul", more, b))
    found = ctx.add("SelectV2", zero, scalar(ctx, -1, np.int64), found)
    left = ctx.add("SelectV2", zero, a, left)
    return bitcast(ctx, found, np.uint64), bitcast(ctx, left, np.uint64)


def ordered(ctx: Context, value: Value, is_unsigned: bool | None = None) -> Value:
    """Integers whose signed order is the value's: unsigned ones with the top bit flipped."""
    if value.dtype.kind == "b":
        return bitcast(ctx, value, np.int8)
    if not (value.dtype.kind == "u" if is_unsigned is None else is_unsigned):
        return value
    if value.dtype == np.uint8:
        return value
    bits = signed(value.dtype)
    top = scalar(ctx, 1 << 8 * bits.itemsize - 1, bits)
    return ctx.add("BitwiseXor", bitcast(ctx, value, bits), top)


@elementwise("power")
def power(ctx: Context, op: Any, x: Value, y: Value) -> Value:
    name = x.dtype.name
    if name in ("uint16", "uint32"):
        return cast(ctx, ctx.add("Pow", cast(ctx, x, np.int64), cast(ctx, y, np.int64)), x.dtype)
    if name != "uint64":
        return ctx.add("Pow", x, y)
    # Exponents from 2**63 on are none of Pow's: x^y = (x^(y / 2))^2 * (x if y is odd).
    base, exponent = bitcast(ctx, x, np.int64), bitcast(ctx, y, np.int64)
    half = ctx.add("Pow", base, shift_right_by(ctx, exponent, 1))
    odd = ctx.add("NotEqual", ctx.add("BitwiseAnd", exponent, scalar(ctx, 1, np.int64)), 0)
    last = ctx.add("SelectV2", odd, base, scalar(ctx, 1, np.int64))
    return bitcast(ctx, ctx.add("Mul", ctx.add("Mul", half, half), last), x.dtype)


# Shifts. An amount of the width or more, as an unsigned number, shifts everything out.


@elementwise("shift_left")
def shift_left(ctx: Context, op: Any, x: Value, amount: Value) -> Value:
    return _shifted(ctx, x, amount, lambda bits, by: ctx.add("LeftShift", bits, by))


@elementwise("shift_right_logical")
def shift_right_logical(ctx: Context, op: Any, x: Value, amount: Value) -> Value:
    return _shifted(ctx, x, amount, lambda bits, by: _shift_logical(ctx, bits, by))


@elementwise("shift_right_arithmetic")
def shift_right_arithmetic(ctx: Context, op: Any, x: Value, amount: Value) -> Value:
    bits, by = bitcast(ctx, x, signed(x.dtype)), bitcast(ctx, amount, signed(x.dtype))
    most, fixed = 8 * bits.dtype.itemsize - 1, _fixed(amount)
    if fixed is not None:
        by = scalar(ctx, min(fixed, most), bits.dtype)
    else:  # an amount that is too large is as good as the largest
        by = ctx.add("SelectV2", _is_inside(ctx, by), by, scalar(ctx, most, by.dtype))
    return bitcast(ctx, ctx.add("RightShift", bits, by), x.dtype)


def shift_right_by(ctx: Context, value: Value, amount: int) -> Value:
    """A signed integer's bits shifted right by a number within its width, zeros coming in."""
    if amount == 0:
        return value
    width = 8 * value.dtype.itemsize
    moved = ctx.add("RightShift", value, scalar(ctx, amount, value.dtype))
    return ctx.add("BitwiseAnd", moved, scalar(ctx, (1 << width - amount) - 1, value.dtype))


def _shifted(ctx: Context, x: Value, amount: Value, shift: Callable[[Value, Value], Value]) -> Value:
    bits, by = bitcast(ctx, x, signed(x.dtype)), bitcast(ctx, amount, signed(x.dtype))
    width, fixed, zero = 8 * bits.dtype.itemsize, _fixed(amount), scalar(ctx, 0, bits.dtype)
    if fixed is None:
        low = ctx.add("BitwiseAnd", by, scalar(ctx, width - 1, by.dtype))
        found = ctx.add("SelectV2", _is_inside(ctx, by), shift(bits, low), zero)
    elif fixed >= width:
        found = ctx.add("BitwiseAnd", bits, zero)
    else:
        found = shift(bits, scalar(ctx, fixed, bits.dtype)) if fixed else bits
    return bitcast(ctx, found, x.dtype)


def _shift_logical(ctx: Context, bits: Value, by: Value) -> Value:
    if by.constant is not None and by.constant.ndim == 0:
        return shift_right_by(ctx, bits, int(by.constant))
    top = scalar(ctx, 1 << 8 * bits.dtype.itemsize - 1, bits.dtype)
    copies = ctx.add("LeftShift", ctx.add("RightShift", top, by), scalar(ctx, 1, bits.dtype))  # of the sign
    return ctx.add("BitwiseAnd", ctx.add("RightShift", bits, by), ctx.add("Invert", copies))


def _is_inside(ctx: Context, by: Value) -> Value:
    """Whether an amount is below the width, as an unsigned number."""
    rest_ = ctx.add("BitwiseAnd", by, scalar(ctx, -8 * by.dtype.itemsize, by.dtype))
    return ctx.add("Equal", rest_, scalar(ctx, 0, by.dtype))


def _fixed(amount: Value) -> int | None:
    number = uniform(amount)
    return None if number is None else int(number) & (1 << 8 * amount.dtype.itemsize) - 1


# Counts of bits.


@elementwise("popcnt")
def population_count(ctx: Context, op: Any, x: Value) -> Value:
    return cast(ctx, ctx.add("PopulationCount", bitcast(ctx, x, signed(x.dtype))), x.dtype)


@elementwise("count_leading_zeros")
def count_leading_zeros(ctx: Context, op: Any, x: Value) -> Value:
    bits, width, by = bitcast(ctx, x, signed(x.dtype)), 8 * x.dtype.itemsize, 1
    while by < width:  # copies the highest one into all places below it
        bits = ctx.add("BitwiseOr", bits, shift_right_by(ctx, bits, by))
        by *= 2
    return cast(ctx, ctx.add("PopulationCount", ctx.add("Invert", bits)), x.dtype)
