"""Exchanges between the devices of a program, by HCCL's operators on the communicators that devices.py names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.devices import Groups
from xla_npu.errors import Unsupported
from xla_npu.lowering.arrays import concat, reshape, slice_axis, transpose
from xla_npu.lowering.combiners import kind_on, kinds, ordered, signed, unordered
from xla_npu.lowering.context import Context, integers
from xla_npu.lowering.elementwise import joined, parts
from xla_npu.lowering.helpers import bitcast, broadcast_to, cast, zeros_like
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.lowering.movement import moved
from xla_npu.lowering.reduce import reduce_front
from xla_npu.lowering.registry import lowers

# What HCCL reduces (hccl.h, HcclAllReduce), by StableHLO's name of the combiner.
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_REDUCED = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")
_NO_PRODUCT = ("int16", "bfloat16")


@lowers("stablehlo.all_reduce")
def all_reduce(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    groups = ctx.devices.groups_of(op)
    if _alone(groups):
        return list(operands)
    block = op.regions[0].blocks[0]
    if len(operands) > 1 and len({value.dtype for value in operands}) == 1:
        return _all_reduced_together(ctx, groups, block, operands)
    return [_all_reduced(ctx, groups, block, value) for value in operands]


def _all_reduced_together(ctx: Context, groups: Groups, block: Any, values: Sequence[Value]) -> list[Value]:
    """As one array."""
    sizes = [math.prod(shape_of(value)) for value in values]
    flat = [reshape(ctx, value, (size,)) for value, size in zip(values, sizes, strict=True)]
    reduced = _all_reduced(ctx, groups, block, concat(ctx, flat, 0))
    ends = itertools.accumulate(sizes)
    return [
        reshape(ctx, slice_axis(ctx, reduced, 0, end - size, end), shape_of(value))
        for value, size, end in zip(values, sizes, ends, strict=True)
    ]


def _all_reduced(ctx: Context, groups: Groups, block: Any, value: Value) -> Value:
    if 0 in shape_of(value):
        return value
    name = ctx.devices.name(groups)
    reduced = _by_hccl(
        ctx, block, value, lambda x, how: ctx.add("HcomAllReduce", x, reduction=how, group=name)
    )
    return reduce_front(ctx, block, _gathered(ctx, groups, value)) if reduced is None else reduced


@lowers("stablehlo.reduce_scatter")
def reduce_scatter(ctx: Context, op: Any, operand: Value) -> Value:
    groups = ctx.devices.groups_of(op)
    result = ctx.result_type(op)
    if _alone(groups) or 0 in result.shape:
        return reshape(ctx, operand, result.shape)
    size, name = _size(groups, "reduce_scatter"), ctx.devices.name(groups)
    block = op.regions[0].blocks[0]
    pieces = _split(ctx, operand, int(op.attributes["scatter_dimension"]), size)
    reduced = _by_hccl(
        ctx,
        block,
        pieces,
        lambda x, how: ctx.add("HcomReduceScatter", x, reduction=how, group=name, rank_size=size),
    )
    if reduced is None:
        reduced = reduce_front(ctx, block, _exchanged(ctx, groups, pieces))
    return reshape(ctx, reduced, result.shape)


@lowers("stablehlo.all_gather")
def all_gather(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    groups = ctx.devices.groups_of(op)
    if _alone(groups):
        return list(operands)
    axis = int(op.attributes["all_gather_dim"])
    return [_joined(ctx, _gathered(ctx, groups, value), axis) for value in operands]


@lowers("stablehlo.all_to_all")
def all_to_all(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    groups = ctx.devices.groups_of(op)
    if _alone(groups):
        return list(operands)
    split, axis = int(op.attributes["split_dimension"]), int(op.attributes["concat_dimension"])
    count = _size(groups, "all_to_all")
    if count != int(op.attributes["split_count"]):
        raise Unsupported("an all_to_all splits by the number of devices in a group")
    return [
        _joined(ctx, _exchanged(ctx, groups, _split(ctx, value, split, count)), axis) for value in operands
    ]


@lowers("stablehlo.collective_broadcast")
def collective_broadcast(ctx: Context, op: Any, *operands: Value) -> list[Value]:
    groups = ctx.devices.groups_of(op)
    if sum(map(len, groups)) != ctx.devices.count:
        raise Unsupported("a collective_broadcast that leaves devices out is not supported on npu")
    return list(operands) if _alone(groups) else [_broadcast(ctx, groups, value) for value in operands]


# Made of stablehlo.collective_permute by partition/places.py, which knows the device's place.
@lowers("custom_call:npu.collective_permute")
def collective_permute(ctx: Context, op: Any, operand: Value, place: Value) -> Value:
    """Pairs that have no device in common exchange at a time: two turns, three for a ring of odd length."""
    flat = integers(op.attributes["npu.pairs"])
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    if 0 in shape_of(operand):
        return operand
    turns = _turns([pair for pair in pairs if pair[0] != pair[1]])
    arrived = [operand, *(_broadcast(ctx, _pair_groups(ctx, turn), operand) for turn in turns)]
    # Which of `arrived` is each place's result; -1: nobody sends to it, which gives zeros.
    source: np.ndarray[Any, Any] = np.full(ctx.devices.count, -1, np.int32)
    for sender, receiver in pairs:
        source[receiver] = 0 if sender == receiver else 1 + _turn_of(turns, sender)
    result: Value | None = None
    which = ctx.add("GatherV2", ctx.constant(source), reshape(ctx, place, (1,)), 0)
    for number in sorted(set(source.tolist())):
        each = zeros_like(ctx, operand) if number < 0 else arrived[number]
        result = each if result is None else _chosen(ctx, which, number, each, result)
    assert result is not None
    return result


def _chosen(ctx: Context, which: Value, number: int, each: Value, other: Value) -> Value:
    if each.dtype.kind == "c":
        pairs = zip(parts(ctx, each), parts(ctx, other), strict=True)
        return joined(ctx, *(_chosen(ctx, which, number, *pair) for pair in pairs))
    mine = ctx.add("Equal", which, ctx.constant(np.array([number], np.int32)))
    mine = reshape(ctx, mine, [1] * len(shape_of(each)))
    if each.dtype.kind == "u" and each.dtype.itemsize > 1:
        return bitcast(ctx, _select(ctx, mine, signed(ctx, each), signed(ctx, other)), each.dtype)
    return _select(ctx, mine, each, other)


def _select(ctx: Context, condition: Value, each: Value, other: Value) -> Value:
    return ctx.add("SelectV2", broadcast_to(ctx, condition, shape_of(each)), each, other)


def _turns(pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The pairs in turns in each of which a place is in one pair at most: along chains every second pair."""
    following = dict(pairs)
    starts = [a for a in following if a not in set(following.values())]
    turns: list[list[tuple[int, int]]] = []
    for start in (*starts, *following):  # chains from their beginning, then rings
        place, number = start, 0
        while place in following:
            pair = (place, following.pop(place))
            turn = next(
                t for t in (number % 2, 1 - number % 2, 2) if t >= len(turns) or not _busy(turns[t], pair)
            )
            while len(turns) <= turn:
                turns.append([])
            turns[turn].append(pair)
            place, number = pair[1], number + 1
    return [turn for turn in turns if turn]


def _busy(turn: Sequence[tuple[int, int]], pair: tuple[int, int]) -> bool:
    return any(place in other for other in turn for place in pair)


def _turn_of(turns: Sequence[Sequence[tuple[int, int]]], sender: int) -> int:
    return next(number for number, turn in enumerate(turns) if any(pair[0] == sender for pair in turn))


def _pair_groups(ctx: Context, pairs: Sequence[tuple[int, int]]) -> Groups:
    paired = {place for pair in pairs for place in pair}
    return (*pairs, *((place,) for place in range(ctx.devices.count) if place not in paired))


def _alone(groups: Groups) -> bool:
    return all(len(group) == 1 for group in groups)


def _size(groups: Groups, what: str) -> int:
    found = {len(group) for group in groups}
    if len(found) != 1:
        raise Unsupported(f"{what} between groups of different sizes is not supported on npu")
    return found.pop()


def _by_hccl(ctx: Context, block: Any, value: Value, reduced: Callable[[Value, str], Value]) -> Value | None:
    """The reduction by HCCL, None where it has none for the combiner and the type."""
    found, dtype = kinds(block), value.dtype
    kind = kind_on(found[0], dtype) if len(found) == 1 else None
    if dtype.kind == "b" and kind in ("or", "and"):
        return cast(ctx, reduced(cast(ctx, value, np.int8), "max" if kind == "or" else "min"), dtype)
    if dtype.kind == "b" or kind not in _REDUCTIONS:
        return None
    how = _REDUCTIONS[kind]
    if dtype.kind == "c":
        if kind != "add":
            return None
        halves = [_sum_of_part(part, reduced) for part in parts(ctx, value)]
        return None if halves[0] is None or halves[1] is None else joined(ctx, halves[0], halves[1])
    if kind in ("maximum", "minimum"):
        carrier = cast(ctx, value, np.int32) if dtype == np.uint8 else ordered(ctx, value)
        return unordered(ctx, reduced(carrier, how), dtype) if _reduces(carrier.dtype, how) else None
    carrier = bitcast(ctx, value, np.int8) if dtype == np.uint8 else signed(ctx, value)
    return bitcast(ctx, reduced(carrier, how), dtype) if _reduces(carrier.dtype, how) else None


def _sum_of_part(part: Value, reduced: Callable[[Value, str], Value]) -> Value | None:
    return reduced(part, "sum") if _reduces(part.dtype, "sum") else None


def _reduces(dtype: np.dtype[Any], how: str) -> bool:
    return dtype.name in _REDUCED and not (how == "prod" and dtype.name in _NO_PRODUCT)


def _through(ctx: Context, operator: str, value: Value, move: Callable[[Value], Value]) -> Value:
    """A movement between devices. Complex numbers go as their parts, other types that HCCL lacks as signed integers."""
    if value.dtype.kind == "c":
        return joined(ctx, *(_through(ctx, operator, part, move) for part in parts(ctx, value)))
    if value.dtype.kind == "b":
        return cast(ctx, move(cast(ctx, value, np.int8)), np.bool_)
    if value.dtype.kind == "u" and value.dtype.itemsize > 1:
        return bitcast(ctx, move(signed(ctx, value)), value.dtype)
    return moved(ctx, operator, value, move)


def _gathered(ctx: Context, groups: Groups, value: Value) -> Value:
    """The values of the group's devices, along a new first dimension."""
    size, name = _size(groups, "an exchange"), ctx.devices.name(groups)
    row = reshape(ctx, value, (1, *shape_of(value)))
    if 0 in shape_of(value):
        return broadcast_to(ctx, row, (size, *shape_of(value)))
    return _through(
        ctx, "HcomAllGather", row, lambda x: ctx.add("HcomAllGather", x, group=name, rank_size=size)
    )


def _exchanged(ctx: Context, groups: Groups, pieces: Value) -> Value:
    """Piece i of device j becomes piece j of device i; pieces along the first dimension."""
    if 0 in shape_of(pieces):
        return pieces
    name = ctx.devices.name(groups)
    return _through(ctx, "HcomAllToAll", pieces, lambda x: ctx.add("HcomAllToAll", x, group=name))


def _broadcast(ctx: Context, groups: Groups, value: Value) -> Value:
    """The value of the first device of the group."""
    if 0 in shape_of(value):
        return value
    name = ctx.devices.name(groups)
    return _through(
        ctx,
        "HcomBroadcast",
        value,
        lambda x: ctx.add_many("HcomBroadcast", [x], outputs=1, root_rank=0, group=name)[0],
    )


def _split(ctx: Context, value: Value, axis: int, count: int) -> Value:
    """[count, ...]: the value cut along an axis."""
    shape = shape_of(value)
    apart = reshape(ctx, value, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))
    return transpose(ctx, apart, [axis, *(i for i in range(len(shape) + 1) if i != axis)])


def _joined(ctx: Context, pieces: Value, axis: int) -> Value:
    """Pieces along the first dimension one after the other along an axis of theirs."""
    count, *shape = shape_of(pieces)
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
    moved_ = transpose(ctx, pieces, order)
    return reshape(ctx, moved_, (*shape[:axis], count * shape[axis], *shape[axis + 1 :]))
