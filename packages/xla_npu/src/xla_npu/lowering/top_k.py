"""The largest elements: chlo.top_k, and ApproxTopK, which is exact here."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.errors import Unsupported
from xla_npu.lowering.comparators import keys_of
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import cast, sizes
from xla_npu.lowering.registry import lowers
from xla_npu.lowering.sorting import sortable, take_along


@lowers("chlo.top_k", "composite:chlo.top_k")
def top_k(ctx: Context, op: Any, operand: Value) -> list[Value]:
    is_composite = "composite_attributes" in op.attributes
    attributes = op.attributes["composite_attributes"] if is_composite else op.attributes
    largest = bool(attributes["largest"].value) if "largest" in attributes else True
    axis = len(sizes(operand)) - 1
    return _selected(ctx, [operand], 0, axis, int(attributes["k"].value), largest, total=True)


@lowers("custom_call:ApproxTopK")
def approx_top_k(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    config = op.attributes["mhlo.backend_config"]
    count = len(op.results)
    axis = int(config["reduction_dim"].value) % len(sizes(operands[0]))
    comparator = ctx.functions[op.attributes["called_computations"][0].value].regions[0].blocks[0]
    keys = keys_of(comparator)
    left = list(comparator.arguments)[0::2]
    if keys is None or len(keys) != 1 or keys[0].value not in left:
        raise Unsupported(
            "approx_top_k by a comparator that does not compare one operand is not supported on npu"
        )
    k = ctx.result_type(op).shape[axis]
    return _selected(
        ctx, operands[:count], left.index(keys[0].value), axis, k, keys[0].descending, keys[0].total_order
    )


def _selected(
    ctx: Context, operands: Any, key: int, axis: int, k: int, largest: bool, total: bool
) -> list[Value]:
    """The k elements of each operand where the key is largest, in order; of one operand also their places, int32."""
    shape = sizes(operands[0])
    if k == 0 or 0 in shape:
        empty = [n if dim != axis else k for dim, n in enumerate(shape)]
        made = [ctx.constant(np.zeros(empty, value.dtype)) for value in operands]
        return [*made, ctx.constant(np.zeros(empty, np.int32))][: max(2, len(made))]
    _, places = ctx.add_many(
        "TopKV2", sortable(ctx, operands[key], total), np.array(k, np.int32), dim=axis, largest=largest
    )
    found = [take_along(ctx, value, places, axis) for value in operands]
    return found if len(operands) > 1 else [*found, cast(ctx, places, np.int32)]
