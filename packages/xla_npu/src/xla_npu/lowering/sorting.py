"""sort: the order of the keys that a comparator is made of, by stable sorts from the least to the most important."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.errors import Unsupported
from xla_npu.lowering import arrays
from xla_npu.lowering.comparators import Key, canonical_of, inputs_of, keys_of
from xla_npu.lowering.compare import parts, total
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import bitcast, broadcast_to, cast, is_float, sizes
from xla_npu.lowering.integers import ordered
from xla_npu.lowering.registry import lowers

_SORTED_FLOATS = ("float16", "bfloat16", "float32")
_LARGEST_TABLE = 1 << 27  # comparisons of all with all


@lowers("stablehlo.sort")
def sort(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    axis = int(op.attributes["dimension"].value) % len(sizes(operands[0]))
    if sizes(operands[0])[axis] <= 1 or 0 in sizes(operands[0]):
        return list(operands)
    block = op.regions[0].blocks[0]
    keys = keys_of(block)
    wide = any(_is_iota(value, axis) and "i64" in str(value.type) for value in op.operands)
    if keys is None:
        order = _order_by_table(ctx, block, operands, axis)
        known: dict[Any, Any] = {}
    else:
        order, known = _order_by_keys(ctx, block, keys, operands, axis, wide)
    return [
        known.get(index)
        or (cast(ctx, order, value.dtype) if _is_iota(given, axis) else take_along(ctx, value, order, axis))
        for index, (value, given) in enumerate(zip(operands, op.operands, strict=True))
    ]


def _is_iota(value: Any, axis: int) -> bool:
    """Whether the MLIR value counts along the axis: then it comes out as the order itself."""
    owner = value.owner
    return (
        getattr(owner, "name", "") == "stablehlo.iota"
        and int(owner.attributes["iota_dimension"].value) == axis
        and str(value.type.element_type) in ("i32", "i64", "ui32", "i16", "i8", "ui8", "ui16", "ui64")
    )


def take_along(ctx: Context, value: Value, places: Value, axis: int) -> Value:
    """numpy.take_along_axis."""
    if value.dtype == np.complex64:
        return bitcast(ctx, take_along(ctx, bitcast(ctx, value, np.int64), places, axis), value.dtype)
    if value.dtype.kind == "c":
        real, imaginary = (take_along(ctx, part, places, axis) for part in parts(ctx, value))
        return ctx.add("Complex", real, imaginary, Tout=value.dtype)
    return ctx.add("GatherElements", value, places, dim=axis)


def sortable(ctx: Context, value: Value, is_total: bool) -> Value:
    """Signed integers, or floats as Sort takes them, in the order of the values."""
    if value.dtype.kind == "b":
        return bitcast(ctx, value, np.uint8)
    if not is_float(value.dtype):
        return ordered(ctx, value)
    # Adding a positive zero makes one of both zeros, which only a total order tells apart.
    return total(ctx, value if is_total else ctx.add("Add", value, np.zeros((), value.dtype)))


@dataclass(frozen=True, slots=True)
class _Part:
    """Operations of a block as a block of their own."""

    arguments: Sequence[Any]
    operations: Sequence[Any]


def _evaluated(ctx: Context, block: Any, value: Any, operands: Sequence[Value]) -> Value:
    """What an MLIR value of the comparator is for all left elements at once."""
    left = list(block.arguments)[0::2]
    needed = inputs_of(value)
    ctx.lower_block(_Part(left, [op for op in block.operations if op.operation in needed]), operands)
    found = ctx.values[value]
    assert found is not None
    return broadcast_to(ctx, found, sizes(operands[0]))


def _order_by_keys(
    ctx: Context, block: Any, keys: Sequence[Key], operands: Sequence[Value], axis: int, wide: bool
) -> tuple[Value, dict[int, Value]]:
    """The order along the axis, and by number the operands that come sorted with it."""
    left = list(block.arguments)[0::2]
    order: Value | None = None
    known: dict[int, Value] = {}
    for key in reversed(keys):
        source = canonical_of(key.value) if key.total_order else None
        value = _evaluated(ctx, block, key.value if source is None else source, operands)
        if source is None or value.dtype.name not in _SORTED_FLOATS:
            if source is not None:
                value = _evaluated(ctx, block, key.value, operands)
            plain = value
            value = sortable(ctx, value, key.total_order)
            source = key.value if value is plain else None
        if order is not None:
            value = take_along(ctx, value, order, axis)
        values, places = ctx.add_many(
            "Sort",
            value,
            axis=axis,
            descending=key.descending,
            stable=True,
            y2_dtype=np.int64 if wide else np.int32,
        )
        order = places if order is None else take_along(ctx, order, places, axis)
        known = {left.index(source): values} if source is not None and source in left else {}
    assert order is not None
    return order, known


def _order_by_table(ctx: Context, block: Any, operands: Sequence[Value], axis: int) -> Value:
    """The order by any comparator: how many elements come before each, all compared with all."""
    shape = sizes(operands[0])
    count = shape[axis]
    if math.prod(shape) * count > _LARGEST_TABLE:
        raise Unsupported(
            f"a sort of {count} elements by a comparator that is no order by keys is not supported on npu: sort by keys"
        )
    last = [*(dim for dim in range(len(shape)) if dim != axis), axis]
    rows = [arrays.transpose(ctx, value, last) for value in operands]
    outer = sizes(rows[0])[:-1]
    pairs = [arrays.reshape(ctx, row, (*outer, *part)) for row in rows for part in ((count, 1), (1, count))]
    (less,) = ctx.lower_block(block, pairs)
    assert less is not None
    less = broadcast_to(ctx, less, (*outer, count, count))  # [i, j]: i comes before j
    swapped = arrays.transpose(ctx, less, [*range(len(outer)), len(outer) + 1, len(outer)])
    earlier: Any = np.tri(count, k=-1, dtype=np.bool_)
    tied = ctx.add("LogicalAnd", ctx.add("LogicalNot", less), earlier)
    before = cast(ctx, ctx.add("LogicalOr", swapped, tied), np.int32)
    rank = ctx.add("ReduceSum", before, [-1], keep_dims=False)
    order = ctx.add_many("Sort", rank, axis=-1, stable=True)[1]
    return arrays.transpose(ctx, order, [last.index(dim) for dim in range(len(shape))])
