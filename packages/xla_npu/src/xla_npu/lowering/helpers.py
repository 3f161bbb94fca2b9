"""What several families need: constants, and other views of a value. Elementwise operators of GE broadcast by
themselves, so a scalar stays a scalar wherever one of them reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context

DType = np.dtype[Any]


def scalar(ctx: Context, number: Any, dtype: Any) -> Value:
    """A constant of no dimensions; integers beyond the dtype wrap."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu" and isinstance(number, int):
        number = np.array(number & ((1 << 8 * dtype.itemsize) - 1), f"u{dtype.itemsize}").view(dtype)
    return ctx.constant(np.asarray(number, dtype))


def cast(ctx: Context, value: Value, dtype: Any) -> Value:
    """The value as another dtype, by GE's Cast: for values that both dtypes hold, or known rounding."""
    dtype = np.dtype(dtype)
    if value.dtype == dtype:
        return value
    return ctx.add("Cast", value, dst_type=dtype)


def bitcast(ctx: Context, value: Value, dtype: Any) -> Value:
    """The bits of the value as a dtype of the same size. Two in a row are one, or none."""
    dtype = np.dtype(dtype)
    if value.node.type == "Bitcast" and value.node.inputs[0] is not None:
        source = value.node.inputs[0]
        if source.dtype.itemsize == dtype.itemsize and source.shape == value.shape:
            value = source
    if value.dtype == dtype:
        return value
    if value.constant is not None:
        return ctx.constant(value.constant.view(dtype))
    return ctx.add("Bitcast", value, attributes={"type": dtype})


def full(ctx: Context, shape: Sequence[int], number: Any, dtype: Any) -> Value:
    """An array of one number."""
    return broadcast_to(ctx, scalar(ctx, number, dtype), shape)


def zeros_like(ctx: Context, value: Value) -> Value:
    """Zeros of the value's type."""
    return full(ctx, sizes(value), 0, value.dtype)


def broadcast_to(ctx: Context, value: Value, shape: Sequence[int]) -> Value:
    """The value repeated to a shape, by NumPy's rules."""
    shape = tuple(int(size) for size in shape)
    if value.shape == shape:
        return value
    return ctx.add("BroadcastTo", value, np.array(shape, np.int64))


def sizes(value: Value) -> tuple[int, ...]:
    """The shape, all of which is known in JAX's programs."""
    return tuple(int(size) for size in value.shape or () if size is not None)


def signed(dtype: DType) -> DType:
    """The signed integer of the dtype's size."""
    return np.dtype(f"i{np.dtype(dtype).itemsize}")


def unsigned(dtype: DType) -> DType:
    """The unsigned integer of the dtype's size."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def is_float(dtype: DType) -> bool:
    """Whether graphs compute with it as a real floating-point number."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


_REPEATING = ("BroadcastTo", "Reshape", "Unsqueeze", "ExpandDims", "Squeeze", "Bitcast", "Fill")


def uniform(value: Value) -> Any:
    """The number (of the value's dtype) that every element is, None where that is not known."""
    dtype = value.dtype
    while value.node.type in _REPEATING and value.node.inputs:
        source = value.node.inputs[1 if value.node.type == "Fill" else 0]
        if source is None or source.dtype.itemsize != dtype.itemsize:
            return None
        value = source
    array = value.constant
    if array is None or array.size == 0:
        return None
    raw = array.reshape(-1).view(f"u{dtype.itemsize}") if dtype.itemsize <= 8 else array.reshape(-1)
    return raw[:1].view(dtype)[0] if bool((raw == raw[0]).all()) else None
