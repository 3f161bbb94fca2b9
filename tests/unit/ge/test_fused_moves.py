"""AutoFuse and what moves elements: regions that read and write slices, transposes, reshapes and parts of what is
joined compute the very bits of their operators one by one, and NumPy's values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npu_common.graph import Builder
from npu_common.graph.ir import Value
from tests.unit.ge.test_engine import run

Array = np.ndarray
Made = tuple[Value, Array]
CODES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "int64": 9, "bool": 12}  # GE's DataType


def relu(x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


class Graph:
    """A graph and what NumPy makes of it, operator by operator."""

    def __init__(self) -> None:
        self.g = Builder("moves")
        self.inputs: list[Array] = []
        self._random = np.random.default_rng(5)

    def input(self, *shape: int, dtype: str = "float32") -> Made:
        array = (self._random.standard_normal(shape) * 4).astype(dtype)
        self.inputs.append(array)
        return self.g.input(f"x{len(self.inputs)}", dtype, shape), array

    def add(self, type: str, *values: Made, function: Callable[..., Array], **attributes: object) -> Made:
        return self.g.add(type, *(v for v, _ in values), **attributes), function(*(a for _, a in values))

    def neg(self, x: Made) -> Made:
        return self.add("Neg", x, function=np.negative)

    def relu(self, x: Made) -> Made:
        return self.add("Relu", x, function=relu)

    def sum(self, x: Made, y: Made) -> Made:
        return self.add("Add", x, y, function=np.add)

    def transpose(self, x: Made, *perm: int) -> Made:
        return self.g.add("Transpose", x[0], list(perm)), x[1].transpose(perm)

    def reshape(self, x: Made, *shape: int) -> Made:
        return self.g.add("Reshape", x[0], list(shape)), x[1].reshape(shape)

    def slice(self, x: Made, begin: list[int], size: list[int]) -> Made:
        window = tuple(slice(b, b + s) for b, s in zip(begin, size, strict=True))
        return self.g.add("Slice", x[0], begin, size), x[1][window]

    def concat(self, axis: int, *parts: Made) -> Made:
        joined = self.g.add("ConcatV2", [v for v, _ in parts], np.array(axis, np.int32), N=len(parts))
        return joined, np.concatenate([a for _, a in parts], axis)

    def check(self, *results: Made, exact: bool = True) -> None:
        """`exact`: no operator's vector loop computes otherwise at the edge of a tile."""
        for value, _ in results:
            self.g.output(value)
        alone = run(self.g, *self.inputs)
        fused = run(self.g, *self.inputs, name="afir")
        for (_, want), one, many in zip(results, alone, fused, strict=True):
            np.testing.assert_allclose(many, one, rtol=0 if exact else 1e-6, atol=0)
            np.testing.assert_allclose(many, want, rtol=1e-5, atol=1e-5)


SHAPES = [(3, 5), (64, 64), (100, 333), (1, 300), (300, 1), (2, 1024)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "int64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_transposed_input(shape: tuple[int, int], dtype: str) -> None:
    t = Graph()
    x, y = t.input(*shape, dtype=dtype), t.input(*shape[::-1], dtype=dtype)
    t.check(t.relu(t.sum(t.transpose(x, 1, 0), y)))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_transpose_between_operators_and_one_at_the_end(shape: tuple[int, int]) -> None:
    t = Graph()
    x, y = t.input(*shape), t.input(*shape[::-1])
    turned = t.relu(t.sum(t.transpose(t.neg(x), 1, 0), y))
    t.check(turned, t.transpose(t.relu(t.neg(turned)), 1, 0))


@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (3, 2, 1, 0), (1, 0, 3, 2), (0, 1, 2, 3)])
def test_transposes_of_four_dimensions(perm: tuple[int, ...]) -> None:
    t = Graph()
    x = t.input(2, 3, 17, 40)
    row = t.input(40)
    y = t.relu(t.sum(t.neg(x), row))
    t.check(t.transpose(y, *perm), t.relu(t.neg(t.transpose(y, *perm))))


def test_a_value_and_its_transpose_do_not_share_tiles() -> None:
    t = Graph()
    x = t.neg(t.input(70, 70))
    t.check(t.relu(t.sum(x, t.transpose(x, 1, 0))), x)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_parts_are_computed_in_their_places(axis: int, dtype: str) -> None:
    t = Graph()
    shape = (4, 6, 40)
    x, y = t.input(*shape, dtype=dtype), t.input(*shape, dtype=dtype)
    part = t.relu(t.sum(x, y))
    joined = t.concat(axis, part, t.neg(t.sum(x, y)), x, part, t.neg(y))
    t.check(joined, t.neg(t.relu(joined)), part)


def test_what_is_joined_is_joined_again() -> None:
    t = Graph()
    x, y = t.input(3, 8), t.input(3, 8)
    inner = t.concat(1, t.neg(t.relu(x)), t.relu(t.neg(y)))
    outer = t.concat(0, t.relu(t.sum(inner, inner)), inner)
    t.check(outer, t.slice(inner, [1, 4], [2, 8]), t.reshape(inner, 6, 8))


def test_parts_that_are_reshapes_slices_and_stacked() -> None:
    t = Graph()
    x = t.input(4, 6)
    y = t.relu(t.neg(x))
    flat = t.reshape(y, 24)
    joined = t.concat(0, flat, t.reshape(t.slice(t.neg(y), [1, 0], [2, 6]), 12))
    other = t.neg(t.relu(t.sum(x, x)))
    stacked = t.g.add("Pack", [other[0], x[0]], axis=1, N=2), np.stack([other[1], x[1]], 1)
    t.check(joined, stacked)


def test_empty_parts_and_single_elements() -> None:
    t = Graph()
    x, none, one = t.input(3, 4), t.input(0, 4), t.input(1, 1)
    wide = t.relu(t.neg(t.sum(x, one)))
    t.check(
        t.concat(0, wide, t.neg(t.relu(none)), wide),
        t.transpose(t.neg(t.relu(none)), 1, 0),
        t.neg(t.relu(one)),
    )


@pytest.mark.parametrize(
    "window", [([0, 0], [33, 9]), ([7, 3], [20, 30]), ([39, 0], [1, 64]), ([0, 63], [40, 1])]
)
def test_slices_of_what_is_given_and_of_what_is_computed(window: tuple[list[int], list[int]]) -> None:
    t = Graph()
    x = t.input(40, 64)
    part = t.slice(t.neg(t.relu(x)), *window)
    t.check(t.relu(t.neg(t.slice(x, *window))), t.neg(t.relu(part)), part)


@pytest.mark.parametrize(
    ("begin", "end", "strides"),
    [([0, 1], [40, 64], [2, 3]), ([5, 2], [6, 60], [1, 1]), ([39, 5], [0, 1], [-3, -1])],
)
def test_strided_slices(begin: list[int], end: list[int], strides: list[int]) -> None:
    t = Graph()
    x = t.input(40, 64)
    window = tuple(slice(*each) for each in zip(begin, end, strides, strict=True))
    given, computed = (
        (t.g.add("StridedSlice", y[0], begin, end, strides), y[1][window]) for y in (x, t.neg(t.relu(x)))
    )
    t.check(t.relu(t.neg(given)), t.relu(t.neg(computed)), computed)


def test_masks_of_strided_slices() -> None:
    t = Graph()
    x = t.input(4, 5, 6)
    y = t.g.add("StridedSlice", x[0], [1, 0, 2], [2, 0, 6], [1, 1, 1], shrink_axis_mask=1, end_mask=2)
    z = t.g.add(
        "StridedSlice", x[0], [0, 0, -2], [0, 0, 0], [1, 1, 1], new_axis_mask=1, ellipsis_mask=2, end_mask=4
    )
    t.check(t.relu(t.neg((y, x[1][1, :, 2:6]))), t.relu(t.neg((z, x[1][None, ..., -2:]))))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_split(axis: int) -> None:
    t = Graph()
    x = t.input(6, 40)
    parts = t.g.add_many("Split", np.array(axis, np.int32), x[0], num_split=2)
    first, second = zip(parts, np.split(x[1], 2, axis), strict=True)
    t.check(t.concat(axis, t.neg(second), first), t.relu(t.sum(first, second)))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [(30, 70), (2, 3, 500), (5, 4000)])
def test_a_softmax_with_the_reshapes_that_jax_writes(shape: tuple[int, ...], keep: bool) -> None:
    t = Graph()
    x, bias = t.input(*shape), t.input(shape[-1])
    ones = (*shape[:-1], 1)

    def row(type: str, function: Callable[..., Array], value: Made) -> Made:
        made = t.g.add(type, value[0], [-1], keep_dims=keep), function(value[1], axis=-1, keepdims=True)
        return made if keep else (t.g.add("Reshape", made[0], list(ones)), made[1])

    shifted = t.sum(x, bias)
    shifted = t.add("Sub", shifted, row("ReduceMax", np.max, shifted), function=np.subtract)
    exponent = t.add("Exp", shifted, function=np.exp)
    t.check(t.add("RealDiv", exponent, row("ReduceSum", np.sum, exponent), function=np.divide), exact=False)


def test_regions_become_one_where_they_meet() -> None:
    t = Graph()
    p, m, g = (t.input(50, 130) for _ in range(3))
    t_half = t.g.constant(np.float32(0.5)), np.float32(0.5)
    momentum = t.sum(
        t.add("Mul", m, t_half, function=np.multiply), t.add("Mul", t_half, g, function=np.multiply)
    )
    t.check(t.sum(t.neg(p), t.reshape(t.relu(momentum), 50, 130)), momentum)


def test_regions_of_different_shapes_meet_in_a_reshape() -> None:
    t = Graph()
    x, y, row = t.input(6, 8, 10), t.input(48, 10), t.input(10)
    t.check(
        t.sum(t.reshape(t.relu(t.sum(x, row)), 48, 10), t.neg(t.relu(y))), t.reshape(t.neg(t.relu(x)), 8, 60)
    )


@pytest.mark.parametrize("shape", [(40, 1), (1, 70), (40, 70)])
def test_rows_columns_and_choices(shape: tuple[int, int]) -> None:
    t = Graph()
    x, y = t.input(40, 70), t.input(*shape)
    above = t.add("Greater", x, y, function=np.greater)
    either = t.add("LogicalOr", above, t.add("Less", x, t.neg(y), function=np.less), function=np.logical_or)
    t.check(t.add("SelectV2", either, x, t.neg(y), function=np.where), above)


def test_what_several_read_is_still_there() -> None:
    t = Graph()
    x = t.input(9, 33)
    a = t.relu(t.neg(x))
    b = t.transpose(a, 1, 0)
    c = t.concat(0, t.neg(b), b)
    t.check(a, b, c, t.sum(t.neg(a), a), t.reshape(b, 27, 11))
