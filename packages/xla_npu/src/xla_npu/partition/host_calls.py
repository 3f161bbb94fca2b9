"""Calls of Python from programs on whole arrays: one device makes them, and the others get the results from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from xla_npu.errors import Unsupported
from xla_npu.host.python_callback import TARGET
from xla_npu.partition.emit import shape_of
from xla_npu.partition.mesh import Sharding, whole
from xla_npu.partition.partitioner import Part, Partitioner, partitions


@partitions(f"custom_call:{TARGET}")
def python_callback(
    p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]
) -> list[Part]:
    """In a manual computation each device calls with its own part."""
    gathered = [p.cut(part, whole(len(part.shape or ()))) for part in operands]
    values = [part.value for part in gathered]
    shapes = [shape_of(result) for result in op.results]
    if p.manual:
        if has_side_effect(op) and not p.fully_manual:
            raise Unsupported("a callback with side effects in a region that is manual along some axes only")
        made = p.copy(op, values, shapes)
        return [p.whole(value) for value in made.results]
    caller = _caller(p, op)
    is_caller = (np.arange(p.emit.devices) == caller).astype(np.int32)
    types = [result.type for result in op.results]
    branch = p.emit.op("stablehlo.case", [p.emit.table(is_caller)], types, regions=2)
    for region, calls in zip(branch.regions, (False, True), strict=True):
        with p.emit.into(ir.InsertionPoint(region.blocks.append())):
            results = p.copy(op, values, shapes).results if calls else map(p.emit.zeros, types)
            p.emit.op("stablehlo.return", list(results), [])
    return [p.whole(p.emit.from_device(value, caller)) for value in branch.results]


def has_side_effect(op: Any) -> bool:
    """Whether a custom call does more than compute its results."""
    return "has_side_effect" in op.attributes and bool(op.attributes["has_side_effect"].value)


def _caller(p: Partitioner, op: Any) -> int:
    """The device that Shardy's maximal sharding names, else the first."""
    if "sdy.sharding" in op.attributes:
        for each in sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"]).shardings:
            device = p.meshes.only_device(sdy.TensorShardingAttr(each))
            if device is not None:
                return device
    return 0


__all__ = ["has_side_effect", "python_callback"]
