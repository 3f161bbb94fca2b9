"""Operations that make values: constants and counts; and what must not be computed on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from jaxlib.mlir import ir

from xla_npu.errors import Unsupported
from xla_npu.lowering.registry import COMPOSITE, rule_name
from xla_npu.partition.composites import TOP_K
from xla_npu.partition.emit import shape_of
from xla_npu.partition.host_calls import has_side_effect
from xla_npu.partition.mesh import Sharding, axes_of, local_shape
from xla_npu.partition.partitioner import Part, Partitioner, partitions
from xla_npu.partition.rules import Factors, alike, compute
from xla_npu.types import tensor_type

_EXACT = ("int32", "int64", "uint32", "uint64", "float64")


@partitions("stablehlo.constant")
def constant(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    shape, sharding = shape_of(op.results[0]), wanted[0]
    try:
        value = op.attributes["value"]
    except TypeError:  # complex numbers: jaxlib reads no attribute of them
        value = None
    if not any(sharding) or not getattr(value, "is_splat", False):
        made = p.emit.copy(op, [], [shape], {})
        return [p.cut(p.whole(made.results[0]), sharding)]
    type_ = p.local_type(op.results[0], sharding)
    splat = ir.DenseElementsAttr.get_splat(type_, ir.DenseElementsAttr(value).get_splat_value())
    made = p.emit.op(op.name, [], [type_], {"value": splat})
    return [Part(made.results[0], shape, sharding)]


@partitions("stablehlo.iota")
def iota(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    shape, sharding = shape_of(op.results[0]), wanted[0]
    axis = int(op.attributes["iota_dimension"])
    dtype = tensor_type(op.results[0].type).element.numpy
    exact = dtype.name in _EXACT or (dtype == np.float32 and shape[axis] <= 1 << 24)
    if sharding[axis] and not exact:  # sums of rounded numbers are not the rounded sum
        sharding = (*sharding[:axis], (), *sharding[axis + 1 :])
    local = local_shape(shape, sharding)
    value = p.emit.copy(op, [], [local], {}).results[0]
    if sharding[axis]:
        position = p.emit.position(sharding[axis])
        size = p.emit.constant(np.array(local[axis], np.int32))
        scalar = p.emit.typed(value, [])
        offset = p.emit.op("stablehlo.convert", [p.emit.binary("multiply", position, size)], [scalar])
        value = p.emit.binary("add", value, p.emit.broadcast(offset.results[0], value.type))
    return [Part(value, shape, sharding)]


@partitions("stablehlo.partition_id", "stablehlo.replica_id")
def number(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    if not p.manual:
        raise Unsupported(
            "the number of the device has no meaning in a program on whole arrays: use shard_map"
        )
    if not p.fully_manual:
        raise Unsupported("the number of the device in a region that is manual along some axes only")
    return [p.whole(p.emit.copy(op, [], [()], {}).results[0])]


@partitions("stablehlo.rng")
def rng(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> NoReturn:
    raise Unsupported("stablehlo.rng draws other numbers on each device: use jax.random with a key")


_ALONG = {"stablehlo.all_gather": ("all_gather_dim",), "stablehlo.reduce_scatter": ("scatter_dimension",),
          "stablehlo.all_to_all": ("split_dimension", "concat_dimension")}  # fmt: skip


@partitions(
    "stablehlo.all_reduce",
    "stablehlo.collective_permute",
    "stablehlo.collective_broadcast",
    *_ALONG,
)
def exchange(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    """An exchange of the program's own, in a manual computation: on parts if it is between devices that have the same
    part, along dimensions that are not cut."""
    if not p.manual:
        raise Unsupported("an exchange between devices outside of a manual computation (shard_map)")
    along = {int(op.attributes[name]) for name in _ALONG.get(op.name, ())}
    given = [
        p.cut(part, tuple(() if dim in along else axes for dim, axes in enumerate(part.sharding)))
        for part in operands
    ]
    cut = {axis for part in given for axis in axes_of(part.sharding)}
    _check_same_part(p, op, cut)
    shapes = []
    for result, part in zip(op.results, given, strict=True):
        shapes.append(local_shape(shape_of(result), part.sharding))
    made = p.copy(op, [part.value for part in given], shapes)
    return [
        Part(value, shape_of(result), part.sharding)
        for value, result, part in zip(made.results, op.results, given, strict=True)
    ]


def _check_same_part(p: Partitioner, op: Any, cut: set[Any]) -> None:
    rows = op.attributes[
        "source_target_pairs" if op.name == "stablehlo.collective_permute" else "replica_groups"
    ]
    free = {axis for axis in p.meshes.mesh(next(iter(p.manual)).mesh).axes if axis not in p.manual} | cut
    if not free:
        return
    order = tuple(sorted(free, key=lambda axis: (axis.mesh, axis.number)))
    positions = p.meshes.mesh(order[0].mesh).positions(order)
    for row in np.asarray(rows):
        if len({int(positions[place]) for place in row if place >= 0}) > 1:
            raise Unsupported("an exchange along axes that the manual computation does not name")


@partitions("stablehlo.custom_call")
def custom_call(
    p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]
) -> Sequence[Part] | None:
    factors = composite(op)
    if factors is not None:
        return compute(p, op, operands, wanted, factors)
    if p.fully_manual:
        return p.replicated(op, operands)
    if has_side_effect(op):
        target = op.attributes["call_target_name"].value
        raise Unsupported(
            f"the custom call '{target}' has side effects, which every device would have: use it in shard_map"
        )
    return None


def composite(op: Any) -> Factors | None:
    """Of a call that was a composite (composites.py)."""
    if COMPOSITE not in op.attributes:
        return None
    if rule_name(op) != TOP_K:
        return alike(op)
    last = len(shape_of(op.operands[0])) - 1
    dims = (*range(last), None)
    return Factors((dims,), (dims, dims))
