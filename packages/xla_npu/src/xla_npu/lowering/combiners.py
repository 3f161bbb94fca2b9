"""Regions that combine two numbers: what they are, and their use on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import bitcast, broadcast_to, cast
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.types import tensor_type

# What a region computes, as a tree: ("add", 0, 1) is the sum of its first two arguments; comparisons are
# ("compare", direction, a, b); what is neither an argument nor made of them is the operation's name alone.
Expression = Any

_ARITHMETIC = {"add": "Add", "multiply": "Mul"}
_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


def combine(ctx: Context, block: Any, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """The region's results for two arrays (or an array and a number) each, by NumPy's broadcasting.

    Sums and products may also be of a wider type than the region's.
    """
    if left[0].dtype != result_types(block)[0]:
        names = [_ARITHMETIC[kind or ""] for kind in kinds(block)]
        return [ctx.add(name, *pair) for name, *pair in zip(names, left, right, strict=True)]
    shape = np.broadcast_shapes(*(shape_of(value) for value in (*left, *right)))
    results = ctx.lower_block(block, [*left, *right])
    return [broadcast_to(ctx, value, shape) for value in results if value is not None]


def expressions(block: Any) -> list[Expression]:
    """What a region of scalars returns, as trees."""
    known: dict[Any, Expression] = {argument: index for index, argument in enumerate(block.arguments)}
    for op in block.operations:
        name = op.operation.name.rpartition(".")[2]
        operands = [known.get(value, "?") for value in op.operands]
        if name == "return":
            return operands
        if name == "compare":
            operands.insert(0, str(op.attributes["comparison_direction"]).split()[-1].strip(">"))
        for result in op.results:
            known[result] = (name, *operands) if operands else name
    return []


def kinds(block: Any) -> list[str | None]:
    """The name of the one operation by which each result combines its own two arguments, None where it is more."""
    results = expressions(block)
    count = len(results)
    found: list[str | None] = []
    for index, tree in enumerate(results):
        pair = (index, count + index)
        plain = isinstance(tree, tuple) and len(tree) == 3 and tree[1:] in (pair, pair[::-1])
        found.append(tree[0] if plain else None)
    return found


def kind_on(kind: str | None, dtype: np.dtype[Any]) -> str | None:
    """The kind with the names that logic has on booleans, and None for what is no operation of a monoid."""
    if dtype.kind == "b":
        return {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}.get(kind or "", kind)
    return kind


def is_identity(kind: str | None, init: Value) -> bool:
    """Whether combining with `init`, a constant, changes nothing."""
    number, dtype = init.constant, init.dtype
    if number is None or kind is None or number.size != 1:
        return False
    identity = _identity(kind_on(kind, dtype), dtype)
    return identity is not None and bool(number.reshape(()) == identity)


def _identity(kind: str | None, dtype: np.dtype[Any]) -> Any:
    integer = dtype.kind in "iu"
    match kind:
        case "add" | "or" | "xor":
            return np.zeros((), dtype)
        case "multiply":
            return np.ones((), dtype)
        case "and":
            return np.ones((), dtype) if dtype.kind == "b" else np.invert(np.zeros((), dtype))
        case "maximum" if dtype.kind != "c":
            return np.array(np.iinfo(dtype).min if integer else -np.inf, dtype)
        case "minimum" if dtype.kind != "c":
            return np.array(np.iinfo(dtype).max if integer else np.inf, dtype)
    return None


def signed(ctx: Context, value: Value) -> Value:
    """Wide unsigned integers as signed ones: their sums and products have the same bits."""
    if value.dtype.kind != "u" or value.dtype.itemsize == 1:
        return value
    return bitcast(ctx, value, np.dtype(_SIGNED[value.dtype.itemsize]))


def ordered(ctx: Context, value: Value) -> Value:
    """Wide unsigned integers, and booleans, as signed ones in the same order; `unordered` turns them back."""
    if value.dtype.kind == "b":
        return cast(ctx, value, np.dtype(np.uint8))
    if value.dtype in (np.uint16, np.uint32):
        return cast(ctx, value, np.dtype(np.int32 if value.dtype == np.uint16 else np.int64))
    if value.dtype == np.uint64:
        return _top_bit_flipped(ctx, bitcast(ctx, value, np.dtype(np.int64)))
    return value


def unordered(ctx: Context, value: Value, dtype: np.dtype[Any]) -> Value:
    """Back to the type that `ordered` was given."""
    if dtype == np.uint64:
        return bitcast(ctx, _top_bit_flipped(ctx, value), dtype)
    return cast(ctx, value, dtype)


def _top_bit_flipped(ctx: Context, value: Value) -> Value:
    return ctx.add("BitwiseXor", value, ctx.constant(np.array(np.iinfo(np.int64).min)))


def result_types(block: Any) -> list[np.dtype[Any]]:
    """What the region combines: its first half of arguments."""
    return [
        tensor_type(argument.type).dtype for argument in list(block.arguments)[: len(block.arguments) // 2]
    ]
