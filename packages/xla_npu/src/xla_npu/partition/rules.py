"""How operations are computed on parts: which dimensions of operands and results belong together.

An operation's *factors* are the sizes that it loops over: each dimension of an operand or result is one factor, or none
where the operation needs all of it. A factor may be cut if every operand and result that has it is cut alike; if no
result has it, results are partial and are combined over the devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xla_npu.errors import Unsupported
from xla_npu.partition.emit import shape_of
from xla_npu.partition.mesh import Axes, Axis, Sharding, divided, local_shape
from xla_npu.partition.partitioner import Part, Partitioner, partitions

# The factor of each dimension, None where the operation needs all of it.
Dims = tuple["int | None", ...]


@dataclass(frozen=True)
class Factors:
    """`combiner`: by which StableHLO operation partial results are combined, "" where no factor may be cut that the
    results lack. `sizes`: what a factor's cuts must divide besides the dimensions. `attributes`: those that change with
    the sizes of the parts, from the local shapes of operands and results. `wide`: the results are larger than what they
    are made of, so that operands had better be gathered than results."""

    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    combiner: str = ""
    sizes: Mapping[int, int] = field(default_factory=dict)
    attributes: Callable[[list[tuple[int, ...]], list[tuple[int, ...]]], dict[str, Any]] | None = None
    wide: bool = False


FactorRule = Callable[[Any], "Factors | None"]


def by_factors(*names: str) -> Callable[[FactorRule], FactorRule]:
    """Registers operations whose factors the function tells, None where it cannot."""

    def register(rule: FactorRule) -> FactorRule:
        def partition(
            p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding]
        ) -> list[Part] | None:
            factors = rule(op)
            return None if factors is None else compute(p, op, operands, wanted, factors)

        partitions(*names)(partition)
        return rule

    return register


def compute(
    p: Partitioner, op: Any, operands: Sequence[Part], wanted: Sequence[Sharding], factors: Factors
) -> list[Part]:
    """Chooses the cut of each factor, brings the operands to it, computes, and combines partial results."""
    axes = _choose(op, operands, wanted, factors)
    given = [
        p.cut(part, tuple(_axes(axes, f) for f in dims))
        for part, dims in zip(operands, factors.operands, strict=True)
    ]
    shardings = [tuple(_axes(axes, f) for f in dims) for dims in factors.results]
    local_in = [local_shape(part.shape or (), part.sharding) for part in given]
    local_out = [
        local_shape(shape_of(result), sharding)
        for result, sharding in zip(op.results, shardings, strict=True)
    ]
    changed = factors.attributes(local_in, local_out) if factors.attributes is not None else {}
    made = p.copy(op, [part.value for part in given], local_out, changed)
    kept = {f for dims in factors.results for f in dims}
    partial: Axes = tuple(axis for f, own in sorted(axes.items()) if f not in kept for axis in own)
    return [
        _combined(p, Part(value, shape_of(result), sharding), partial, factors.combiner)
        for value, result, sharding in zip(made.results, op.results, shardings, strict=True)
    ]


def _axes(axes: Mapping[int, Axes], factor: int | None) -> Axes:
    return () if factor is None else axes.get(factor, ())


def _combined(p: Partitioner, part: Part, partial: Axes, combiner: str) -> Part:
    """Partial sums are left to the partitioner, which may add some first."""
    if not partial:
        return part
    if combiner == "add":
        return replace(part, partial=partial)
    return replace(part, value=p.emit.all_reduce(part.value, partial, combiner))


def _choose(
    op: Any, operands: Sequence[Part], wanted: Sequence[Sharding], factors: Factors
) -> dict[int, Axes]:
    """First sums whose operands agree on how they are cut, then as the results are wanted, then as the largest
    operand is."""
    ins = [
        (part.shape or (), part.sharding, dims) for part, dims in zip(operands, factors.operands, strict=True)
    ]
    outs = [
        (shape_of(result), sharding, dims)
        for result, sharding, dims in zip(op.results, wanted, factors.results, strict=True)
    ]
    limits: dict[int, list[int]] = {factor: [size] for factor, size in factors.sizes.items()}
    for shape, _, dims in (*ins, *outs):
        for size, factor in zip(shape, dims, strict=True):
            if factor is not None:
                limits.setdefault(factor, []).append(size)
    chosen: dict[int, Axes] = {}
    used: set[Axis] = set()
    meshes: set[str] = set()

    def assign(factor: int | None, axes: Axes) -> None:
        if factor is None or factor in chosen or not axes:
            return
        free: list[Axis] = []
        for axis in divided(axes, *limits[factor]):
            if axis in used or (meshes and axis.mesh not in meshes):
                break
            free.append(axis)
            used.add(axis)
            meshes.add(axis.mesh)
        if free:
            chosen[factor] = tuple(free)

    summed = {f for *_, dims in ins for f in dims if f is not None} - {
        f for *_, dims in outs for f in dims if f is not None
    }
    for factor in sorted(summed):
        cuts = {
            axes for _, sharding, dims in ins for axes, f in zip(sharding, dims, strict=True) if f == factor
        }
        if factors.combiner and len(cuts) == 1:
            assign(factor, next(iter(cuts)))
    ins = [] if factors.wide else sorted(ins, key=lambda each: -math.prod(each[0]))
    for _, sharding, dims in (*sorted(outs, key=lambda each: -math.prod(each[0])), *ins):
        for axes, factor in zip(sharding, dims, strict=True):
            if factors.combiner or factor not in summed:
                assign(factor, axes)
    return chosen


def alike(op: Any) -> Factors:
    """Operands of the result's sizes, or scalars: elementwise."""
    rank = len(shape_of(op.results[0]))
    return Factors(
        tuple(tuple(range(rank)) if shape_of(v) else () for v in op.operands),
        tuple(tuple(range(rank)) for _ in op.results),
    )


def same_sizes(op: Any) -> bool:
    """Whether all operands and results of some dimensions have the same ones."""
    return len({shape_of(v) for v in (*op.operands, *op.results) if shape_of(v)}) <= 1


def require(condition: bool, what: str) -> None:
    """Raises Unsupported."""
    if not condition:
        raise Unsupported(what)
