"""Random bits. The algorithms and how their counters run over an array are XLA's (xla/hlo/builder/lib/prng.cc,
rng_bit_generator_expander.cc), so that a state gives the same bits as on a CPU.

Words are held signed: only bits matter. Threefry's are int32, Philox's products need int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.errors import Unsupported
from xla_npu.lowering.context import Context
from xla_npu.lowering.convert import to_dtype
from xla_npu.lowering.helpers import bitcast, cast, is_float, scalar, sizes
from xla_npu.lowering.integers import ordered, shift_right_by
from xla_npu.lowering.iota import count
from xla_npu.lowering.registry import lowers
from xla_npu.types import TensorType

_WORD = 0xFFFFFFFF
# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)


@lowers("stablehlo.rng_bit_generator")
def rng_bit_generator(ctx: Context, op: Any, state: Value) -> list[Value]:
    type_ = ctx.result_type(op, 1)
    algorithm = str(op.attributes["rng_algorithm"])
    if state.dtype.itemsize != 8:
        raise Unsupported(
            f"a state of {state.dtype.name} is not supported by rng_bit_generator on npu; give it uint64"
        )
    generate = _threefry_bits if "THREE_FRY" in algorithm else _philox_bits
    words = bitcast(ctx, state, np.int64)
    parts = [_element(ctx, words, i) for i in range(sizes(words)[0])]
    bits, parts = generate(ctx, parts, type_)
    if bits.dtype.itemsize != type_.dtype.itemsize:
        bits = cast(ctx, bits, np.dtype(f"i{type_.dtype.itemsize}"))
    new = bitcast(ctx, ctx.add("ConcatV2", parts, np.array(0, np.int32)), state.dtype)
    return [new, bitcast(ctx, bits, type_.dtype)]


def _element(ctx: Context, words: Value, index: int) -> Value:
    return ctx.add("Slice", words, np.array([index], np.int64), np.array([1], np.int64))


def _reshape(ctx: Context, value: Value, shape: Sequence[int]) -> Value:
    return ctx.add("Reshape", value, np.array(shape, np.int64))


# Threefry2x32.


def threefry(ctx: Context, key: Sequence[Value], words: Sequence[Value]) -> tuple[Value, Value]:
    """The 20 rounds on two arrays of int32, with two keys that broadcast to them."""
    parity = ctx.add("BitwiseXor", ctx.add("BitwiseXor", key[0], key[1]), scalar(ctx, _PARITY, np.int32))
    keys = (key[0], key[1], parity)
    x, y = ctx.add("Add", words[0], keys[0]), ctx.add("Add", words[1], keys[1])
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = ctx.add("Add", x, y)
            y = ctx.add("BitwiseXor", x, _rotated(ctx, y, rotation))
        x = ctx.add("Add", x, keys[(group + 1) % 3])
        injected = ctx.add("Add", keys[(group + 2) % 3], scalar(ctx, group + 1, np.int32))
        y = ctx.add("Add", y, injected)
    return x, y


def _rotated(ctx: Context, value: Value, by: int) -> Value:
    up = ctx.add("LeftShift", value, scalar(ctx, by, np.int32))
    return ctx.add("BitwiseOr", up, shift_right_by(ctx, value, 32 - by))


def _halves(ctx: Context, value: Value) -> list[Value]:
    """The low and the high word of int64, as int32."""
    return [cast(ctx, value, np.int32), cast(ctx, shift_right_by(ctx, value, 32), np.int32)]


def _threefry_bits(ctx: Context, state: list[Value], type_: TensorType) -> tuple[Value, list[Value]]:
    wide = type_.dtype.itemsize == 8
    half, joined, axis = (type_.shape, (), 0) if wide else _split_shape(type_.shape)
    size = prod(half)
    counters = ctx.add("Add", state[1], count(ctx, size, np.int64))
    x, y = threefry(ctx, _halves(ctx, state[0]), _halves(ctx, counters))
    new = [state[0], ctx.add("Add", state[1], scalar(ctx, size, np.int64))]
    if wide:
        return _reshape(ctx, _joined(ctx, x, y), type_.shape), new
    if not type_.shape:
        return _reshape(ctx, x, ()), new
    both = ctx.add("ConcatV2", [_reshape(ctx, v, half) for v in (x, y)], np.array(axis, np.int32))
    whole = _reshape(ctx, both, joined)
    if joined != type_.shape:
        whole = ctx.add("Slice", whole, np.zeros(len(joined), np.int64), np.array(type_.shape, np.int64))
    return whole, new


def _joined(ctx: Context, low: Value, high: Value) -> Value:
    """int64 of two words of int32."""
    rest = ctx.add("BitwiseAnd", cast(ctx, low, np.int64), scalar(ctx, _WORD, np.int64))
    upper = ctx.add("LeftShift", cast(ctx, high, np.int64), scalar(ctx, 32, np.int64))
    return ctx.add("BitwiseOr", upper, rest)


def _split_shape(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The shape of each half with a dimension of 1 to join them along, that of both joined, and that dimension.

    The first even dimension is halved, or else the (first) largest, rounded up.
    """
    if not shape:
        return (1,), (1,), 0
    even = [i for i, size in enumerate(shape) if size % 2 == 0]
    at = even[0] if even else shape.index(max(shape))
    half = (shape[at] + 1) // 2
    return (*shape[:at], half, 1, *shape[at + 1 :]), (*shape[:at], 2 * half, *shape[at + 1 :]), at + 1


# Philox4x32, words as int64 from 0 to 2**32 - 1.


def _masked(ctx: Context, value: Value) -> Value:
    return ctx.add("BitwiseAnd", value, scalar(ctx, _WORD, np.int64))


def _words(ctx: Context, value: Value) -> list[Value]:
    return [_masked(ctx, value), shift_right_by(ctx, value, 32)]


def _philox(ctx: Context, key: list[Value], words: list[Value]) -> list[Value]:
    """Ten rounds on four arrays."""
    for _ in range(10):
        first, second = (
            ctx.add("Mul", words[i], scalar(ctx, k, np.int64))
            for i, k in zip((0, 2), _PHILOX_FACTORS, strict=True)
        )
        (low0, high0), (low1, high1) = _words(ctx, first), _words(ctx, second)
        words = [
            ctx.add("BitwiseXor", ctx.add("BitwiseXor", high1, words[1]), key[0]),
            low1,
            ctx.add("BitwiseXor", ctx.add("BitwiseXor", high0, words[3]), key[1]),
            low0,
        ]
        key = [
            _masked(ctx, ctx.add("Add", k, scalar(ctx, step, np.int64)))
            for k, step in zip(key, _PHILOX_STEPS, strict=True)
        ]
    return words


def _philox_bits(ctx: Context, state: list[Value], type_: TensorType) -> tuple[Value, list[Value]]:
    size = prod(type_.shape)
    blocks = -(-size * (2 if type_.dtype.itemsize == 8 else 1) // 4)
    low, high = (state[1], state[2]) if len(state) > 2 else (state[1], state[0])
    counters = _plus(ctx, low, high, count(ctx, blocks, np.int64))
    words = _philox(ctx, _words(ctx, state[0]), [w for c in counters for w in _words(ctx, c)])
    if type_.dtype.itemsize == 8:
        columns = [ctx.add("BitwiseOr", a, ctx.add("LeftShift", b, 32)) for a, b in (words[:2], words[2:])]
    else:
        columns = [cast(ctx, word, np.int32) for word in words]
    columns = [_reshape(ctx, column, (blocks, 1)) for column in columns]
    line = _reshape(ctx, ctx.add("ConcatV2", columns, np.array(1, np.int32)), (blocks * len(columns),))
    if blocks * len(columns) != size:
        line = ctx.add("Slice", line, np.array([0], np.int64), np.array([size], np.int64))
    new = _plus(ctx, low, high, scalar(ctx, blocks, np.int64))
    return _reshape(ctx, line, type_.shape), [state[0], *new[: len(state) - 1]]


def _plus(ctx: Context, low: Value, high: Value, number: Value) -> list[Value]:
    """A counter of 128 bits plus numbers from 0 to 2**63 - 1."""
    total = ctx.add("Add", low, number)
    carry = cast(ctx, ctx.add("Less", ordered(ctx, total, True), ordered(ctx, low, True)), np.int64)
    return [total, ctx.add("Add", high, carry)]


# stablehlo.rng: no state, and no promise which numbers.


@lowers("stablehlo.rng")
def rng(ctx: Context, op: Any, a: Value, b: Value, _: Value) -> Value:
    type_ = ctx.result_type(op)
    shape, dtype = np.array(type_.shape, np.int64), type_.dtype
    is_normal = "NORMAL" in str(op.attributes["rng_distribution"])
    if is_float(dtype):
        made = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
        first, second = cast(ctx, a, made), cast(ctx, b, made)
        if is_normal:  # mean and standard deviation
            numbers = ctx.add("RandomStandardNormal", shape, dtype=made)
            return cast(ctx, ctx.add("Add", ctx.add("Mul", numbers, second), first), dtype)
        numbers = ctx.add("RandomUniform", shape, dtype=made)
        span = ctx.add("Sub", second, first)
        return cast(ctx, ctx.add("Add", ctx.add("Mul", numbers, span), first), dtype)
    if is_normal or dtype.kind not in "iu" or dtype == np.uint64:
        raise Unsupported(
            f"stablehlo.rng of {type_.element.stablehlo} is not supported on npu; use rng_bit_generator"
        )
    whole = ctx.add("RandomUniformInt", shape, to_dtype(ctx, a, np.int64), to_dtype(ctx, b, np.int64))
    return to_dtype(ctx, whole, dtype)
