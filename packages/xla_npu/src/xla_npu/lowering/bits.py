"""Bits of values: bitcast_convert and reduce_precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.errors import Unsupported
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import bitcast, is_float, scalar, signed, sizes
from xla_npu.lowering.registry import lowers
from xla_npu.types import Element

_SMALL = {"i4": 4, "ui4": 4, "f4E2M1FN": 4, "i2": 2, "ui2": 2}
_MANTISSAS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


@lowers("stablehlo.bitcast_convert")
def bitcast_convert(ctx: Context, op: Any, x: Value) -> Value:
    source, target = ctx.operand_type(op), ctx.result_type(op)
    before, after = _width(source.element), _width(target.element)
    if before == after:
        return bitcast(ctx, x, target.dtype)
    if min(before, after) >= 8:
        return ctx.add("Bitcast", x, attributes={"type": target.dtype})
    if before < after:
        packed = _packed(ctx, bitcast(ctx, x, np.uint8), before, min(after, 8))
        return _reshaped(ctx, _widened(ctx, packed, target.dtype), target.shape)
    # A value of several bytes falls into bytes first, each of those into small ones.
    if before > 8:
        x = ctx.add("Bitcast", x, attributes={"type": np.dtype(np.uint8)})
    return _reshaped(ctx, _unpacked(ctx, bitcast(ctx, x, np.uint8), min(before, 8), after), target.shape)


def _packed(ctx: Context, x: Value, width: int, wide: int) -> Value:
    """(..., k * n) of `width` bits each to (..., k) of `wide`: the first is the lowest."""
    count = wide // width
    grouped = _reshaped(ctx, x, (*sizes(x)[:-1], sizes(x)[-1] // count, count))
    mask = scalar(ctx, (1 << width) - 1, np.uint8)
    moved = ctx.add("BitwiseAnd", grouped, mask)
    moved = ctx.add("LeftShift", moved, ctx.constant(np.arange(0, wide, width, dtype=np.uint8)))
    lines = [
        ctx.add("GatherV2", moved, np.array([i], np.int32), np.array(-1, np.int32)) for i in range(count)
    ]
    found = lines[0]
    for line in lines[1:]:
        found = ctx.add("BitwiseOr", found, line)
    return _reshaped(ctx, found, sizes(found)[:-1])


def _widened(ctx: Context, x: Value, dtype: Any) -> Value:
    """Bytes, those of one value in the last dimension, as that dtype."""
    if dtype.itemsize == 1:
        return bitcast(ctx, x, dtype)
    grouped = _reshaped(ctx, x, (*sizes(x)[:-1], sizes(x)[-1] // dtype.itemsize, dtype.itemsize))
    return ctx.add("Bitcast", grouped, attributes={"type": dtype})


def _unpacked(ctx: Context, x: Value, wide: int, width: int) -> Value:
    """Bytes to (..., n) of `width` bits each, the lowest first."""
    column = _reshaped(ctx, x, (*sizes(x), 1))
    moved = ctx.add("RightShift", column, ctx.constant(np.arange(0, wide, width, dtype=np.uint8)))
    return ctx.add("BitwiseAnd", moved, scalar(ctx, (1 << width) - 1, np.uint8))


def _flat(x: Value) -> tuple[int, ...]:
    return sizes(x)


def _reshaped(ctx: Context, x: Value, shape: tuple[int, ...]) -> Value:
    return ctx.add("Reshape", x, np.array(shape, np.int64))


def _width(element: Element) -> int:
    return _SMALL.get(element.stablehlo, 8 * element.graph.itemsize)


@lowers("stablehlo.reduce_precision")
def reduce_precision(ctx: Context, op: Any, x: Value) -> Value:
    exponent = int(op.attributes["exponent_bits"].value)
    mantissa = int(op.attributes["mantissa_bits"].value)
    dtype = x.dtype
    if not is_float(dtype):
        raise Unsupported(
            f"reduce_precision of {ctx.operand_type(op).element.stablehlo} is not supported on npu; "
            "convert to float32 first"
        )
    own_mantissa = _MANTISSAS[dtype.name]
    own_exponent = 8 * dtype.itemsize - 1 - own_mantissa
    bits = bitcast(ctx, x, signed(dtype))
    if mantissa < own_mantissa:
        bits = _rounded(ctx, bits, own_mantissa - mantissa)
    if exponent < own_exponent:
        bits = _bounded(ctx, bits, own_mantissa, own_exponent, exponent, min(mantissa, own_mantissa))
    reduced = bitcast(ctx, bits, dtype)
    return ctx.add("SelectV2", ctx.add("Equal", x, x), reduced, x)


def _rounded(ctx: Context, bits: Value, drop: int) -> Value:
    """To nearest even, the last `drop` bits becoming 0. Overflow to infinity comes out by itself."""

    def number(value: int) -> Value:
        return scalar(ctx, value, bits.dtype)

    odd = ctx.add("BitwiseAnd", ctx.add("RightShift", bits, number(drop)), number(1))
    bits = ctx.add("Add", ctx.add("Add", bits, number((1 << drop - 1) - 1)), odd)
    return ctx.add("BitwiseAnd", bits, number(-(1 << drop)))


def _bounded(ctx: Context, bits: Value, mantissa: int, own: int, exponent: int, kept: int) -> Value:
    """Infinity above what `exponent` bits reach, zero below their normal numbers, the sign kept."""
    bias, reduced = (1 << own - 1) - 1, (1 << exponent - 1) - 1
    top = scalar(ctx, 1 << 8 * bits.dtype.itemsize - 1, bits.dtype)
    sign = ctx.add("BitwiseAnd", bits, top)
    size = ctx.add("BitwiseXor", bits, sign)
    too_large = ctx.add("GreaterEqual", size, scalar(ctx, bias + reduced + 1 << mantissa, bits.dtype))
    too_small = ctx.add("Less", size, scalar(ctx, bias - reduced + 1 << mantissa, bits.dtype))
    infinity = ctx.add("BitwiseOr", sign, scalar(ctx, (1 << own) - 1 << mantissa, bits.dtype))
    return ctx.add("SelectV2", too_large, infinity, ctx.add("SelectV2", too_small, sign, bits))
