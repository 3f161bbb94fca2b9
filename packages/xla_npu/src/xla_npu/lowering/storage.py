"""Storage types (8-bit floats, integers of 2 and 4 bits): bytes in graphs, decoded to numbers and encoded again by
exact arithmetic on bits. What CANN's Cast knows of them is a part (e4m3fn, e5m2), so none goes through it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import bitcast, cast, scalar
from xla_npu.types import Element

_INTEGERS = {"i4": (4, True), "ui4": (4, False), "i2": (2, True), "ui2": (2, False)}
_MANTISSA = 23  # bits of float32's
_BIAS = 127


def number_dtype(element: Element) -> np.dtype[Any]:
    """What a storage type's values are computed in: all of them are in it."""
    return np.dtype(np.int8 if element.stablehlo in _INTEGERS else np.float32)


def decode(ctx: Context, value: Value, element: Element) -> Value:
    """The numbers that the bytes stand for, as `number_dtype(element)`."""
    if element.stablehlo in _INTEGERS:
        bits, is_signed = _INTEGERS[element.stablehlo]
        raw, shift = bitcast(ctx, value, np.int8), scalar(ctx, 8 - bits, np.int8)
        if not is_signed:
            return ctx.add("BitwiseAnd", raw, scalar(ctx, (1 << bits) - 1, np.int8))
        return ctx.add("RightShift", ctx.add("LeftShift", raw, shift), shift)
    codes: np.ndarray[Any, Any] = np.arange(256, dtype=np.uint8)
    table: np.ndarray[Any, Any] = codes.view(element.numpy).astype(np.float32)
    return ctx.add("GatherV2", ctx.constant(table), cast(ctx, value, np.int32), np.array(0, np.int32))


def encode(ctx: Context, value: Value, element: Element) -> Value:
    """The bytes of numbers: integers keep their low bits, floats are rounded to nearest even.

    Args:
        value: int8 for a small integer type, else float32.
    """
    if element.stablehlo in _INTEGERS:
        mask = scalar(ctx, (1 << _INTEGERS[element.stablehlo][0]) - 1, np.uint8)
        return ctx.add("BitwiseAnd", bitcast(ctx, value, np.uint8), mask)
    if element.stablehlo == "f8E8M0FNU":
        return _encode_power(ctx, value)
    return _encode_float(ctx, value, element)


def _encode_float(ctx: Context, value: Value, element: Element) -> Value:
    format_ = ml_dtypes.finfo(element.numpy)
    mantissa, bias = format_.nmant, 1 - format_.minexp
    bits = bitcast(ctx, value, np.int32)
    size = ctx.add("BitwiseAnd", bits, _int(ctx, 0x7FFFFFFF))
    drop = _MANTISSA - mantissa
    # Normal results: add just under half of the last place kept, one more where that place is odd.
    odd = ctx.add("BitwiseAnd", ctx.add("RightShift", size, _int(ctx, drop)), _int(ctx, 1))
    rounded = ctx.add("Add", ctx.add("Add", size, _int(ctx, (1 << drop - 1) - 1)), odd)
    normal = ctx.add("RightShift", rounded, _int(ctx, drop))
    normal = ctx.add("Sub", normal, _int(ctx, _BIAS - bias << mantissa))
    # Subnormal ones are multiples of the smallest.
    magnitude = bitcast(ctx, size, np.float32)
    steps = ctx.add("Mul", magnitude, scalar(ctx, 2.0 ** (mantissa - format_.minexp), np.float32))
    tiny = ctx.add("Less", magnitude, scalar(ctx, 2.0**format_.minexp, np.float32))
    # Large ones are put out of the way of the conversion.
    steps = ctx.add("Minimum", ctx.add("Rint", steps), scalar(ctx, 2.0**mantissa, np.float32))
    code = ctx.add("SelectV2", tiny, cast(ctx, steps, np.int32), normal)
    code = _overflow(ctx, code, value, element)
    return _with_sign(ctx, code, bits, value, element)


def _overflow(ctx: Context, code: Value, value: Value, element: Element) -> Value:
    """Codes beyond the largest finite one become what the type has for that: infinity, NaN, or the largest."""
    largest = int(_code(ml_dtypes.finfo(element.numpy).max, element))
    beyond = int(_code(np.float32(np.inf), element)) & 0x7F if not _is_fnuz(element) else 0x80
    if element.stablehlo == "f4E2M1FN":
        beyond = largest
    return ctx.add("SelectV2", ctx.add("Greater", code, _int(ctx, largest)), _int(ctx, beyond), code)


def _with_sign(ctx: Context, code: Value, bits: Value, value: Value, element: Element) -> Value:
    width = 4 if element.stablehlo == "f4E2M1FN" else 8
    sign = ctx.add(
        "BitwiseAnd", ctx.add("RightShift", bits, _int(ctx, 32 - width)), _int(ctx, 1 << width - 1)
    )
    if _is_fnuz(element):  # no negative zero: that code is NaN
        sign = ctx.add("SelectV2", ctx.add("Equal", code, _int(ctx, 0)), _int(ctx, 0), sign)
    code = ctx.add("BitwiseOr", code, sign)
    if width == 8:
        nan = _code(np.float32(np.nan), element)
        code = ctx.add("SelectV2", ctx.add("Equal", value, value), code, _int(ctx, int(nan)))
    else:  # e2m1fn has no NaN; ml_dtypes, and so XLA, gives negative zero
        code = ctx.add("SelectV2", ctx.add("Equal", value, value), code, _int(ctx, 8))
    return cast(ctx, code, np.uint8)


def _encode_power(ctx: Context, value: Value) -> Value:
    """e8m0fnu: the nearest power of two, the larger of two as near; no sign, no zero. XLA takes NaN for those."""
    bits = bitcast(ctx, value, np.int32)
    code = ctx.add("Add", bits, _int(ctx, 1 << _MANTISSA - 1))
    code = ctx.add("RightShift", code, _int(ctx, _MANTISSA))
    # Between 2**-127 and 2**-126 float32's own exponent stands still.
    least = ctx.add("Less", bits, _int(ctx, 3 << _MANTISSA - 2))
    code = ctx.add("SelectV2", least, _int(ctx, 0), code)
    good = ctx.add("LogicalAnd", ctx.add("Greater", bits, _int(ctx, 0)), ctx.add("Equal", value, value))
    return cast(ctx, ctx.add("SelectV2", good, code, _int(ctx, 0xFF)), np.uint8)


def _code(value: Any, element: Element) -> np.uint8:
    return np.asarray(value).astype(element.numpy).view(np.uint8)[()]


def _is_fnuz(element: Element) -> bool:
    return element.stablehlo.endswith("FNUZ")


def _int(ctx: Context, number: int) -> Value:
    return scalar(ctx, number, np.int32)
