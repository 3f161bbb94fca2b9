"""reduce_window: cumulative operations, pooling, and any other combiner over any window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.arrays import concat, pad, reshape, slice_, slice_axis
from xla_npu.lowering.combiners import (
    combine,
    expressions,
    kind_on,
    kinds,
    ordered,
    result_types,
    signed,
    unordered,
)
from xla_npu.lowering.context import Context, integers
from xla_npu.lowering.dot import cast_to
from xla_npu.lowering.helpers import broadcast_to, cast
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.lowering.reduce import reduce_axes, with_inits
from xla_npu.lowering.registry import lowers

Values = list[Value]
# Combines two lists of arrays of equal shapes.
Combine = Callable[[Values, Values], Values]
_HALVES = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Window:
    """The window along one dimension, over the padded operand."""

    size: int
    stride: int
    dilation: int
    count: int  # of windows

    @property
    def stands_apart(self) -> bool:
        """Whether no element is in two windows, and each window is a run of neighbours."""
        return self.dilation == 1 and (self.stride >= self.size or self.count == 1)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The attributes that windows of operations have, a number for each dimension."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base_dilations: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def of(cls, op: Any) -> Geometry:
        sizes = integers(op.attributes["window_dimensions"])
        ones, zeros = (1,) * len(sizes), (0,) * 2 * len(sizes)

        def given(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
            return integers(op.attributes[name]) if name in op.attributes else default

        padding = given("padding", zeros)
        return cls(
            sizes,
            given("window_strides", ones),
            given("base_dilations", ones),
            given("window_dilations", ones),
            padding[0::2],
            padding[1::2],
        )


@lowers("stablehlo.reduce_window")
def reduce_window(ctx: Context, op: Any, *operands: Value) -> Values:
    block = op.regions[0].blocks[0]
    half = len(operands) // 2
    types = result_types(block)
    given = [cast(ctx, value, types[i % half]) for i, value in enumerate(operands)]
    values, inits = given[:half], given[half:]
    shape = ctx.result_type(op).shape
    if math.prod(shape) == 0:
        return [broadcast_to(ctx, init, shape) for init in inits]
    geometry = Geometry.of(op)
    along = _cumulative_axis(geometry, shape_of(values[0]))
    if along is not None:
        return with_inits(ctx, block, inits, _cumulative(ctx, block, values, *along))
    widths = [np.dtype(np.float32) if _carried_wide(block, t) else t for t in types]
    wide = [cast(ctx, value, widths[i % half]) for i, value in enumerate(given)]
    values = [
        _padded(ctx, value, geometry, init) for value, init in zip(wide[:half], wide[half:], strict=True)
    ]
    results = _reduced(ctx, block, values, wide[half:], geometry, shape)
    return [cast(ctx, value, t) for value, t in zip(results, types, strict=True)]


def _carried_wide(block: Any, dtype: np.dtype[Any]) -> bool:
    """Sums and products of halves are rounded once."""
    return dtype.name in _HALVES and all(kind in ("add", "multiply") for kind in kinds(block))


def _padded(ctx: Context, value: Value, geometry: Geometry, init: Value) -> Value:
    return pad(ctx, value, geometry.low, geometry.high, [d - 1 for d in geometry.base_dilations], init)


def _reduced(
    ctx: Context, block: Any, values: Values, inits: Values, geometry: Geometry, shape: tuple[int, ...]
) -> Values:
    windows = [
        Window(size, stride, dilation, count)
        for size, stride, dilation, count in zip(
            geometry.sizes, geometry.strides, geometry.dilations, shape, strict=True
        )
    ]
    if all(window.stands_apart for window in windows):
        return _apart(ctx, block, values, inits, windows)

    def together(left: Values, right: Values) -> Values:
        return combine(ctx, block, left, right)

    for axis in reversed(range(len(windows))):  # the last dimension first: elements stay in their order
        values = _along(ctx, values, axis, windows[axis], together)
    return with_inits(ctx, block, inits, values)


def _apart(ctx: Context, block: Any, values: Values, inits: Values, windows: Sequence[Window]) -> Values:
    """Each dimension in two, [windows, elements of one], of which the second is reduced."""
    split: list[int] = []
    begin, end = [0] * len(windows), []
    axes = []
    for window in windows:
        step = window.size if window.count == 1 else window.stride
        end.append(window.count * step)
        split.append(window.count)
        if step > 1:
            axes.append(len(split))
            split.append(step)
    # After the last window there may be no whole stride left.
    lacking = [max(last - size, 0) for last, size in zip(end, shape_of(values[0]), strict=True)]
    parts = [
        reshape(ctx, slice_(ctx, pad(ctx, value, begin, lacking, begin, init), begin, end), split)
        for value, init in zip(values, inits, strict=True)
    ]
    sizes = [w.size for w in windows if (w.size if w.count == 1 else w.stride) > 1]
    for axis, size in zip(axes, sizes, strict=True):
        parts = [slice_axis(ctx, part, axis, 0, size) for part in parts]
    return reduce_axes(ctx, block, parts, inits, axes)


def _along(ctx: Context, values: Values, axis: int, window: Window, together: Combine) -> Values:
    """Windows along one dimension, each reduced to an element."""
    reach = (window.count - 1) * window.stride + 1

    def at(offset: int) -> Values:
        return [slice_axis(ctx, v, axis, offset, offset + reach, window.stride) for v in values]

    if window.size <= 4 * window.stride:
        return _in_order([at(k * window.dilation) for k in range(window.size)], together)
    reduced = _doubled(ctx, values, axis, window, together)
    return [slice_axis(ctx, v, axis, 0, reach, window.stride) for v in reduced]


def _in_order(parts: list[Values], together: Combine) -> Values:
    while len(parts) > 1:
        pairs = [together(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) & ~1 :]
    return parts[0]


def _doubled(ctx: Context, values: Values, axis: int, window: Window, together: Combine) -> Values:
    """Windows of stride 1, put together from those of 1, 2, 4... elements."""

    def joined(first: Values, second: Values, elements: int) -> Values:
        """Element i of `first`, whose windows have `elements`, with what follows them in `second`."""
        shift = elements * window.dilation
        behind = [slice_axis(ctx, v, axis, shift, shape_of(v)[axis]) for v in second]
        length = shape_of(behind[0])[axis]
        head = [slice_axis(ctx, v, axis, 0, length) for v in first]
        shortest = shape_of(head[0])[axis]
        return together(head, [slice_axis(ctx, v, axis, 0, shortest) for v in behind])

    power, width = values, 1
    done: Values | None = None
    elements = 0
    while True:
        if window.size & width:
            done = power if done is None else joined(done, power, elements)
            elements += width
        if elements == window.size and done is not None:
            return done
        power, width = joined(power, power, width), 2 * width


# Cumulative operations, as JAX writes them: a window as long as the dimension, padded on one side.


def _cumulative_axis(geometry: Geometry, sizes: Sequence[int]) -> tuple[int, bool] | None:
    """The dimension along which it is cumulative, and whether from its end."""
    ones = (1,) * len(sizes)
    axes = [axis for axis, size in enumerate(geometry.sizes) if size > 1]
    if len(axes) != 1 or {geometry.strides, geometry.base_dilations, geometry.dilations} != {ones}:
        return None
    axis = axes[0]
    edge = tuple(sizes[axis] - 1 if i == axis else 0 for i in range(len(sizes)))
    none = (0,) * len(sizes)
    if geometry.sizes[axis] != sizes[axis] or (geometry.low, geometry.high) not in (
        (edge, none),
        (none, edge),
    ):
        return None
    return axis, geometry.high == edge


def _cumulative(ctx: Context, block: Any, values: Values, axis: int, backwards: bool) -> Values:
    names = kinds(block)
    if len(values) == 1 and expressions(block) == [_LOG_SUM] and values[0].dtype in (np.float32, np.float16):
        return [ctx.add("CumulativeLogsumexp", values[0], ctx.constant(np.int32(axis)), reverse=backwards)]
    known = [_by_operator(ctx, n, v, axis, backwards) for n, v in zip(names, values, strict=True)]
    if all(value is not None for value in known):
        return [value for value in known if value is not None]
    size, shift = shape_of(values[0])[axis], 1
    while shift < size:
        front = [slice_axis(ctx, v, axis, 0, size - shift) for v in values]
        behind = [slice_axis(ctx, v, axis, shift, size) for v in values]
        both = combine(ctx, block, front, behind)
        edge = [
            slice_axis(ctx, v, axis, *((size - shift, size) if backwards else (0, shift))) for v in values
        ]
        values = [concat(ctx, (b, e) if backwards else (e, b), axis) for b, e in zip(both, edge, strict=True)]
        shift *= 2
    return values


_SUMS = {"add": "Cumsum", "multiply": "Cumprod"}
_EXTREMA = {"maximum": ("Cummax", "dim"), "minimum": ("Cummin", "axis")}


def _by_operator(ctx: Context, kind: str | None, value: Value, axis: int, backwards: bool) -> Value | None:
    dtype = value.dtype
    kind = kind_on(kind, dtype) or ""
    if kind in _SUMS and dtype.kind != "b":
        running = ctx.add(_SUMS[kind], signed(ctx, value), ctx.constant(np.int64(axis)), reverse=backwards)
        return cast_to(ctx, running, dtype)
    if kind not in _EXTREMA or dtype.kind == "c":
        return None
    name, attribute = _EXTREMA[kind]
    given = ordered(ctx, value)
    if backwards:
        given = ctx.add("ReverseV2", given, [axis])
    shape = shape_of(given)
    outputs = [(given.dtype, shape), (np.int64, shape)]
    running, _ = ctx.add_many(name, given, attributes={attribute: axis}, outputs=outputs)
    if backwards:
        running = ctx.add("ReverseV2", running, [axis])
    return unordered(ctx, running, dtype)


# log(exp(x) + exp(y)) as jnp.logaddexp has it.
_DIFFERENCE = ("subtract", 0, 1)
_LOG_SUM = (
    "select",
    ("compare", "NE", _DIFFERENCE, _DIFFERENCE),
    ("add", 0, 1),
    (
        "add",
        ("maximum", 0, 1),
        ("log_plus_one", ("exponential", ("negate", ("abs", _DIFFERENCE)))),
    ),
)
