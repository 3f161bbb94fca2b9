"""Operations with blocks of program in them: loops, branches, manual computations; and what only says where values
are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from xla_npu.errors import CompileError, Unsupported
from xla_npu.lowering.context import captured
from xla_npu.partition.emit import shape_of
from xla_npu.partition.mesh import Axis, Sharding, divided, local_shape, mesh_name
from xla_npu.partition.partitioner import PLACING, Part, Partitioner, partitions


# The partitioner cuts results as these ask. Shardy writes all_reduce where the sum of summands is asked for: values here
# are the sums anyway.
@partitions(*PLACING)
def placing(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    return list(operands)


@partitions("sdy.propagation_barrier", "sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced")
def barrier(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    return list(operands)


@partitions("sdy.sharding_group")
def group(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    return []


@partitions("stablehlo.optimization_barrier")
def optimization_barrier(
    p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]
) -> list[Part]:
    values = [part.value for part in operands]
    made = p.emit.op(op.name, values, [value.type for value in values])
    return [Part(v, part.shape, part.sharding) for v, part in zip(made.results, operands, strict=True)]


@partitions("stablehlo.while")
def while_(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    """The state is cut as the loop's results are, in every turn."""
    state = [p.cut(part, sharding) for part, sharding in zip(operands, wanted, strict=True)]
    types = [p.local_type(result, sharding) for result, sharding in zip(op.results, wanted, strict=True)]
    made = p.emit.op(op.name, [part.value for part in state], types, regions=2)
    for number, region in enumerate(op.regions):
        source = region.blocks[0]
        block = made.regions[number].blocks.append(*types, arg_locs=[op.location] * len(types))
        for outer, inner, part in zip(source.arguments, block.arguments, state, strict=True):
            p.define(outer, Part(inner, part.shape, part.sharding))
        with p.emit.into(ir.InsertionPoint(block)):
            returned = p.block(source)
            if number == 1:
                returned = [p.cut(part, sharding) for part, sharding in zip(returned, wanted, strict=True)]
            p.emit.op("stablehlo.return", [part.value for part in returned], [])
    return [Part(v, part.shape, part.sharding) for v, part in zip(made.results, state, strict=True)]


@partitions("stablehlo.case", "stablehlo.if")
def case(p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]) -> list[Part]:
    types = [p.local_type(result, sharding) for result, sharding in zip(op.results, wanted, strict=True)]
    made = p.emit.op(op.name, [operands[0].value], types, regions=len(op.regions))
    shapes: list[tuple[int, ...] | None] = []
    for number, region in enumerate(op.regions):
        block = made.regions[number].blocks.append()
        with p.emit.into(ir.InsertionPoint(block)):
            returned = [
                p.cut(part, sharding)
                for part, sharding in zip(p.block(region.blocks[0]), wanted, strict=True)
            ]
            p.emit.op("stablehlo.return", [part.value for part in returned], [])
        shapes = [part.shape for part in returned]
    return [Part(v, shape, s) for v, shape, s in zip(made.results, shapes, wanted, strict=True)]


@partitions("sdy.manual_computation")
def manual_computation(
    p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]
) -> list[Part]:
    """The block is written where the operation stands: its values are this device's along the manual axes."""
    given = _shardings(op, "in_shardings")
    returned = _shardings(op, "out_shardings")
    outer = p.manual
    manual = outer
    for each in (*given, *returned):
        manual |= p.meshes.manual_axes(mesh_name(each), op.attributes["manual_axes"])
    block = op.regions[0].blocks[0]
    for argument, operand, sharding in zip(block.arguments, op.operands, given, strict=True):
        outside, inside = _both(p, sharding, shape_of(operand), manual, shape_of(argument))
        summed = tuple(axis for axis in p.meshes.unreduced(sharding) if axis not in outer)
        _check_summed(summed, manual)
        part = p.summand(operand, outside, summed) if summed else p.cut(p.part(operand), outside)
        p.define(argument, Part(part.value, shape_of(argument), inside))
    for value in captured(op.regions):
        p.part(value)
    p.manual = manual
    inner = p.block(block)
    p.manual = outer
    results = []
    for result, part, sharding in zip(op.results, inner, returned, strict=True):
        outside, inside = _both(p, sharding, shape_of(result), manual, part.shape or ())
        summed = tuple(axis for axis in p.meshes.unreduced(sharding) if axis not in outer)
        _check_summed(summed, manual)
        results.append(Part(p.cut(part, inside).value, shape_of(result), outside, summed))
    return results


def _check_summed(summed: Sequence[Axis], manual: frozenset[Axis]) -> None:
    if any(axis not in manual for axis in summed):
        raise Unsupported("an unreduced operand or result of shard_map along an axis that it does not name")


def _both(
    p: Partitioner,
    sharding: Any,
    outer_shape: Sequence[int],
    manual: frozenset[Axis],
    inner_shape: Sequence[int],
) -> tuple[Sharding, Sharding]:
    """The sharding of a manual computation's operand or result seen from outside and, without the manual axes, from
    inside. Manual axes come first in each dimension."""
    axes_of_dims = [
        tuple(axis for axis in axes if axis not in p.manual) for axes in p.meshes.decode(sharding)
    ]
    leading = tuple(tuple(a for a in axes if a in manual) for axes in axes_of_dims)
    if any(axes[: len(lead)] != lead for axes, lead in zip(axes_of_dims, leading, strict=True)):
        raise CompileError("a manual computation cuts a dimension by a manual axis behind another one")
    if local_shape(outer_shape, leading) != tuple(inner_shape):
        raise CompileError(
            f"a manual computation cuts {tuple(outer_shape)} to {tuple(inner_shape)}, its shardings do not"
        )
    free = (tuple(axis for axis in axes if axis not in manual) for axes in axes_of_dims)
    inside = tuple(divided(axes, size) for axes, size in zip(free, inner_shape, strict=True))
    return tuple((*lead, *axes) for lead, axes in zip(leading, inside, strict=True)), inside


def _shardings(op: Any, name: str) -> list[Any]:
    per_value = sdy.TensorShardingPerValueAttr(op.attributes[name])
    return [sdy.TensorShardingAttr(each) for each in per_value.shardings]
