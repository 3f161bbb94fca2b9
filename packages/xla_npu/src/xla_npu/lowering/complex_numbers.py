"""Complex numbers from parts, and parts from complex numbers."""

from __future__ import annotations

from typing import Any

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.elementwise import joined, parts
from xla_npu.lowering.helpers import zeros_like
from xla_npu.lowering.registry import lowers


@lowers("stablehlo.complex")
def complex_(ctx: Context, op: Any, real: Value, imaginary: Value) -> Value:
    return joined(ctx, real, imaginary)


@lowers("stablehlo.real")
def real(ctx: Context, op: Any, x: Value) -> Value:
    return parts(ctx, x)[0] if x.dtype.kind == "c" else x


@lowers("stablehlo.imag")
def imag(ctx: Context, op: Any, x: Value) -> Value:
    return parts(ctx, x)[1] if x.dtype.kind == "c" else zeros_like(ctx, x)
