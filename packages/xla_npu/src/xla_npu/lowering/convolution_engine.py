"""Convolutions by Conv2D and Conv3D, or by one of their gradients where the program writes one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.arrays import integers, pad, reshape, transpose
from xla_npu.lowering.context import Context
from xla_npu.lowering.context import integers as listed
from xla_npu.lowering.convolution_spec import Spec, channels_last, in_place, reverse
from xla_npu.lowering.helpers import cast, scalar
from xla_npu.lowering.helpers import sizes as shape_of

_PLANES = 2  # what Conv2D has at least: a sequence is a plane of one line
_ENGINES = {2: ("Conv2D", "NHWC", "NCHW"), 3: ("Conv3D", "NDHWC", "NCDHW")}


def _moved(value: Value, perm: Sequence[int]) -> int:
    """How many elements a transpose has to move."""
    shape = shape_of(value)
    moving = [axis for axis in perm if shape[axis] != 1]
    return 0 if moving == sorted(moving) else math.prod(shape)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where channels are for the engine, and the forms of its attributes."""

    channels_last: bool
    rank: int

    @classmethod
    def cheapest(cls, lhs: Value, rhs: Value, spec: Spec, shape: Sequence[int]) -> _Layout:
        """Of channels last and channels second the one for which fewer elements move."""
        output, input_, *window = spec.rhs
        moved_last = _moved(lhs, channels_last(spec.lhs)) + _moved(rhs, [*window, input_, output])
        moved_second = _moved(lhs, spec.lhs) + _moved(rhs, spec.rhs)
        size = math.prod(shape)
        moved_last += 0 if channels_last(spec.out) == sorted(spec.out) else size
        moved_second += 0 if list(spec.out) == sorted(spec.out) else size
        return cls(moved_last <= moved_second, max(spec.rank, _PLANES))

    def data(self, ctx: Context, value: Value, dims: Sequence[int]) -> Value:
        """(batch, feature, *spatial) dims in the engine's order."""
        return self._engine_rank(
            ctx, transpose(ctx, value, channels_last(dims) if self.channels_last else list(dims)), False
        )

    def kernel(self, ctx: Context, value: Value, dims: Sequence[int]) -> Value:
        """(output, input, *spatial) dims in the engine's order."""
        order = [*dims[2:], dims[1], dims[0]] if self.channels_last else list(dims)
        return self._engine_rank(ctx, transpose(ctx, value, order), True)

    def _engine_rank(self, ctx: Context, value: Value, is_kernel: bool) -> Value:
        shape = shape_of(value)
        if len(shape) == self.rank + 2:
            return value
        at = (0 if is_kernel else 1) if self.channels_last else 2
        return reshape(ctx, value, (*shape[:at], 1, *shape[at:]))

    def result(self, ctx: Context, value: Value, dims: Sequence[int]) -> Value:
        order = channels_last(dims) if self.channels_last else list(dims)
        return self._user_rank(ctx, value, order, 1)

    def kernel_result(self, ctx: Context, value: Value, dims: Sequence[int]) -> Value:
        order = [*dims[2:], dims[1], dims[0]] if self.channels_last else list(dims)
        return self._user_rank(ctx, value, order, 0)

    def _user_rank(self, ctx: Context, value: Value, order: list[int], at: int) -> Value:
        if len(order) < self.rank + 2:
            at = at if self.channels_last else 2
            shape = shape_of(value)
            value = reshape(ctx, value, (*shape[:at], *shape[at + 1 :]))
        return in_place(ctx, value, order)

    def spread(self, values: Sequence[int]) -> list[int]:
        """An attribute with a number for each dimension of the data."""
        inner = [1] * (self.rank - len(values)) + list(values)
        return [1, *inner, 1] if self.channels_last else [1, 1, *inner]

    def pads(self, low: Sequence[int], high: Sequence[int]) -> list[int]:
        pairs = [edge for pair in zip(low, high, strict=True) for edge in pair]
        return [0] * (2 * self.rank - len(pairs)) + pairs

    def attributes(
        self,
        strides: Sequence[int],
        low: Sequence[int],
        high: Sequence[int],
        dilations: Sequence[int],
        groups: int,
    ) -> dict[str, Any]:
        _, last, second = _ENGINES[self.rank]
        return {
            "strides": self.spread(strides),
            "pads": self.pads(low, high),
            "dilations": self.spread(dilations),
            "groups": groups,
            "data_format": last if self.channels_last else second,
        }


def by_engine(ctx: Context, lhs: Value, rhs: Value, spec: Spec, shape: Sequence[int]) -> Value:
    window = [shape_of(rhs)[dim] for dim in spec.rhs[2:]]
    counts = [shape[dim] for dim in spec.out[2:]]
    lhs, spec = _without_dilation(ctx, lhs, spec)
    if spec.groups == 1 and math.prod(window) > math.prod(counts):
        return _by_filter_gradient(ctx, lhs, rhs, spec, window, counts, shape)
    layout = _Layout.cheapest(lhs, rhs, spec, shape)
    made = ctx.add(
        _ENGINES[layout.rank][0],
        layout.data(ctx, lhs, spec.lhs),
        layout.kernel(ctx, rhs, spec.rhs),
        **layout.attributes(spec.strides, spec.low, spec.high, spec.rhs_dilation, spec.groups),
    )
    return layout.result(ctx, made, spec.out)


def _without_dilation(ctx: Context, lhs: Value, spec: Spec) -> tuple[Value, Spec]:
    """What the engine has no attribute for is done to the operand: dilation, and padding that cuts."""
    plain = all(d == 1 for d in spec.lhs_dilation)
    if plain and min(*spec.low, *spec.high) >= 0:
        return lhs, spec
    low, high, interior = ([0] * (spec.rank + 2) for _ in range(3))
    for axis, dim in enumerate(spec.lhs[2:]):
        low[dim] = spec.low[axis] if not plain else min(spec.low[axis], 0)
        high[dim] = spec.high[axis] if not plain else min(spec.high[axis], 0)
        interior[dim] = spec.lhs_dilation[axis] - 1
    lhs = pad(ctx, lhs, low, high, interior, scalar(ctx, 0, lhs.dtype))
    zeros = (0,) * spec.rank
    rest = (
        (zeros, zeros)
        if not plain
        else (tuple(max(e, 0) for e in spec.low), tuple(max(e, 0) for e in spec.high))
    )
    return lhs, replace(spec, low=rest[0], high=rest[1], lhs_dilation=(1,) * spec.rank)


def _by_filter_gradient(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    spec: Spec,
    window: Sequence[int],
    counts: Sequence[int],
    shape: Sequence[int],
) -> Value:
    """A window larger than the result is how gradients of filters are written: summed over as the engine does it.

    The gradient's x is the operand with batch and features swapped, the gradient of the result the kernel; strides
    and dilations swap too.
    """
    batch, feature, *spatial = spec.lhs
    output, inner, *taps = spec.rhs
    lhs, rhs = (_for_gradient(ctx, value) for value in (lhs, rhs))
    high = []
    for axis, dim in enumerate(spatial):
        reach = (window[axis] - 1) * spec.rhs_dilation[axis] + (counts[axis] - 1) * spec.strides[axis] + 1
        lacking = reach - shape_of(lhs)[dim] - spec.low[axis]
        spare = spec.high[axis] - lacking
        high.append(spec.high[axis] if 0 <= spare < spec.rhs_dilation[axis] else lacking)
    if min(high) < 0:
        edges = [0] * (spec.rank + 2)
        for edge, dim in zip(high, spatial, strict=True):
            edges[dim] = min(edge, 0)
        nothing = [0] * len(edges)
        lhs = pad(ctx, lhs, nothing, edges, nothing, scalar(ctx, 0, lhs.dtype))
        high = [max(edge, 0) for edge in high]
    out_batch, out_feature, *out_spatial = spec.out
    layout = _Layout(_filters_come_last(lhs, rhs, spec, shape), max(spec.rank, _PLANES))
    made_dims = [out_feature, out_batch, *out_spatial]
    sizes = [shape[dim] for dim in made_dims]
    sizes[2:] = [1] * (layout.rank - spec.rank) + sizes[2:]
    filter_size = [*sizes[2:], sizes[1], sizes[0]] if layout.channels_last else sizes
    made = ctx.add(
        f"{_ENGINES[layout.rank][0]}BackpropFilter",
        layout.data(ctx, lhs, [feature, batch, *spatial]),
        integers(filter_size),
        layout.data(ctx, rhs, [inner, output, *taps]),
        **layout.attributes(spec.rhs_dilation, spec.low, high, spec.strides, 1),
    )
    return layout.kernel_result(ctx, made, made_dims)


def _for_gradient(ctx: Context, value: Value) -> Value:
    """The gradients' operators take no bfloat16."""
    return cast(ctx, value, np.dtype(np.float32)) if value.dtype.name == "bfloat16" else value


def _filters_come_last(lhs: Value, rhs: Value, spec: Spec, shape: Sequence[int]) -> bool:
    batch, feature, *spatial = spec.lhs
    output, inner, *taps = spec.rhs
    out_batch, out_feature, *out_spatial = spec.out
    size = math.prod(shape)
    last, second = [*out_spatial, out_batch, out_feature], [out_feature, out_batch, *out_spatial]
    moved_last = _moved(lhs, [feature, *spatial, batch]) + _moved(rhs, [inner, *taps, output])
    moved_second = _moved(lhs, [feature, batch, *spatial]) + _moved(rhs, [inner, output, *taps])
    moved_last += 0 if last == sorted(last) else size
    moved_second += 0 if second == sorted(second) else size
    return moved_last <= moved_second


def is_input_gradient(spec: Spec) -> bool:
    """Whether the operand is dilated and nothing else keeps it from being the gradient of a strided convolution."""
    return any(d > 1 for d in spec.lhs_dilation) and all(s == 1 for s in spec.strides)


def by_input_gradient(
    ctx: Context, op: Any, lhs: Value, rhs: Value, spec: Spec, shape: Sequence[int], turned: Sequence[int]
) -> Value:
    """A convolution of the dilated operand is the gradient, of the kernel turned round, in place of the operand."""
    output, input_, *taps = spec.rhs
    kernel = _for_gradient(ctx, _turned(ctx, op, rhs, set(taps) ^ set(turned)))
    reach = [
        (shape_of(rhs)[dim] - 1) * dilation for dim, dilation in zip(taps, spec.rhs_dilation, strict=True)
    ]
    low = [r - edge for r, edge in zip(reach, spec.low, strict=True)]
    high = [r - edge for r, edge in zip(reach, spec.high, strict=True)]
    made_shape = list(shape)
    for axis, dim in enumerate(spec.out[2:]):  # beyond the reach of the operand are zeros
        made_shape[dim] += min(low[axis], 0) + min(high[axis], 0)
    if min(made_shape) <= 0:
        lhs, spec = _without_dilation(ctx, lhs, spec)
        return by_engine(ctx, lhs, reverse(ctx, rhs, turned), spec, shape)
    layout = _Layout.cheapest(lhs, rhs, replace(spec, rhs=(input_, output, *taps)), shape)
    sizes = [made_shape[dim] for dim in spec.out]
    sizes[2:] = [1] * (layout.rank - spec.rank) + sizes[2:]
    order = [sizes[0], *sizes[2:], sizes[1]] if layout.channels_last else sizes
    made = ctx.add(
        f"{_ENGINES[layout.rank][0]}BackpropInput",
        integers(order),
        layout.kernel(ctx, *_regrouped(ctx, kernel, spec)),
        layout.data(ctx, _for_gradient(ctx, lhs), spec.lhs),
        **layout.attributes(
            spec.lhs_dilation,
            [max(e, 0) for e in low],
            [max(e, 0) for e in high],
            spec.rhs_dilation,
            spec.groups,
        ),
    )
    result = layout.result(ctx, made, spec.out)
    edges_low, edges_high = [0] * len(shape), [0] * len(shape)
    for axis, dim in enumerate(spec.out[2:]):
        edges_low[dim], edges_high[dim] = max(-low[axis], 0), max(-high[axis], 0)
    zero = scalar(ctx, 0, result.dtype)
    return pad(ctx, result, edges_low, edges_high, [0] * len(shape), zero)


def _turned(ctx: Context, op: Any, rhs: Value, dims: set[int]) -> Value:
    """The kernel reversed along these dimensions; a reversal that the program does already is left out instead."""
    source = op.operands[1].owner
    if (
        getattr(source, "name", "") == "stablehlo.reverse"
        and set(listed(source.attributes["dimensions"])) == dims
    ):
        known = ctx.values.get(source.operands[0])
        if known is not None and known.dtype == rhs.dtype:
            return known
    return reverse(ctx, rhs, sorted(dims))


def _regrouped(ctx: Context, kernel: Value, spec: Spec) -> tuple[Value, list[int]]:
    """The kernel as that of the convolution whose gradient is taken, and its (output, input, *spatial) dims."""
    output, input_, *taps = spec.rhs
    if spec.groups == 1:
        return kernel, [input_, output, *taps]
    moved = transpose(ctx, kernel, [output, input_, *taps])
    outputs, inputs, *window = shape_of(moved)
    split = reshape(ctx, moved, (spec.groups, outputs // spec.groups, inputs, *window))
    swapped = transpose(ctx, split, [0, 2, 1, *range(3, 3 + len(window))])
    joined = reshape(ctx, swapped, (spec.groups * inputs, outputs // spec.groups, *window))
    return joined, list(range(2 + len(window)))
