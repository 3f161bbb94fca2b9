"""scatter: the operand as rows, and one write or reduction at computed row numbers.

An update whose window does not fit into the operand is left out, all of it, as XLA does. Combiners with an operator of
CANN's use it, with duplicates too; any other runs on whole arrays where the indices are unique, else update by update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from npu_common.graph import Value
from xla_npu.errors import Unsupported
from xla_npu.lowering import arrays, indices
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import broadcast_to, scalar, sizes
from xla_npu.lowering.registry import lowers
from xla_npu.lowering.scatter_combiners import Reduction, neutral, reduction_of, returned_arguments
from xla_npu.lowering.scatter_each import one_by_one

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scatter:
    """StableHLO's ScatterDimensionNumbers, by their names there, and the shapes."""

    update_window_dims: Axes
    inserted: Axes
    batching: Axes
    indices_batching: Axes
    scatter_dims: Axes
    index_vector_dim: int
    shape: Axes
    updates: Axes

    @property
    def windowed(self) -> list[int]:
        """The operand's dimensions that the updates' window dimensions are of."""
        gone = (*self.inserted, *self.batching)
        return [dim for dim in range(len(self.shape)) if dim not in gone]

    @property
    def window(self) -> Axes:
        """The size of an update in each of the operand's dimensions."""
        size = dict(zip(self.windowed, (self.updates[dim] for dim in self.update_window_dims), strict=True))
        return tuple(size.get(dim, 1) for dim in range(len(self.shape)))

    @property
    def active(self) -> list[int]:
        """The dimensions that an update covers a part of."""
        return [dim for dim, size in enumerate(self.window) if size < self.shape[dim]]


@lowers("stablehlo.scatter")
def scatter(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    count = len(operands) // 2
    targets, starts, updates = operands[:count], operands[count], operands[count + 1 :]
    form = _form(op, targets[0], updates[0])
    block = op.regions[0].blocks[0]
    kept = returned_arguments(block)
    if 0 in sizes(updates[0]) or 0 in form.shape or kept == tuple(range(count)):
        return list(targets)
    rows = [_operand_rows(ctx, form, target) for target in targets]
    changes = [_update_rows(ctx, form, update) for update in updates]
    places, valid = _places(ctx, form, starts)
    if kept == tuple(range(count, 2 * count)):
        found = [_written(ctx, row, places, valid, new) for row, new in zip(rows, changes, strict=True)]
    elif count == 1 and (reduction := _reduction(ctx, op)) is not None:
        found = [_reduced(ctx, reduction, rows[0], places, valid, changes[0])]
    else:
        found = _combined(ctx, op, rows, places, valid, changes)
    return [_restored(ctx, form, value) for value in found]


def _form(op: Any, operand: Value, update: Value) -> Scatter:
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    return Scatter(
        tuple(numbers.update_window_dims),
        tuple(numbers.inserted_window_dims),
        tuple(numbers.input_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
        tuple(numbers.scattered_dims_to_operand_dims),
        numbers.index_vector_dim,
        sizes(operand),
        sizes(update),
    )


# Arrays as rows: [positions in the active dimensions, the rest].


def _operand_rows(ctx: Context, form: Scatter, value: Value) -> Value:
    order = indices.first_axes(len(form.shape), form.active)
    count = math.prod(form.shape[dim] for dim in form.active)
    return arrays.reshape(ctx, arrays.transpose(ctx, value, order), (count, math.prod(form.shape) // count))


def _restored(ctx: Context, form: Scatter, rows: Value) -> Value:
    order = indices.first_axes(len(form.shape), form.active)
    value = arrays.reshape(ctx, rows, [form.shape[dim] for dim in order])
    return arrays.transpose(ctx, value, [order.index(dim) for dim in range(len(order))])


def _update_rows(ctx: Context, form: Scatter, value: Value) -> Value:
    axis_of = dict(zip(form.windowed, form.update_window_dims, strict=True))
    batch = [axis for axis in range(len(form.updates)) if axis not in form.update_window_dims]
    part = [axis_of[dim] for dim in form.active if dim in axis_of]
    rest = [axis_of[dim] for dim in form.windowed if dim not in form.active]
    count = math.prod(form.updates[axis] for axis in (*batch, *part))
    value = arrays.transpose(ctx, value, [*batch, *part, *rest])
    return arrays.reshape(ctx, value, (count, math.prod(form.updates) // count))


def _places(ctx: Context, form: Scatter, starts: Value) -> tuple[Value, Value | None]:
    """The row [count] of each update's row, right where valid, and bool[count] or None: which are."""
    active, window = form.active, form.window
    strides = dict(zip(active, indices.row_major([form.shape[dim] for dim in active]), strict=True))
    rows = indices.index_rows(ctx, starts, form.index_vector_dim)
    batch = sizes(rows)[:-1]
    offsets = indices.along(
        batch,
        [
            (axis - (axis > form.index_vector_dim), strides[dim])
            for dim, axis in zip(form.batching, form.indices_batching, strict=True)
            if dim in active
        ],
    )
    windows = [dim for dim in active if dim in form.windowed]
    inside = indices.window([window[dim] for dim in windows], [strides[dim] for dim in windows])
    total = offsets.reshape((*offsets.shape, *(1,) * len(windows))) + inside
    full = (*batch, *inside.shape)
    count = math.prod(full)
    dims = form.scatter_dims
    if not dims:
        linear = broadcast_to(ctx, ctx.constant(total.astype(rows.dtype)), full)
        return arrays.reshape(ctx, linear, (count,)), None
    valid = _valid(ctx, rows, [form.shape[dim] - window[dim] for dim in dims])
    rows = indices.holding(ctx, rows, math.prod(form.shape))
    linear = indices.weighted_sum(ctx, rows, [strides.get(dim, 0) for dim in dims])
    linear = indices.plus(ctx, arrays.reshape(ctx, linear, (*batch, *(1,) * len(windows))), total)
    valid = broadcast_to(ctx, arrays.reshape(ctx, valid, (*batch, *(1,) * len(windows))), full)
    return arrays.reshape(ctx, linear, (count,)), arrays.reshape(ctx, valid, (count,))


def _valid(ctx: Context, rows: Value, room: Sequence[int]) -> Value:
    """bool[batch...]: whether every index is within 0..room."""
    bound = np.minimum(np.asarray(room, np.int64), np.iinfo(rows.dtype).max).astype(rows.dtype)
    inside = ctx.add(
        "LogicalAnd",
        ctx.add("GreaterEqual", rows, np.zeros((), rows.dtype)),
        ctx.add("LessEqual", rows, bound),
    )
    if len(room) == 1:
        return arrays.reshape(ctx, inside, sizes(rows)[:-1])
    return ctx.add("ReduceAll", inside, [-1], keep_dims=False)


# The ways to combine.


def _written(ctx: Context, rows: Value, places: Value, valid: Value | None, new: Value) -> Value:
    """Later updates of a row replace earlier ones."""
    count, width = sizes(rows)
    if (
        valid is not None and sizes(places)[0] == 1
    ):  # nothing else writes where it may write back what is there
        places = _inside(ctx, places, valid)
        new = ctx.add(
            "SelectV2", arrays.reshape(ctx, valid, (1, 1)), new, ctx.add("GatherV2", rows, places, 0)
        )
        valid = None
    if valid is not None:  # what is not valid goes to a row that is cut off again
        rows = arrays.pad(ctx, rows, (0, 0), (1, 0), (0, 0), scalar(ctx, 0, rows.dtype))
        places = ctx.add("SelectV2", valid, places, np.asarray(count, places.dtype))
    written = ctx.add("TensorScatterUpdate", rows, arrays.reshape(ctx, places, (*sizes(places), 1)), new)
    return arrays.slice_(ctx, written, [0, 0], [count, width])


def _inside(ctx: Context, places: Value, valid: Value) -> Value:
    """The places, row 0 where they are not valid."""
    return ctx.add("SelectV2", valid, places, np.zeros((), places.dtype))


def _reduced(
    ctx: Context, reduction: Reduction, rows: Value, places: Value, valid: Value | None, new: Value
) -> Value:
    target, new = reduction.carried(ctx, rows), reduction.carried(ctx, new)
    if valid is not None:
        places = _inside(ctx, places, valid)
        nothing = ctx.constant(neutral(reduction.name, target.dtype))
        new = ctx.add("SelectV2", arrays.reshape(ctx, valid, (*sizes(valid), 1)), new, nothing)
    column = arrays.reshape(ctx, places, (*sizes(places), 1))
    if reduction.name == "add" and target.dtype in (np.float32, np.float16, np.int32):
        return reduction.back(ctx, ctx.add("TensorScatterAdd", target, column, new))
    index = broadcast_to(ctx, column, sizes(new))
    return reduction.back(
        ctx, ctx.add("ScatterElements", target, index, new, axis=0, reduction=reduction.name)
    )


def _combined(
    ctx: Context, op: Any, rows: list[Value], places: Value, valid: Value | None, changes: list[Value]
) -> list[Value]:
    """Any combiner: on all updates at once where no two of them meet, else one after the other."""
    block = op.regions[0].blocks[0]
    if ctx.operand_type(op).element.is_storage:
        raise Unsupported(f"scatter computes with {ctx.operand_type(op).element.stablehlo}: convert it first")
    if not _unique(op) and sizes(places)[0] > 1:
        return one_by_one(ctx, op, rows, places, valid, changes)
    inside = places if valid is None else _inside(ctx, places, valid)
    current = [ctx.add("GatherV2", row, inside, 0) for row in rows]
    combined = ctx.lower_block(block, [*current, *changes])
    return [
        _written(ctx, row, places, valid, broadcast_to(ctx, value, sizes(new)))
        for row, value, new in zip(rows, combined, changes, strict=True)
        if value is not None
    ]


def _unique(op: Any) -> bool:
    return "unique_indices" in op.attributes and bool(op.attributes["unique_indices"].value)


def _reduction(ctx: Context, op: Any) -> Reduction | None:
    type_ = ctx.operand_type(op)
    return None if type_.element.is_storage else reduction_of(op.regions[0].blocks[0], type_.dtype)
