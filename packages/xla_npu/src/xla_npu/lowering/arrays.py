"""Movements of arrays that products, convolutions and windows are made of; each adds no node where none is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import sizes


def integers(values: Sequence[int]) -> np.ndarray[Any, Any]:
    """A list of sizes or axes as operators take it, also where it is empty."""
    return np.array(values, np.int64)


def reshape(ctx: Context, value: Value, shape: Sequence[int]) -> Value:
    return value if sizes(value) == tuple(shape) else ctx.add("Reshape", value, integers(shape))


def transpose(ctx: Context, value: Value, perm: Sequence[int]) -> Value:
    """The result's dimension i is the value's perm[i]. Where only dimensions of size 1 move, it is a Reshape."""
    shape = sizes(value)
    moving = [axis for axis in perm if shape[axis] != 1]
    if moving == sorted(moving):
        return reshape(ctx, value, [shape[axis] for axis in perm])
    return ctx.add("Transpose", value, list(perm))


def slice_(
    ctx: Context, value: Value, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None
) -> Value:
    """What NumPy's value[begin:end:strides] is, for 0 <= begin <= end <= size."""
    shape = sizes(value)
    steps = list(strides or [1] * len(shape))
    if all(b == 0 and e >= n and s == 1 for b, e, s, n in zip(begin, end, steps, shape, strict=True)):
        return value
    if value.dtype != np.bool_ and all(step == 1 for step in steps):  # which CANN's Slice does not take
        return ctx.add("Slice", value, list(begin), [e - b for b, e in zip(begin, end, strict=True)])
    return ctx.add("StridedSlice", value, list(begin), list(end), steps)


def slice_axis(ctx: Context, value: Value, axis: int, begin: int, end: int, stride: int = 1) -> Value:
    """`slice_` of one dimension."""
    shape = sizes(value)
    first = [begin if i == axis else 0 for i in range(len(shape))]
    last = [end if i == axis else n for i, n in enumerate(shape)]
    return slice_(ctx, value, first, last, [stride if i == axis else 1 for i in range(len(shape))])


def concat(ctx: Context, values: Sequence[Value], axis: int) -> Value:
    parts = [value for value in values if sizes(value)[axis] > 0] or list(values[:1])
    return parts[0] if len(parts) == 1 else ctx.add("ConcatV2", parts, axis, N=len(parts))


def pad(
    ctx: Context,
    value: Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
    fill: Value,
) -> Value:
    """StableHLO's `pad`: `interior` fills between elements, then `low` and `high` at the edges; negative ones cut.

    Args:
        fill: one element of the value's dtype.
    """
    for axis, gap in enumerate(interior):
        if gap > 0 and sizes(value)[axis] > 1:
            value = _dilated(ctx, value, axis, gap + 1, fill)
    cut_low, cut_high = [max(-edge, 0) for edge in low], [max(-edge, 0) for edge in high]
    add_low, add_high = [max(edge, 0) for edge in low], [max(edge, 0) for edge in high]
    shape = sizes(value)
    through = any(sum(cuts) > size for *cuts, size in zip(cut_low, cut_high, shape, strict=True))
    if through:  # an edge cuts into what the other one adds
        value = _grown(ctx, value, add_low, add_high, fill)
        shape = sizes(value)
    begin, end = cut_low, [size - cut for size, cut in zip(shape, cut_high, strict=True)]
    value = slice_(ctx, value, begin, [max(pair) for pair in zip(begin, end, strict=True)])
    return value if through else _grown(ctx, value, add_low, add_high, fill)


def _grown(ctx: Context, value: Value, low: Sequence[int], high: Sequence[int], fill: Value) -> Value:
    if not any(low) and not any(high):
        return value
    pairs = [size for pair in zip(low, high, strict=True) for size in pair]
    return ctx.add("PadV3", value, pairs, reshape(ctx, fill, ()), mode="constant")


def _dilated(ctx: Context, value: Value, axis: int, step: int, fill: Value) -> Value:
    shape = sizes(value)
    apart = reshape(ctx, value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    after = [step - 1 if i == axis + 1 else 0 for i in range(len(shape) + 1)]
    wide = _grown(ctx, apart, [0] * len(after), after, fill)
    size = shape[axis] * step
    joined = reshape(ctx, wide, (*shape[:axis], size, *shape[axis + 1 :]))
    return slice_axis(ctx, joined, axis, 0, size - (step - 1))
