"""Windows of an array whose place is computed: dynamic_slice and dynamic_update_slice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering import arrays, indices
from xla_npu.lowering.context import Context, integers
from xla_npu.lowering.helpers import sizes
from xla_npu.lowering.movement import moved
from xla_npu.lowering.registry import lowers


@lowers("stablehlo.dynamic_slice")
def dynamic_slice(ctx: Context, op: Any, operand: Value, *starts: Value) -> Value:
    size = integers(op.attributes["slice_sizes"])
    shape = sizes(operand)
    free = [axis for axis, (n, s) in enumerate(zip(shape, size, strict=True)) if s < n]
    if not free or 0 in size:
        return arrays.slice_(ctx, operand, [0] * len(size), size)
    if all(starts[axis].constant is not None for axis in free):
        begin = [0] * len(size)
        for axis in free:
            begin[axis] = min(max(int(starts[axis].constant or 0), 0), shape[axis] - size[axis])
        return arrays.slice_(ctx, operand, begin, [b + s for b, s in zip(begin, size, strict=True)])
    if len(free) == 1 and size[free[0]] == 1:
        axis = free[0]
        start = clamped(ctx, starts[axis], shape[axis] - 1)
        return ctx.add("GatherV2", operand, arrays.reshape(ctx, start, (1,)), axis)
    offsets = _offsets(ctx, starts, shape, size)
    return moved(ctx, "Slice", operand, lambda x: ctx.add("Slice", x, offsets, list(size)))


def clamped(ctx: Context, start: Value, largest: int) -> Value:
    """A start index held to 0..largest, as int32 or int64."""
    return indices.clamp(ctx, indices.as_indices(ctx, start), largest)


def _offsets(ctx: Context, starts: tuple[Value, ...], shape: tuple[int, ...], size: tuple[int, ...]) -> Value:
    """The start indices as one vector, clamped so that the window fits."""
    room = [n - s for n, s in zip(shape, size, strict=True)]
    zero: Any = np.zeros((), starts[0].dtype)
    free = [ctx.constant(zero) if most == 0 else start for start, most in zip(starts, room, strict=True)]
    joined = (
        ctx.add("Pack", free, axis=0, N=len(free)) if len(free) > 1 else arrays.reshape(ctx, free[0], (1,))
    )
    return indices.clamp(ctx, indices.as_indices(ctx, joined), room)


@lowers("stablehlo.dynamic_update_slice")
def dynamic_update_slice(ctx: Context, op: Any, operand: Value, update: Value, *starts: Value) -> Value:
    shape, size = sizes(operand), sizes(update)
    if shape == size:
        return update
    if 0 in size:
        return operand
    free = [axis for axis, (n, s) in enumerate(zip(shape, size, strict=True)) if s < n]
    count = free[-1] + 1  # dimensions that a row index covers; the rest of each row is written whole
    strides = indices.row_major(shape[:count])
    rows = math.prod(shape[:count])
    if len(free) == 1:
        axis = free[0]
        start = indices.holding(ctx, clamped(ctx, starts[axis], shape[axis] - size[axis]), rows)
        start = indices.weighted_sum(ctx, arrays.reshape(ctx, start, (1,)), [strides[axis]])
    else:
        offsets = indices.holding(ctx, _offsets(ctx, starts, shape, size), rows)
        scale = [strides[axis] if axis in free else 0 for axis in range(count)] + [0] * (len(shape) - count)
        start = indices.weighted_sum(ctx, offsets, scale)
    inside = indices.window(size[:count], strides).reshape(-1, 1)
    places = indices.plus(ctx, arrays.reshape(ctx, start, (1, 1)), inside)
    return arrays.reshape(
        ctx,
        ctx.add(
            "TensorScatterUpdate",
            arrays.reshape(ctx, operand, (rows, *shape[count:])),
            places,
            arrays.reshape(ctx, update, (math.prod(size[:count]), *shape[count:])),
        ),
        shape,
    )
