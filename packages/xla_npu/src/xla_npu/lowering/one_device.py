"""What says where values are: shardings and device numbers in programs of one device, and memory kinds.

The partitioner takes all of these but memory kinds out of programs for several devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.errors import INTERNAL, CompileError
from xla_npu.lowering.context import Context
from xla_npu.lowering.registry import lowers, rule_name

_PLACEMENT = "custom_call:annotate_device_placement"


# A memory kind within a program is a hint; those of parameters and results are in their types (compile.py).
@lowers(
    "custom_call:Sharding",
    "custom_call:SPMDFullToShardShape",
    "custom_call:SPMDShardToFullShape",
    _PLACEMENT,
    "custom_call:xla.sdy.FuncResultSharding",
    "custom_call:xla.sdy.GlobalToLocalShape",
    "custom_call:xla.sdy.LocalToGlobalShape",
    "sdy.sharding_constraint",
    "sdy.reshard",
)
def same(ctx: Context, op: Any, *operands: Value) -> Sequence[Value]:
    if ctx.devices.count > 1 and rule_name(op) != _PLACEMENT:
        raise CompileError(f"{op.name} stands in a program that is partitioned already", INTERNAL)
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
