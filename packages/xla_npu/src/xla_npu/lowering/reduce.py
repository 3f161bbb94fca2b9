"""reduce: by an operator where the combiner is one, as a tree where it is any other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.arrays import reshape, slice_axis, transpose
from xla_npu.lowering.combiners import (
    combine,
    expressions,
    is_identity,
    kind_on,
    kinds,
    ordered,
    result_types,
    signed,
    unordered,
)
from xla_npu.lowering.context import Context, integers
from xla_npu.lowering.dot import cast_to
from xla_npu.lowering.helpers import broadcast_to, cast, scalar
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.lowering.registry import lowers

_SUMS = {"add": "ReduceSum", "multiply": "ReduceProd"}
_EXTREMA = {"maximum": "ReduceMax", "minimum": "ReduceMin"}
_LOGIC = {"or": "ReduceAny", "and": "ReduceAll"}


@lowers("stablehlo.reduce")
def reduce(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    block = op.regions[0].blocks[0]
    count = len(operands) // 2
    axes = integers(op.attributes["dimensions"])
    places = _place_of_extremum(ctx, op, block, operands, axes)
    if places is not None:
        return places
    types = result_types(block)
    values = [cast(ctx, value, types[i % count]) for i, value in enumerate(operands)]
    return reduce_axes(ctx, block, values[:count], values[count:], axes)


def reduce_axes(
    ctx: Context, block: Any, values: Sequence[Value], inits: Sequence[Value], axes: Sequence[int]
) -> list[Value]:
    """The combination of all elements along `axes`, and of the inits, without those dimensions."""
    sizes = shape_of(values[0])
    kept = tuple(size for axis, size in enumerate(sizes) if axis not in axes)
    if math.prod(sizes[axis] for axis in axes) == 0:
        return [broadcast_to(ctx, init, kept) for init in inits]
    names = kinds(block)
    reduced = [by_operator(ctx, name, value, axes) for name, value in zip(names, values, strict=True)]
    if any(value is None for value in reduced):
        reduced = list(_tree(ctx, block, [_in_front(ctx, value, axes) for value in values]))
        reduced = [reshape(ctx, value, kept) for value in reduced if value is not None]
    return with_inits(ctx, block, inits, [value for value in reduced if value is not None])


def reduce_front(ctx: Context, block: Any, value: Value) -> Value:
    """The combination of the elements along the first dimension, by a region that combines two numbers."""
    names = kinds(block)
    reduced = by_operator(ctx, names[0], value, [0]) if len(names) == 1 else None
    if reduced is None:
        [reduced] = _tree(ctx, block, [value])
    return reshape(ctx, reduced, shape_of(value)[1:])


def with_inits(ctx: Context, block: Any, inits: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """The inits combined with the values, nothing where none of them could change one."""
    if all(is_identity(kind, init) for kind, init in zip(kinds(block), inits, strict=True)):
        return list(values)
    return combine(ctx, block, inits, values)


def by_operator(ctx: Context, kind: str | None, value: Value, axes: Sequence[int]) -> Value | None:
    """The reduction along `axes` by one of CANN's operators, None if it has none for the combiner and the type."""
    dtype = value.dtype
    kind = kind_on(kind, dtype) or ""
    if not axes:
        return value
    if kind and all(shape_of(value)[axis] == 1 for axis in axes):
        return _of_one(ctx, kind, value, axes)
    if dtype.kind == "b":
        return ctx.add(_LOGIC[kind], value, list(axes)) if kind in _LOGIC else None
    if kind in _SUMS:
        return cast_to(ctx, ctx.add(_SUMS[kind], signed(ctx, value), list(axes)), dtype)
    if kind in _EXTREMA and dtype.kind != "c":
        return unordered(ctx, ctx.add(_EXTREMA[kind], ordered(ctx, value), list(axes)), dtype)
    return None


def _of_one(ctx: Context, kind: str, value: Value, axes: Sequence[int]) -> Value:
    """Single elements are their own reduction, but for the sign of a zero: a sum begins with 0."""
    if kind == "add" and value.dtype.kind not in "iu":
        value = ctx.add("Add", value, scalar(ctx, 0, value.dtype))
    return reshape(ctx, value, [size for axis, size in enumerate(shape_of(value)) if axis not in axes])


def _in_front(ctx: Context, value: Value, axes: Sequence[int]) -> Value:
    """As [all elements along axes, *others]."""
    shape = shape_of(value)
    others = [axis for axis in range(len(shape)) if axis not in axes]
    moved = transpose(ctx, value, [*axes, *others])
    return reshape(ctx, moved, (math.prod(shape[axis] for axis in axes), *(shape[axis] for axis in others)))


def _tree(ctx: Context, block: Any, values: list[Value]) -> list[Value]:
    """Neighbours along the first dimension are combined until one is left: any associative combiner."""
    count = shape_of(values[0])[0]
    tails: list[list[Value]] = []  # what was left over at the end of a level
    while count > 1:
        if count % 2:
            tails.append([slice_axis(ctx, value, 0, count - 1, count) for value in values])
        even = [slice_axis(ctx, value, 0, 0, count - count % 2, 2) for value in values]
        odd = [slice_axis(ctx, value, 0, 1, count, 2) for value in values]
        values = combine(ctx, block, even, odd)
        count //= 2
    for tail in reversed(tails):
        values = combine(ctx, block, values, tail)
    return values


# Arguments of the region: value, place, value, place.
_SAME_AND_BEFORE = ("and", ("compare", "EQ", 0, 2), ("compare", "LT", 1, 3))
_IS_NAN = ("compare", "NE", 0, 0)


def _extremum_trees(direction: str) -> list[list[Any]]:
    """How JAX writes argmax (GT) and argmin (LT): with a test for NaN, or on integers without."""
    beats = ("compare", direction, 0, 2)
    return [
        [("select", wins, 0, 2), ("select", ("or", wins, _SAME_AND_BEFORE), 1, 3)]
        for wins in (("or", beats, _IS_NAN), beats)
    ]


_PLACES = (("GT", "ReduceMax", "ArgMaxV2", "maximum"), ("LT", "ReduceMin", "ArgMin", "minimum"))


def _place_of_extremum(
    ctx: Context, op: Any, block: Any, operands: Sequence[Value], axes: Sequence[int]
) -> list[Value] | None:
    """argmax and argmin as JAX writes them: the first of the largest, or the first NaN."""
    if len(operands) != 4 or len(axes) != 1 or not _counts_along(ctx, op.operands[1], axes[0]):
        return None
    value, _, init, first = operands
    trees, dtype = expressions(block), value.dtype
    for direction, extremum, place, kind in _PLACES:
        with_nan, without = _extremum_trees(direction)
        if trees != with_nan and not (trees == without and dtype.kind not in "fV"):
            continue
        zero = first.constant is not None and int(first.constant) == 0
        if dtype.kind == "c" or shape_of(value)[axes[0]] == 0 or not zero or not is_identity(kind, init):
            return None
        given = ordered(ctx, value)
        index = ctx.result_type(op, 1).dtype
        wide = np.dtype(np.int64 if index.itemsize == 8 else np.int32)
        where = ctx.add(place, given, ctx.constant(np.int64(axes[0])), dtype=wide)
        largest = unordered(ctx, ctx.add(extremum, given, [axes[0]]), dtype)
        return [largest, cast_to(ctx, where, index)]
    return None


def _counts_along(ctx: Context, places: Any, axis: int) -> bool:
    """Whether an MLIR value is 0, 1, 2... along the axis."""
    owner = places.owner
    name = getattr(owner, "name", "")
    if name == "stablehlo.iota":
        return int(owner.attributes["iota_dimension"]) == axis
    known = ctx.values[places]
    array = None if known is None else known.constant
    if array is None or array.ndim <= axis:
        return False
    steps = np.arange(array.shape[axis]).reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return bool((array == steps).all())
