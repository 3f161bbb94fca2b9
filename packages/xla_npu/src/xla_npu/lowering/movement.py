"""Operations that move elements to places known when compiling: broadcasts, reshapes, slices, pads, joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from npu_common.graph.dtypes import language_name
from npu_common.graph.language import native
from xla_npu.errors import Unsupported
from xla_npu.lowering import arrays
from xla_npu.lowering.context import Context, integers
from xla_npu.lowering.helpers import bitcast, broadcast_to, signed, sizes
from xla_npu.lowering.registry import lowers


def takes(operator: str, dtype: np.dtype[Any]) -> bool:
    """Whether CANN's operator takes the dtype as its first input."""
    found = native().find_operator(operator)
    assert found is not None
    return not found.inputs[0].types or language_name(dtype) in found.inputs[0].types


def moved(ctx: Context, operator: str, value: Value, move: Callable[[Value], Value]) -> Value:
    """What `move` makes of the value by an operator that only moves elements: as integers of the same size where the
    operator does not take the dtype itself.
    """
    if takes(operator, value.dtype):
        return move(value)
    carrier = np.dtype(np.uint8) if value.dtype.itemsize == 1 else signed(value.dtype)
    return bitcast(ctx, move(bitcast(ctx, value, carrier)), value.dtype)


@lowers("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def broadcast_in_dim(ctx: Context, op: Any, operand: Value, *shape: Value) -> Value:
    dims = integers(op.attributes["broadcast_dimensions"])
    return broadcast_along(ctx, operand, dims, ctx.result_type(op).shape)


def broadcast_along(ctx: Context, value: Value, dims: Sequence[int], shape: Sequence[int]) -> Value:
    """The value repeated to a shape: its dimension i is dims[i] of the result."""
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    value = arrays.transpose(ctx, value, order)
    placed = dict(zip((dims[i] for i in order), sizes(value), strict=True))
    first = min(placed, default=len(shape))  # BroadcastTo itself adds dimensions in front
    value = arrays.reshape(ctx, value, [placed.get(dim, 1) for dim in range(first, len(shape))])
    if np.prod(sizes(value), dtype=np.int64) == np.prod(shape, dtype=np.int64):
        return arrays.reshape(ctx, value, shape)
    return broadcast_to(ctx, value, shape)


@lowers("stablehlo.broadcast")
def broadcast(ctx: Context, op: Any, operand: Value) -> Value:
    return broadcast_to(ctx, operand, ctx.result_type(op).shape)


@lowers("stablehlo.reshape", "stablehlo.dynamic_reshape")
def reshape(ctx: Context, op: Any, operand: Value, *shape: Value) -> Value:
    if op.operands[0].type == op.results[0].type:
        return operand
    return arrays.reshape(ctx, operand, ctx.result_type(op).shape)


@lowers("stablehlo.transpose")
def transpose(ctx: Context, op: Any, operand: Value) -> Value:
    return arrays.transpose(ctx, operand, integers(op.attributes["permutation"]))


@lowers("stablehlo.slice")
def slice_(ctx: Context, op: Any, operand: Value) -> Value:
    begin, end, strides = (
        integers(op.attributes[name]) for name in ("start_indices", "limit_indices", "strides")
    )
    return arrays.slice_(ctx, operand, begin, end, strides)


@lowers("stablehlo.real_dynamic_slice")
def real_dynamic_slice(
    ctx: Context, op: Any, operand: Value, begin: Value, end: Value, strides: Value
) -> Value:
    bounds = (known(op, value) for value in (begin, end, strides))
    return arrays.slice_(ctx, operand, *bounds)


@lowers("stablehlo.pad")
def pad(ctx: Context, op: Any, operand: Value, fill: Value) -> Value:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, interior = (integers(op.attributes[name]) for name in names)
    return arrays.pad(ctx, operand, low, high, interior, fill)


@lowers("stablehlo.dynamic_pad")
def dynamic_pad(
    ctx: Context, op: Any, operand: Value, fill: Value, low: Value, high: Value, interior: Value
) -> Value:
    before, after, between = (known(op, value) for value in (low, high, interior))
    return arrays.pad(ctx, operand, before, after, between, fill)


@lowers("stablehlo.concatenate")
def concatenate(ctx: Context, op: Any, *operands: Value) -> Value:
    return arrays.concat(ctx, operands, int(op.attributes["dimension"].value))


@lowers("stablehlo.reverse")
def reverse(ctx: Context, op: Any, operand: Value) -> Value:
    shape = sizes(operand)
    axes = [axis for axis in integers(op.attributes["dimensions"]) if shape[axis] > 1]
    if not axes or 0 in shape:
        return operand
    return moved(ctx, "ReverseV2", operand, lambda x: ctx.add("ReverseV2", x, axes))


@lowers("stablehlo.get_dimension_size")
def get_dimension_size(ctx: Context, op: Any, operand: Value) -> Value:
    return ctx.constant(sizes(operand)[int(op.attributes["dimension"].value)], np.int32)


def known(op: Any, value: Value) -> tuple[int, ...]:
    """The numbers of an operand that is a constant. Raises Unsupported where it is none."""
    if value.constant is None:
        raise Unsupported(f"{op.name} needs shapes that are known when compiling")
    return tuple(int(number) for number in value.constant.reshape(-1))
