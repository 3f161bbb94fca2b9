"""Arrays made from nothing: iota."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.convert import to_dtype
from xla_npu.lowering.helpers import broadcast_to
from xla_npu.lowering.registry import lowers
from xla_npu.lowering.storage import encode, number_dtype

_LONGEST_CONSTANT = 1 << 10  # elements that travel in the model instead of being made by Range


@lowers("stablehlo.iota", "stablehlo.dynamic_iota")
def iota(ctx: Context, op: Any, *shape: Value) -> Value:
    type_ = ctx.result_type(op)
    dimension = int(op.attributes["iota_dimension"].value)
    line = count(
        ctx, type_.shape[dimension], number_dtype(type_.element) if type_.element.is_storage else type_.dtype
    )
    if type_.element.is_storage:
        line = encode(ctx, line, type_.element)
    behind = type_.rank - 1 - dimension
    if behind:
        line = ctx.add("Reshape", line, np.array([-1, *([1] * behind)], np.int64))
    return broadcast_to(ctx, line, type_.shape)


def count(ctx: Context, size: int, dtype: Any) -> Value:
    """(size,): 0, 1, ... of any dtype."""
    dtype = np.dtype(dtype)
    if size <= _LONGEST_CONSTANT:
        return ctx.constant(np.arange(size).astype(dtype))
    number = np.int32 if size < 1 << 31 else np.int64
    whole = ctx.add("Range", number(0), number(size), number(1))
    return to_dtype(ctx, whole, dtype)
