"""Batch normalisation by the formulas of the specification; halves are carried in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.arrays import reshape
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import cast
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.lowering.registry import lowers

_HALVES = ("float16", "bfloat16")


class _Channels:
    """The arrays of one operation in the type that they are computed in."""

    def __init__(self, ctx: Context, op: Any, operand: Value) -> None:
        self.ctx = ctx
        self.feature = int(op.attributes["feature_index"])
        self.epsilon = float(np.float32(op.attributes["epsilon"]))
        self.given = operand.dtype
        self.dtype = np.dtype(np.float32) if operand.dtype.name in _HALVES else operand.dtype
        shape = shape_of(operand)
        self.others = [axis for axis in range(len(shape)) if axis != self.feature]
        self.row = tuple(size if axis == self.feature else 1 for axis, size in enumerate(shape))
        self.count = math.prod(shape[axis] for axis in self.others)

    def wide(self, value: Value) -> Value:
        return reshape(self.ctx, cast(self.ctx, value, self.dtype), self.row)

    def number(self, value: float) -> Value:
        return self.ctx.constant(np.array(value, self.dtype))

    def sum(self, value: Value) -> Value:
        """Over all but the channels, which stay as a row."""
        return self.ctx.add("ReduceSum", value, self.others, keep_dims=True) if self.others else value

    def mean(self, value: Value) -> Value:
        return self.ctx.add("Div", self.sum(value), self.number(self.count))

    def deviation(self, variance: Value) -> Value:
        return self.ctx.add("Sqrt", self.ctx.add("Add", variance, self.number(self.epsilon)))

    def scaled(self, value: Value, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
        centred = self.ctx.add("Sub", value, mean)
        normal = self.ctx.add("Div", centred, self.deviation(variance))
        return self.ctx.add("Add", self.ctx.add("Mul", normal, scale), offset)

    def result(self, value: Value, row: bool = False) -> Value:
        value = cast(self.ctx, value, self.given)
        return reshape(self.ctx, value, (self.row[self.feature],)) if row else value


@lowers("stablehlo.batch_norm_inference")
def inference(ctx: Context, op: Any, operand: Value, *rows: Value) -> Value:
    with_ = _Channels(ctx, op, operand)
    scale, offset, mean, variance = (with_.wide(row) for row in rows)
    return with_.result(with_.scaled(cast(ctx, operand, with_.dtype), scale, offset, mean, variance))


@lowers("stablehlo.batch_norm_training")
def training(ctx: Context, op: Any, operand: Value, scale: Value, offset: Value) -> list[Value]:
    with_ = _Channels(ctx, op, operand)
    value = cast(ctx, operand, with_.dtype)
    mean = with_.mean(value)
    centred = ctx.add("Sub", value, mean)
    variance = with_.mean(ctx.add("Mul", centred, centred))
    out = with_.scaled(value, with_.wide(scale), with_.wide(offset), mean, variance)
    return [with_.result(out), with_.result(mean, row=True), with_.result(variance, row=True)]


@lowers("stablehlo.batch_norm_grad")
def gradient(
    ctx: Context, op: Any, operand: Value, scale: Value, mean: Value, variance: Value, grad: Value
) -> list[Value]:
    with_ = _Channels(ctx, op, operand)
    value, given = cast(ctx, operand, with_.dtype), cast(ctx, grad, with_.dtype)
    centred = ctx.add("Sub", value, with_.wide(mean))
    deviation = with_.deviation(with_.wide(variance))
    of_offset = with_.sum(given)
    products = with_.sum(ctx.add("Mul", given, centred))
    squared = ctx.add("Mul", deviation, deviation)
    count = with_.number(with_.count)
    inner = ctx.add("Sub", ctx.add("Mul", given, count), of_offset)
    inner = ctx.add("Sub", inner, ctx.add("Div", ctx.add("Mul", products, centred), squared))
    weight = ctx.add("Div", ctx.add("Div", with_.wide(scale), deviation), count)
    of_operand = ctx.add("Mul", weight, inner)
    of_scale = ctx.add("Div", products, deviation)
    return [
        with_.result(of_operand),
        with_.result(of_scale, row=True),
        with_.result(of_offset, row=True),
    ]
