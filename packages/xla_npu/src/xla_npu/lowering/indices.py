"""Indices of every integer type as the int32 or int64 that CANN's operators take, and linear indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.arrays import reshape, slice_axis, transpose
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import bitcast, cast, sizes

Offsets = np.ndarray[Any, np.dtype[np.int64]]
_INT32 = np.iinfo(np.int32)


def as_indices(ctx: Context, value: Value) -> Value:
    """Integers of any type as int32 or int64. Of uint64, what int64 does not hold becomes its largest: beyond every
    array as well.
    """
    if value.dtype in (np.dtype(np.int32), np.dtype(np.int64)):
        return value
    if value.dtype == np.uint64:
        signed = bitcast(ctx, value, np.int64)
        return ctx.add("SelectV2", ctx.add("Less", signed, 0), np.array(np.iinfo(np.int64).max), signed)
    return cast(ctx, value, np.int64 if value.dtype == np.uint32 else np.int32)


def clamp(ctx: Context, value: Value, largest: int | Sequence[int]) -> Value:
    """Indices held to 0..largest, elementwise along the last dimension where that is a list."""
    bound = np.asarray(largest, np.int64)
    if value.dtype == np.int32:
        bound = np.minimum(bound, _INT32.max).astype(np.int32)
    if bound.ndim and (bound == bound[0]).all():
        bound = bound[0]
    return ctx.add("Maximum", ctx.add("Minimum", value, bound), np.zeros((), value.dtype))


def holding(ctx: Context, value: Value, count: int) -> Value:
    """The indices in a type that numbers `count` elements."""
    return cast(ctx, value, np.int64) if count > _INT32.max and value.dtype == np.int32 else value


def row_major(shape: Sequence[int]) -> list[int]:
    """The strides of an array in elements."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def window(shape: Sequence[int], strides: Sequence[int]) -> Offsets:
    """int64[*shape]: how far from its first each element of a window is in an array of these strides."""
    total: Any = np.zeros(tuple(shape), np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        total += (np.arange(size) * stride).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return total


def weighted_sum(ctx: Context, rows: Value, strides: Sequence[int]) -> Value:
    """The linear index of each row of indices: [..., k] and k strides to [...]."""
    if len(strides) == 1:
        flat = reshape(ctx, rows, sizes(rows)[:-1])
        return flat if strides[0] == 1 else ctx.add("Mul", flat, np.asarray(strides[0], rows.dtype))
    scaled = ctx.add("Mul", rows, np.asarray(strides, rows.dtype))
    return ctx.add("ReduceSum", scaled, [-1], keep_dims=False)


def plus(ctx: Context, value: Value, offsets: Offsets) -> Value:
    """The indices plus constants."""
    return value if not offsets.any() else ctx.add("Add", value, offsets.astype(value.dtype))


def first_axes(rank: int, axes: Sequence[int]) -> list[int]:
    """A permutation that brings these axes to the front and keeps the others' order."""
    return [*axes, *(axis for axis in range(rank) if axis not in axes)]


def index_rows(ctx: Context, starts: Value, index_vector_dim: int) -> Value:
    """Start indices of gather and scatter as int32 or int64 [batch..., k]: an index for each of k dimensions."""
    shape = sizes(starts)
    starts = as_indices(ctx, starts)
    if index_vector_dim == len(shape):
        return reshape(ctx, starts, (*shape, 1))
    order = [axis for axis in range(len(shape)) if axis != index_vector_dim]
    return transpose(ctx, starts, [*order, index_vector_dim])


def columns(ctx: Context, rows: Value, chosen: Sequence[int]) -> Value:
    """Some of the last dimension's elements."""
    if list(chosen) == list(range(sizes(rows)[-1])):
        return rows
    if len(chosen) == 1:
        return slice_axis(ctx, rows, len(sizes(rows)) - 1, chosen[0], chosen[0] + 1)
    return ctx.add("GatherV2", rows, np.asarray(chosen, np.int64), -1)


def along(batch: Sequence[int], parts: Sequence[tuple[int, int]]) -> Offsets:
    """int64 of the batch's rank: at each place the sum of its position along some axes times a stride.

    Args:
        parts: (axis of the batch, stride).
    """
    total: Any = np.zeros((1,) * len(batch), np.int64)
    for axis, stride in parts:
        shape = [-1 if i == axis else 1 for i in range(len(batch))]
        total = total + (np.arange(batch[axis]) * stride).reshape(shape)
    return total
