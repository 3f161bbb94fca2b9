"""Views that the graph engine makes of values, and movements of the types that ATen does not move."""

from __future__ import annotations

import numpy as np
import pytest

from npu_common.graph import Builder
from tests.unit.ge.test_engine import run


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_bits_under_another_type_are_a_view(dtype: str) -> None:
    g = Builder("bits")
    x = g.input("x", "float32", (2, 3))
    g.output(g.add("Bitcast", x, attributes={"type": dtype}))
    g.output(
        g.add("Bitcast", g.add("Neg", x), attributes={"type": dtype})
    )  # its value is the result's memory
    array = np.array([[1.5, -0.0, np.nan], [np.inf, -2, 0]], np.float32)
    first, second = run(g, array)
    np.testing.assert_array_equal(first, array.view(dtype))
    np.testing.assert_array_equal(second, (-array).view(dtype))


def test_a_complex_result_moved_as_integers() -> None:
    g = Builder("complex")
    x = g.input("x", "complex64", (4,))
    moved = g.add("ReverseV2", g.add("Bitcast", x, attributes={"type": "int64"}), [0])
    g.output(g.add("Bitcast", moved, attributes={"type": "complex64"}))
    array = np.array([1 + 2j, -0.0j, 3, 4 - 1j], np.complex64)
    np.testing.assert_array_equal(run(g, array)[0], array[::-1])


def test_a_slice_whose_place_is_computed() -> None:
    g = Builder("slice")
    x, place = g.input("x", "float32", (4, 5)), g.input("place", "int32", (2,))
    g.output(g.add("Slice", x, g.add("Add", place, 1), [2, 3]))
    array = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(run(g, array, np.array([1, 0], np.int32))[0], array[2:4, 1:4])


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_integers_are_moved(dtype: str) -> None:
    g = Builder("unsigned")
    x, place = g.input("x", dtype, (3, 4)), g.constant(np.array([2, 0], np.int32))
    g.output(g.add("GatherV2", x, place, 1))
    g.output(g.add("GatherV2", x, np.array([[2, 0]] * 3, np.int32), 1, batch_dims=1))
    g.output(g.add("GatherNd", x, np.array([[2, 0]], np.int32)))
    g.output(g.add("GatherElements", x, np.array([[2, 0]] * 3, np.int32), dim=1))
    g.output(g.add("TensorScatterUpdate", x, np.array([[1]], np.int32), g.add("Slice", x, [0, 0], [1, 4])))
    array = ~np.arange(12).astype(dtype).reshape(3, 4)  # near the largest
    written = array.copy()
    written[1] = array[0]
    wanted = [array[:, [2, 0]], array[:, [2, 0]], array[2, [0]], array[:, [2, 0]], written]
    for ours, theirs in zip(run(g, array), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_last_of_several_updates_counts() -> None:
    g = Builder("updates")
    rows, width = 64, 4096  # enough for several threads
    x, updates = g.input("x", "float32", (2, width)), g.input("u", "float32", (rows, width))
    g.output(g.add("TensorScatterUpdate", x, np.ones((rows, 1), np.int32), updates))
    array = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    zeros = np.zeros((2, width), np.float32)
    np.testing.assert_array_equal(run(g, zeros, array)[0], np.stack([zeros[0], array[-1]]))


def test_updates_write_over_what_dies_with_them_and_nothing_else() -> None:
    g = Builder("updates")
    x, row = g.input("x", "float32", (4, 3)), g.input("row", "float32", (1, 3))
    first = g.add("Neg", x)
    kept = g.add("TensorScatterUpdate", first, np.array([[0]], np.int32), row)
    again = g.add("TensorScatterAdd", kept, np.array([[1]], np.int32), row)
    last = g.add("TensorScatterUpdate", again, np.array([[2]], np.int32), row)
    itself = g.add(
        "TensorScatterUpdate", last, np.array([[3]], np.int32), g.add("Slice", last, [0, 0], [1, 3])
    )
    for value in (kept, itself, g.add("TensorScatterUpdate", x, np.array([[3]], np.int32), row)):
        g.output(value)
    array, new = np.arange(12, dtype=np.float32).reshape(4, 3), np.full((1, 3), 50, np.float32)
    a = -array
    a[0] = new
    b = a.copy()
    b[1] += new[0]
    b[2] = new
    b[3] = b[0]
    c = array.copy()
    c[3] = new
    for ours, theirs in zip(run(g, array, new), (a, b, c), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _joined(axis: int, parts: list[str]) -> tuple[Builder, dict[str, np.ndarray]]:
    """ConcatV2 of what `parts` name, which is also read otherwise."""
    g = Builder("joined")
    x, y = g.input("x", "float32", (1, 6)), g.input("y", "float32", (1, 6))
    a = np.arange(6, dtype=np.float32).reshape(1, 6)
    b = a * 10 + 1
    values = {
        "input": (x, a),
        "neg": (g.add("Neg", x), -a),
        "product": (g.add("Mul", x, y), a * b),
        "view": (g.add("Reshape", g.add("Add", g.add("Reshape", y, [2, 3]), 1.0), [1, 6]), b + 1),
        "constant": (g.constant(np.full((1, 6), 7, np.float32)), np.full((1, 6), 7, np.float32)),
    }
    whole = g.add("ConcatV2", [values[name][0] for name in parts], axis, N=len(parts))
    wanted = np.concatenate([values[name][1] for name in parts], axis)
    g.output(whole)
    g.output(g.add("Exp", g.add("Mul", whole, 0.01)))
    g.output(g.add("Add", values["neg"][0], values["product"][0]))
    return g, {"x": a, "y": b, "whole": wanted, "sum": a * b - a}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(
    "parts",
    [
        ["neg", "product"],
        ["view", "neg", "product"],
        ["neg", "neg"],
        ["input", "neg"],
        ["constant", "neg"],
        ["neg"],
    ],
    ids="+".join,
)
def test_parts_are_computed_where_they_belong(axis: int, parts: list[str]) -> None:
    g, arrays = _joined(axis, parts)
    whole, other, total = run(g, arrays["x"], arrays["y"])
    np.testing.assert_array_equal(whole, arrays["whole"])
    np.testing.assert_allclose(other, np.exp(arrays["whole"] * np.float32(0.01)), rtol=1e-6)
    np.testing.assert_array_equal(total, arrays["sum"])


def test_a_part_that_is_a_result_too() -> None:
    g = Builder("both")
    x = g.input("x", "float32", (2, 3))
    part = g.add("Neg", x)
    g.output(part)
    g.output(g.add("ConcatV2", [part, g.add("Abs", x)], 0, N=2))
    array = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    first, second = run(g, array)
    np.testing.assert_array_equal(first, -array)
    np.testing.assert_array_equal(second, np.concatenate([-array, abs(array)]))
