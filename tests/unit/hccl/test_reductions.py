"""Every reduction of every type that HCCL reduces, on three ranks of one process, against numpy."""

from __future__ import annotations

from ctypes import c_uint64

import numpy as np
import pytest
import torch

from .library import BF16, E_NOT_SUPPORT, INT128, MAX, MIN, PROD, SUM, TYPES, HcclError, World

OPS = {SUM: np.add, PROD: np.multiply, MAX: np.maximum, MIN: np.minimum}
SIZES = (0, 1, 7, 5000, 70_001)  # inside the group's memory and beyond, odd
N = 3


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, rounded to nearest by torch."""
    return torch.from_numpy(x).bfloat16().view(torch.int16).numpy().view(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def in_order(op: int, inputs: list[np.ndarray]) -> np.ndarray:
    """Reduced one rank after another in the inputs' own type."""
    total = inputs[0].copy()
    with np.errstate(all="ignore"):
        for x in inputs[1:]:
            total = OPS[op](total, x, dtype=total.dtype)
    return total


def values(dtype: np.dtype, size: int, seed: int) -> np.ndarray:
    """Any value of an integer type, so sums and products overflow; normal numbers of a floating-point one."""
    random = np.random.default_rng(seed)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, size, dtype, endpoint=True)
    return (random.standard_normal(size) * 4).astype(dtype)


def all_reduce(world: World, inputs: list[np.ndarray], dtype: int, op: int) -> list[np.ndarray]:
    return world.collective(
        "HcclAllReduce",
        inputs,
        [np.zeros_like(x) for x in inputs],
        lambda rank, send, receive: (send, receive, c_uint64(inputs[0].size), dtype, op),
    )


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_all_reduce_equals_numpy(world: World, dtype: np.dtype, op: int) -> None:
    for size in SIZES:
        inputs = [values(dtype, size, 10 * size + rank) for rank in range(N)]
        wide = [x.astype(np.float32) for x in inputs] if dtype == np.float16 else inputs
        with np.errstate(over="ignore"):
            expected = in_order(op, wide).astype(dtype)
        for out in all_reduce(world, inputs, TYPES[dtype], op):
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("op", OPS)
def test_bfloat16_is_accumulated_in_float32_and_rounded_once(world: World, op: int) -> None:
    for size in SIZES:
        inputs = [to_bfloat16(values(np.dtype("float32"), size, size + rank)) for rank in range(N)]
        expected = to_bfloat16(in_order(op, [from_bfloat16(x) for x in inputs]))
        for out in all_reduce(world, inputs, BF16, op):
            np.testing.assert_array_equal(out, expected)


def test_sums_of_short_floats_are_not_rounded_in_between(world: World) -> None:
    """1 + 2^-8 + 2^-8 in bfloat16: rounding after each step would lose both halves."""
    tiny = {BF16: 2.0**-8, TYPES[np.dtype("float16")]: 2.0**-11}
    for dtype, half in tiny.items():
        short = to_bfloat16 if dtype == BF16 else (lambda x: x.astype(np.float16))
        inputs = [short(np.full(9, value, np.float32)) for value in (1.0, half, half)]
        expected = short(np.full(9, 1 + 2 * half, np.float32))
        assert expected[0] != inputs[0][0]
        for out in all_reduce(world, inputs, dtype, SUM):
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("size", [9, 40_000])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_nan_and_infinity(world: World, dtype: str, op: int, size: int) -> None:
    """A NaN of any rank is a NaN of the result, for the maximum and minimum too (as torch and numpy have it)."""
    inputs = [np.ones(size, np.float32) for _ in range(N)]
    for rank in range(N):
        inputs[rank][rank] = np.nan
    inputs[0][4], inputs[1][4] = np.inf, -np.inf
    inputs[2][5] = np.inf
    expected = in_order(op, inputs)
    if dtype == "bfloat16":
        outs = [from_bfloat16(y) for y in all_reduce(world, [to_bfloat16(x) for x in inputs], BF16, op)]
    else:
        outs = all_reduce(world, [x.astype(dtype) for x in inputs], TYPES[np.dtype(dtype)], op)
    for out in outs:
        assert np.isnan(out[:N]).all()
        np.testing.assert_array_equal(out.astype(np.float32), expected)


@pytest.mark.parametrize("size", [0, 5, 30_001])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "float16"])
def test_reduce_and_reduce_scatter_round_as_all_reduce(world: World, dtype: str, op: int, size: int) -> None:
    code, root = TYPES[np.dtype(dtype)], 1
    inputs = [values(np.dtype(dtype), N * size, size + rank) for rank in range(N)]
    expected = all_reduce(world, inputs, code, op)[0]
    blank = [np.full(N * size, 3, dtype) for _ in range(N)]
    outs = world.collective(
        "HcclReduce", inputs, blank, lambda i, s, r: (s, r, c_uint64(N * size), code, op, root)
    )
    np.testing.assert_array_equal(outs[root], expected)
    np.testing.assert_array_equal(outs[0], blank[0])  # nothing is written where it is not the root
    outs = world.collective(
        "HcclReduceScatter",
        inputs,
        [np.zeros(size, dtype) for _ in range(N)],
        lambda i, s, r: (s, r, c_uint64(size), code, op),
    )
    np.testing.assert_array_equal(np.concatenate(outs), expected)


def test_types_that_hccl_does_not_reduce_are_refused(world: World) -> None:
    with pytest.raises(HcclError, match="no reduction of int128") as error:
        all_reduce(world, [np.zeros(4) for _ in range(N)], INT128, SUM)
    assert error.value.code == E_NOT_SUPPORT
