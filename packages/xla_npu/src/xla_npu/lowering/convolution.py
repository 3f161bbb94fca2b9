"""convolution in full: by CANN's convolutions, and any other type or rank as a product of patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.arrays import integers, pad, reshape, transpose
from xla_npu.lowering.context import Context
from xla_npu.lowering.convolution_engine import by_engine, by_input_gradient, is_input_gradient
from xla_npu.lowering.convolution_spec import Spec, channels_last, in_place, reversal, reverse, spec_of
from xla_npu.lowering.dot import Sides, cast_to, compute_type, contract, operand
from xla_npu.lowering.helpers import full, scalar
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.lowering.registry import lowers

_CUBE = ("float32", "float16", "bfloat16")


@lowers("stablehlo.convolution")
def convolution(ctx: Context, op: Any, lhs: Value, rhs: Value) -> Value:
    type_ = ctx.result_type(op)
    spec = spec_of(op)
    lhs, rhs = (operand(ctx, op, i, v) for i, v in enumerate((lhs, rhs)))
    if type_.size == 0 or 0 in shape_of(lhs) or 0 in shape_of(rhs):
        return full(ctx, type_.shape, 0, type_.dtype)
    carried = compute_type(lhs.dtype, rhs.dtype, type_.dtype)
    lhs, rhs = cast_to(ctx, lhs, carried), cast_to(ctx, rhs, carried)
    turned = reversal(op, spec)
    batch_groups = int(op.attributes["batch_group_count"])
    if batch_groups > 1:
        lhs, spec = _batch_groups_as_features(ctx, lhs, spec, batch_groups)
    if carried.name not in _CUBE or not 1 <= spec.rank <= 3:
        result = _by_patches(ctx, lhs, reverse(ctx, rhs, turned), spec, type_.shape)
    elif is_input_gradient(spec):
        result = by_input_gradient(ctx, op, lhs, rhs, spec, type_.shape, turned)
    else:
        result = by_engine(ctx, lhs, reverse(ctx, rhs, turned), spec, type_.shape)
    return cast_to(ctx, result, type_.dtype)


def _batch_groups_as_features(ctx: Context, lhs: Value, spec: Spec, groups: int) -> tuple[Value, Spec]:
    """A group of the batch goes to a group of the result's features: as a group of features it does so too."""
    batch, feature = spec.lhs[:2]
    shape = shape_of(lhs)
    split = [*shape[:batch], groups, shape[batch] // groups, *shape[batch + 1 :]]
    order = [axis + (axis > batch) for axis in range(len(shape))]
    order[batch] = batch + 1
    order.insert(order.index(feature + (feature > batch)), batch)
    moved = transpose(ctx, reshape(ctx, lhs, split), order)
    sizes = list(shape)
    sizes[batch], sizes[feature] = shape[batch] // groups, shape[feature] * groups
    return reshape(ctx, moved, sizes), replace(spec, groups=groups)


# Patches: any type, any rank.


def _by_patches(ctx: Context, lhs: Value, rhs: Value, spec: Spec, shape: Sequence[int]) -> Value:
    batch, feature, *spatial = spec.lhs
    data = _padded(ctx, transpose(ctx, lhs, [batch, *spatial, feature]), spec)
    kernel = transpose(ctx, rhs, [*spec.rhs[2:], spec.rhs[1], spec.rhs[0]])
    *window, inputs, outputs = shape_of(kernel)
    sizes = shape_of(data)
    counts = [shape[dim] for dim in spec.out[2:]]
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    strides = [
        steps[0],
        *(step * stride for step, stride in zip(steps[1:-1], spec.strides, strict=True)),
        *(step * dilation for step, dilation in zip(steps[1:-1], spec.rhs_dilation, strict=True)),
        1,
    ]
    patches = data
    if spec.rank:
        full_shape = [sizes[0], *counts, *window, sizes[-1]]
        patches = ctx.add("AsStrided", data, integers(full_shape), integers(strides), np.array([0]))
    rank, groups = spec.rank, spec.groups
    patches = reshape(ctx, patches, (sizes[0], *counts, *window, groups, inputs))
    kernel = reshape(ctx, kernel, (*window, inputs, groups, outputs // groups))
    sides = Sides(
        ((1 + 2 * rank,), (rank + 1,)),
        ((*range(1 + rank, 1 + 2 * rank), 2 + 2 * rank), tuple(range(rank + 1))),
    )
    product = contract(
        ctx, patches, kernel, sides, patches.dtype
    )  # [groups, batch, *counts, outputs of a group]
    joined = transpose(ctx, product, [*range(1, rank + 2), 0, rank + 2])
    return in_place(ctx, reshape(ctx, joined, (sizes[0], *counts, outputs)), channels_last(spec.out))


def _padded(ctx: Context, data: Value, spec: Spec) -> Value:
    """Dilated and padded operand, spatial dimensions between the batch and the features."""
    zero = scalar(ctx, 0, data.dtype)
    return pad(
        ctx, data, (0, *spec.low, 0), (0, *spec.high, 0), (0, *(d - 1 for d in spec.lhs_dilation), 0), zero
    )
