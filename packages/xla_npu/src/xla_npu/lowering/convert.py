"""stablehlo.convert: saturating from floats to integers (NaN is 0), wrapping between integers, rounding to nearest even."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import DType, bitcast, cast, is_float, scalar, zeros_like
from xla_npu.lowering.registry import lowers
from xla_npu.lowering.storage import decode, encode, number_dtype
from xla_npu.types import Element


@lowers("stablehlo.convert")
def convert(ctx: Context, op: Any, value: Value) -> Value:
    return converted(ctx, value, ctx.operand_type(op, 0).element, ctx.result_type(op).element)


def converted(ctx: Context, value: Value, source: Element, target: Element) -> Value:
    """The value of type `source` as `target`."""
    if source == target:
        return value
    if source.is_storage:
        value = decode(ctx, value, source)
    if target.is_storage:
        return encode(ctx, to_dtype(ctx, value, number_dtype(target)), target)
    return to_dtype(ctx, value, target.graph)


def to_dtype(ctx: Context, value: Value, dtype: Any) -> Value:
    """The value as a dtype that graphs compute with."""
    dtype = np.dtype(dtype)
    if value.dtype == dtype:
        return value
    if dtype.kind == "c":
        return _to_complex(ctx, value, dtype)
    if value.dtype.kind == "c":
        value = ctx.add("Real", value, Tout=_part(value.dtype))
    if dtype.kind == "b":
        return is_not_zero(ctx, value)
    if is_float(value.dtype) and not is_float(dtype):
        return _to_integer(ctx, value, dtype)
    return cast(ctx, value, dtype)


def is_not_zero(ctx: Context, value: Value) -> Value:
    """bool: whether elements differ from 0 (NaN does)."""
    if value.dtype.kind == "b":
        return value
    return ctx.add("NotEqual", value, scalar(ctx, 0, value.dtype))


def _part(dtype: DType) -> DType:
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)


def _to_complex(ctx: Context, value: Value, dtype: DType) -> Value:
    if value.dtype.kind == "c":
        return cast(ctx, value, dtype)
    real = to_dtype(ctx, value, _part(dtype))
    return ctx.add("Complex", real, zeros_like(ctx, real), Tout=dtype)


def _to_integer(ctx: Context, value: Value, dtype: DType) -> Value:
    if value.dtype.itemsize == 2:
        value = cast(ctx, value, np.float32)
    limits = np.iinfo(dtype)
    low, high = float(limits.min), float(limits.max + 1)
    if dtype.itemsize == 8 and dtype.kind == "u":
        return _to_uint64(ctx, value)
    if dtype.kind == "u" or dtype.itemsize < 4:  # through a type that holds all results and Cast knows well
        wide = np.dtype(np.int64 if dtype.itemsize == 4 else np.int32)
        return cast(ctx, _saturated(ctx, value, low, high, int(limits.max), wide), dtype)
    return _saturated(ctx, value, low, high, int(limits.max), dtype)


def _saturated(ctx: Context, value: Value, low: float, high: float, most: int, dtype: DType) -> Value:
    """`high` itself need not be in `dtype`: what reaches it becomes `most`."""
    limit = scalar(ctx, high, value.dtype)
    inside = ctx.add("Less", value, limit)  # false for NaN
    bounded = ctx.add("Maximum", value, scalar(ctx, low, value.dtype))
    number = cast(ctx, ctx.add("SelectV2", inside, bounded, scalar(ctx, 0, value.dtype)), dtype)
    return ctx.add("SelectV2", ctx.add("GreaterEqual", value, limit), scalar(ctx, most, dtype), number)


def _to_uint64(ctx: Context, value: Value) -> Value:
    half = scalar(ctx, 2.0**63, value.dtype)
    upper = ctx.add("GreaterEqual", value, half)
    reduced = ctx.add("SelectV2", upper, ctx.add("Sub", value, half), value)
    low = _saturated(ctx, reduced, 0.0, 2.0**63, (1 << 63) - 1, np.dtype(np.int64))
    top = ctx.add("BitwiseOr", low, scalar(ctx, 1 << 63, np.int64))
    # Beyond 2**64 the lower part is at its most, and so is the whole.
    return bitcast(ctx, ctx.add("SelectV2", upper, top, low), np.uint64)
