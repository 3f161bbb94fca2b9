"""select_and_scatter: the gradient of pooling by a choice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.errors import Unsupported
from xla_npu.lowering.arrays import pad, slice_
from xla_npu.lowering.combiners import is_identity, kinds
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import broadcast_to, full, scalar
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.lowering.registry import lowers
from xla_npu.lowering.windows import Geometry

# A node or more for each element of a window.
_LARGEST_WINDOW = 512


@lowers("stablehlo.select_and_scatter")
def select_and_scatter(ctx: Context, op: Any, operand: Value, source: Value, init: Value) -> Value:
    """Per window the first element that no later one wins over is chosen; the source goes there."""
    select, scatter = (region.blocks[0] for region in op.regions)
    geometry, sizes, counts = Geometry.of(op), shape_of(operand), shape_of(source)
    if math.prod(counts) == 0 or math.prod(sizes) == 0:
        return broadcast_to(ctx, init, sizes)
    if math.prod(geometry.sizes) > _LARGEST_WINDOW:
        raise Unsupported(
            f"select_and_scatter over a window of {math.prod(geometry.sizes)} elements is not supported on npu: "
            f"it takes up to {_LARGEST_WINDOW}"
        )
    windows = _Windows(geometry, sizes, counts)
    chosen = _choose(ctx, select, windows, windows.padded(ctx, operand))
    if kinds(scatter) == ["add"] and operand.dtype.kind != "b":
        result = _added(ctx, scatter, windows, chosen, source, init)
    else:
        result = _scattered(ctx, scatter, windows, chosen, source, init)
    return windows.cut(ctx, result, init)


class _Windows:
    """Where the elements of the windows are in the padded operand."""

    def __init__(self, geometry: Geometry, sizes: Sequence[int], counts: Sequence[int]) -> None:
        self.geometry, self.sizes, self.counts = geometry, sizes, counts
        reach = [
            (count - 1) * stride + size
            for count, stride, size in zip(counts, geometry.strides, geometry.sizes, strict=True)
        ]
        # What the windows touch, and at least the operand itself.
        self.whole = [
            max(last, size + low) for last, size, low in zip(reach, sizes, geometry.low, strict=True)
        ]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(range(size) for size in self.geometry.sizes))

    def padded(self, ctx: Context, operand: Value) -> Value:
        """The fill is never chosen."""
        high = [w - s - low for w, s, low in zip(self.whole, self.sizes, self.geometry.low, strict=True)]
        fill = scalar(ctx, 0, operand.dtype)
        return pad(ctx, operand, self.geometry.low, high, [0] * len(high), fill)

    def cut(self, ctx: Context, padded: Value, init: Value) -> Value:
        """The operand's own places; `init` where no window was."""
        low = self.geometry.low
        high = [size + first - whole for first, size, whole in zip(low, self.sizes, self.whole, strict=True)]
        return pad(ctx, padded, [-first for first in low], high, [0] * len(low), init)

    def elements(self, ctx: Context, padded: Value, offset: Sequence[int]) -> Value:
        """The element at that offset of every window."""
        strides = self.geometry.strides
        end = [o + (c - 1) * s + 1 for o, c, s in zip(offset, self.counts, strides, strict=True)]
        return slice_(ctx, padded, offset, end, strides)

    def inside(self, offset: Sequence[int]) -> np.ndarray[Any, Any] | None:
        """Which windows have an element of the operand at that offset; None: all."""
        rank = len(offset)
        flags = []
        for axis, place in enumerate(offset):
            index: np.ndarray[Any, Any] = (
                np.arange(self.counts[axis]) * self.geometry.strides[axis] + place - self.geometry.low[axis]
            )
            flag = (index >= 0) & (index < self.sizes[axis])
            flags.append(flag.reshape([-1 if i == axis else 1 for i in range(rank)]))
        if all(flag.all() for flag in flags):
            return None
        return reduce(np.logical_and, flags)

    def placed(self, ctx: Context, values: Value, offset: Sequence[int], fill: Value) -> Value:
        """An element per window, put at that offset of it."""
        strides = self.geometry.strides
        high = [
            w - o - ((c - 1) * s + 1)
            for w, o, c, s in zip(self.whole, offset, self.counts, strides, strict=True)
        ]
        return pad(ctx, values, offset, high, [s - 1 for s in strides], fill)


def _choose(ctx: Context, block: Any, windows: _Windows, padded: Value) -> Value:
    """Which offset of each window is chosen, by its number."""
    best: Value | None = None
    choice: Value | None = None
    covered: np.ndarray[Any, Any] | None = None  # the windows that have a choice; None: all
    for number, offset in enumerate(windows.offsets()):
        here, inside = windows.elements(ctx, padded, offset), windows.inside(offset)
        index = scalar(ctx, number, np.int32)
        if best is None or choice is None:
            best, choice, covered = here, full(ctx, windows.counts, number, np.int32), inside
            continue
        keeps = ctx.lower_block(block, [best, here])[0]
        assert keeps is not None
        if covered is not None:
            keeps = ctx.add("LogicalAnd", keeps, ctx.constant(covered))
            covered = None if inside is None else covered | inside
        if inside is not None:
            keeps = ctx.add("LogicalOr", keeps, ctx.constant(~inside))
        best = ctx.add("SelectV2", keeps, best, here)
        choice = ctx.add("SelectV2", keeps, choice, index)
    assert choice is not None
    return choice


def _added(ctx: Context, block: Any, windows: _Windows, chosen: Value, source: Value, init: Value) -> Value:
    zero = scalar(ctx, 0, source.dtype)
    parts = []
    for number, offset in enumerate(windows.offsets()):
        here = ctx.add("SelectV2", _is(ctx, chosen, number), source, zero)
        parts.append(windows.placed(ctx, here, offset, zero))
    while len(parts) > 1:
        pairs = [_sum(ctx, block, parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) & ~1 :]
    return parts[0] if is_identity("add", init) else _sum(ctx, block, init, parts[0])


def _scattered(
    ctx: Context, block: Any, windows: _Windows, chosen: Value, source: Value, init: Value
) -> Value:
    result = broadcast_to(ctx, init, windows.whole)
    zero, false = scalar(ctx, 0, source.dtype), scalar(ctx, False, np.bool_)
    for number, offset in enumerate(windows.offsets()):
        there = windows.placed(ctx, _is(ctx, chosen, number), offset, false)
        value = windows.placed(ctx, source, offset, zero)
        result = ctx.add("SelectV2", there, _sum(ctx, block, result, value), result)
    return result


def _is(ctx: Context, chosen: Value, number: int) -> Value:
    return ctx.add("Equal", chosen, scalar(ctx, number, np.int32))


def _sum(ctx: Context, block: Any, left: Value, right: Value) -> Value:
    result = ctx.lower_block(block, [left, right])[0]
    assert result is not None
    return result
