"""gather: every form of it is one GatherV2 of rows, by linear indices where more than one dimension counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from npu_common.graph import Value
from xla_npu.lowering import arrays, indices
from xla_npu.lowering.context import Context, integers
from xla_npu.lowering.helpers import broadcast_to, sizes
from xla_npu.lowering.movement import broadcast_along, known
from xla_npu.lowering.registry import lowers
from xla_npu.types import TensorType

Axes = tuple[int, ...]
# A dimension of an intermediate array: ("operand", its dimension) or ("batch", its place among the batch's).
Label = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Gather:
    """StableHLO's GatherDimensionNumbers, by their names there, and the shapes."""

    offset_dims: Axes
    collapsed: Axes
    batching: Axes
    starts_batching: Axes
    start_index_map: Axes
    index_vector_dim: int
    slice_sizes: Axes
    shape: Axes

    @property
    def windowed(self) -> list[int]:
        """The operand's dimensions that the result's offset dimensions are of."""
        gone = (*self.collapsed, *self.batching)
        return [dim for dim in range(len(self.shape)) if dim not in gone]

    @property
    def active(self) -> list[int]:
        """The dimensions in which the place of a slice differs between indices."""
        return [
            dim
            for dim, size in enumerate(self.shape)
            if dim in (*self.start_index_map, *self.batching) and self.slice_sizes[dim] < size
        ]


@lowers("stablehlo.gather")
def gather(ctx: Context, op: Any, operand: Value, starts: Value) -> Value:
    return _lower(ctx, op, operand, starts, integers(op.attributes["slice_sizes"]))


@lowers("stablehlo.dynamic_gather")
def dynamic_gather(ctx: Context, op: Any, operand: Value, starts: Value, slice_sizes: Value) -> Value:
    return _lower(ctx, op, operand, starts, known(op, slice_sizes))


def _lower(ctx: Context, op: Any, operand: Value, starts: Value, slice_sizes: Axes) -> Value:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    form = Gather(
        tuple(numbers.offset_dims),
        tuple(numbers.collapsed_slice_dims),
        tuple(numbers.operand_batching_dims),
        tuple(numbers.start_indices_batching_dims),
        tuple(numbers.start_index_map),
        numbers.index_vector_dim,
        slice_sizes,
        sizes(operand),
    )
    result = ctx.result_type(op)
    if result.size == 0:
        return ctx.constant(np.zeros(result.shape, result.dtype))
    # A dimension without an index starts at 0.
    free = [dim not in (*form.start_index_map, *form.batching) for dim in range(len(form.shape))]
    end = [s if f else n for s, f, n in zip(slice_sizes, free, form.shape, strict=True)]
    operand = arrays.slice_(ctx, operand, [0] * len(end), end)
    if not form.active:
        return _everywhere(ctx, form, operand, result)
    return _rows(ctx, form, operand, starts, result)


def _targets(form: Gather, rank: int) -> list[Label]:
    """What each dimension of the result is."""
    offsets, batches = iter(form.windowed), iter(range(rank))
    return [
        ("operand", next(offsets)) if dim in form.offset_dims else ("batch", next(batches))
        for dim in range(rank)
    ]


def _everywhere(ctx: Context, form: Gather, operand: Value, result: TensorType) -> Value:
    """Every index takes the same slice, which is all of the operand."""
    kept = [form.slice_sizes[dim] for dim in form.windowed]
    return broadcast_along(ctx, arrays.reshape(ctx, operand, kept), form.offset_dims, result.shape)


def _rows(ctx: Context, form: Gather, operand: Value, starts: Value, result: TensorType) -> Value:
    active = form.active
    shape, rank = sizes(operand), len(form.shape)
    first = active[0]
    if active != list(range(first, first + len(active))):
        first = 0
        operand = arrays.transpose(ctx, operand, indices.first_axes(rank, active))
    others = [dim for dim in range(rank) if dim not in active]
    count = math.prod(shape[dim] for dim in active)
    flat = (*(shape[dim] for dim in others[:first]), count, *(shape[dim] for dim in others[first:]))
    windows = [dim for dim in active if form.slice_sizes[dim] > 1]
    places, batch_rank = _places(ctx, form, starts, windows)
    found = ctx.add("GatherV2", arrays.reshape(ctx, operand, flat), places, first)
    labels: list[Label] = [
        *(("operand", dim) for dim in others[:first]),
        *(("batch", place) for place in range(batch_rank)),
        *(("operand", dim) for dim in (*windows, *others[first:])),
    ]
    return _arranged(ctx, found, labels, _targets(form, result.rank), result.shape)


def _places(ctx: Context, form: Gather, starts: Value, windows: Sequence[int]) -> tuple[Value, int]:
    """The linear indices [batch..., window...] into the active dimensions, and the batch's rank."""
    active = form.active
    strides = dict(zip(active, indices.row_major([form.shape[dim] for dim in active]), strict=True))
    rows = indices.index_rows(ctx, starts, form.index_vector_dim)
    batch = sizes(rows)[:-1]
    chosen = [place for place, dim in enumerate(form.start_index_map) if dim in active]
    dims = [form.start_index_map[place] for place in chosen]
    rows = indices.holding(ctx, rows, math.prod(form.shape[dim] for dim in active))
    offsets = indices.along(
        batch,
        [
            (axis - (axis > form.index_vector_dim), strides[dim])
            for dim, axis in zip(form.batching, form.starts_batching, strict=True)
            if dim in active
        ],
    )
    inside = indices.window([form.slice_sizes[dim] for dim in windows], [strides[dim] for dim in windows])
    total = offsets.reshape((*offsets.shape, *(1,) * len(windows))) + inside
    full = (*batch, *inside.shape)
    if not dims:
        return broadcast_to(ctx, ctx.constant(total.astype(rows.dtype)), full), len(batch)
    rows = indices.clamp(
        ctx, indices.columns(ctx, rows, chosen), [form.shape[dim] - form.slice_sizes[dim] for dim in dims]
    )
    linear = indices.weighted_sum(ctx, rows, [strides[dim] for dim in dims])
    linear = arrays.reshape(ctx, linear, (*batch, *(1,) * len(windows)))
    return indices.plus(ctx, linear, total), len(batch)


def _arranged(
    ctx: Context, value: Value, labels: Sequence[Label], targets: Sequence[Label], shape: Axes
) -> Value:
    """The dimensions in the targets' order. What is on one side only has size 1."""
    wanted = [labels.index(label) for label in targets if label in labels]
    gone = [axis for axis in range(len(labels)) if axis not in wanted]
    return arrays.reshape(ctx, arrays.transpose(ctx, value, [*wanted, *gone]), shape)
