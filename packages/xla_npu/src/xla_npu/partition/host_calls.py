"""Calls of Python from programs on whole arrays: one device makes them, and the others get the results from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from xla_npu.devices import Groups
from xla_npu.host.python_callback import TARGET
from xla_npu.partition.emit import shape_of
from xla_npu.partition.mesh import Sharding, whole
from xla_npu.partition.partitioner import Part, Partitioner, partitions


@partitions(f"custom_call:{TARGET}")
def python_callback(
    p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]
) -> list[Part]:
    """In a manual computation it is made for each position along the manual axes."""
    gathered = [p.cut(part, whole(len(part.shape or ()))) for part in operands]
    values = [part.value for part in gathered]
    shapes = [shape_of(result) for result in op.results]
    if p.fully_manual:
        made = p.copy(op, values, shapes)
        return [p.whole(value) for value in made.results]
    groups = _groups(p, op)
    is_caller: np.ndarray[Any, Any] = np.zeros(p.emit.devices, np.int32)
    is_caller[[group[0] for group in groups]] = 1
    types = [result.type for result in op.results]
    branch = p.emit.op("stablehlo.case", [p.emit.table(is_caller)], types, regions=2)
    for region, calls in zip(branch.regions, (False, True), strict=True):
        with p.emit.into(ir.InsertionPoint(region.blocks.append())):
            results = p.copy(op, values, shapes).results if calls else map(p.emit.zeros, types)
            p.emit.op("stablehlo.return", list(results), [])
    return [p.whole(p.emit.from_first(value, groups)) for value in branch.results]


def _groups(p: Partitioner, op: Any) -> Groups:
    """The devices that one call is for, the caller first: all, by Shardy's maximal sharding or else from the first one;
    in a manual computation those at the same position along the manual axes."""
    if p.manual:
        mesh = p.meshes.mesh(next(iter(p.manual)).mesh)
        return mesh.groups([axis for axis in mesh.axes if axis not in p.manual])
    caller = _caller(p, op)
    return ((caller, *(place for place in range(p.emit.devices) if place != caller)),)


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
