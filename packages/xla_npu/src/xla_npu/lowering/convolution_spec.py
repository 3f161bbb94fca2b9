"""What a convolution says of itself.

Arrays are named by letters as in the specification's dimension numbers: the operand is (batch, feature, *spatial), the
kernel (output, input, *spatial), the result (batch, feature, *spatial), wherever those dimensions stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir.dialects import stablehlo

from npu_common.graph import Value
from xla_npu.lowering.arrays import transpose
from xla_npu.lowering.context import Context
from xla_npu.lowering.context import integers as listed
from xla_npu.lowering.helpers import sizes as shape_of


@dataclass(frozen=True, slots=True)
class Spec:
    """A convolution's attributes; spatial ones have a number for each spatial dimension."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int

    @property
    def rank(self) -> int:
        return len(self.strides)


def spec_of(op: Any) -> Spec:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    spatial = tuple(numbers.kernel_spatial_dimensions)
    ones = (1,) * len(spatial)

    def given(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return listed(op.attributes[name]) if name in op.attributes else default

    padding = given("padding", (0,) * 2 * len(spatial))
    return Spec(
        (
            numbers.input_batch_dimension,
            numbers.input_feature_dimension,
            *numbers.input_spatial_dimensions,
        ),
        (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension, *spatial),
        (
            numbers.output_batch_dimension,
            numbers.output_feature_dimension,
            *numbers.output_spatial_dimensions,
        ),
        given("window_strides", ones),
        padding[0::2],
        padding[1::2],
        given("lhs_dilation", ones),
        given("rhs_dilation", ones),
        int(op.attributes["feature_group_count"]),
    )


def reversal(op: Any, spec: Spec) -> list[int]:
    """The kernel's dimensions that are read from their end."""
    if "window_reversal" not in op.attributes:
        return []
    flags = listed(op.attributes["window_reversal"])
    return [dim for dim, flag in zip(spec.rhs[2:], flags, strict=True) if flag]


def reverse(ctx: Context, rhs: Value, dims: Sequence[int]) -> Value:
    longer = [dim for dim in dims if shape_of(rhs)[dim] > 1]
    return ctx.add("ReverseV2", rhs, longer) if longer else rhs


def channels_last(dims: Sequence[int]) -> list[int]:
    """Channels last: (batch, *spatial, feature)."""
    return [dims[0], *dims[2:], dims[1]]


def in_place(ctx: Context, value: Value, dims: Sequence[int]) -> Value:
    """The value, whose dimension i is the result's dims[i], in the result's order."""
    return transpose(ctx, value, [dims.index(dim) for dim in range(len(dims))])
