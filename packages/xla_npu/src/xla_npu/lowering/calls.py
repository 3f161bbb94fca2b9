"""Calls of functions and composites without a rule of their own."""

from __future__ import annotations

from typing import Any

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.registry import lowers


@lowers("func.call")
def call(ctx: Context, op: Any, *operands: Value | None) -> list[Value | None]:
    return _body(ctx, op.attributes["callee"].value, operands)


@lowers("stablehlo.composite")
def composite(ctx: Context, op: Any, *operands: Value | None) -> list[Value | None]:
    return _body(ctx, op.attributes["decomposition"].value, operands)


@lowers("stablehlo.optimization_barrier")
def optimization_barrier(ctx: Context, op: Any, *operands: Value | None) -> list[Value | None]:
    # It forbids moving operations across, which no pass here does for the sake of memory.
    return list(operands)


@lowers("stablehlo.create_token", "stablehlo.after_all")
def token(ctx: Context, op: Any, *operands: None) -> list[Value | None]:
    return [None]


def _body(ctx: Context, name: str, operands: tuple[Value | None, ...]) -> list[Value | None]:
    return ctx.lower_block(ctx.functions[name].regions[0].blocks[0], operands)
