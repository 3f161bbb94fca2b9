"""What says where values are: shardings and collectives of programs of one device, memory kinds, device numbers.

Programs over several devices are refused before they come here, so that a group of devices is this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.registry import lowers


# A memory kind within a program is a hint; those of parameters and results are in their types (compile.py).
@lowers(
    "custom_call:Sharding",
    "custom_call:SPMDFullToShardShape",
    "custom_call:SPMDShardToFullShape",
    "custom_call:annotate_device_placement",
    "custom_call:xla.sdy.FuncResultSharding",
    "custom_call:xla.sdy.GlobalToLocalShape",
    "custom_call:xla.sdy.LocalToGlobalShape",
    "sdy.sharding_constraint",
    "sdy.reshard",
    "stablehlo.all_reduce",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
)
def same(ctx: Context, op: Any, *operands: Value) -> Sequence[Value]:
    return operands


@lowers("stablehlo.collective_permute")
def collective_permute(ctx: Context, op: Any, operand: Value) -> Value:
    if np.asarray(op.attributes["source_target_pairs"]).size:
        return operand
    # Nobody sends to this device.
    return ctx.add("ZerosLike", operand)


@lowers("stablehlo.partition_id", "stablehlo.replica_id")
def number(ctx: Context, op: Any) -> Value:
    return ctx.constant(np.zeros((), np.uint32))
