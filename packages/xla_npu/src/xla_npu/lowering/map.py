"""map: a region of scalars over whole arrays."""

from __future__ import annotations

from typing import Any

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import broadcast_to
from xla_npu.lowering.registry import lowers


@lowers("stablehlo.map")
def map_(ctx: Context, op: Any, *operands: Value) -> Value:
    result = ctx.lower_block(op.regions[0].blocks[0], operands)[0]
    assert result is not None
    return broadcast_to(ctx, result, ctx.result_type(op).shape)
