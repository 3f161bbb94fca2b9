"""Stacks of a scan that was written out, and steps of optimisers as Axpy."""

from __future__ import annotations

import numpy as np
import pytest

from npu_common.graph import Builder, Value
from npu_common.graph.passes import exact, standard
from tests.unit.graph import reference

PARTS = [np.arange(4, dtype=np.float32).reshape(1, 4) + 10 * i for i in range(3)]


def _stack(b: Builder, order: list[int], rows: int = 3) -> tuple[Value, list[Value]]:
    parts = [b.input(f"part{i}", "float32", (1, 4)) for i in range(3)]
    value = b.constant(np.full((rows, 4), -1, np.float32))
    for place in order:
        value = b.add("TensorScatterUpdate", value, np.array([[place]], np.int32), parts[place])
    return value, parts


def _types(b: Builder) -> list[str]:
    return [node.type for node in b.graph.order() if node.type not in ("Data", "Const")]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_a_filled_stack_is_a_concatenation(order):
    b = Builder("t")
    b.output(_stack(b, order)[0])
    exact(check=True).run(b.graph)
    assert _types(b) == ["ConcatV2"]
    np.testing.assert_array_equal(reference.run(b.graph, *PARTS)[0], np.concatenate(PARTS))


@pytest.mark.parametrize(
    ("order", "rows"), [([0, 1], 3), ([0, 1, 1], 3), ([0, 0, 1, 2], 4)], ids=["a hole", "twice", "both"]
)
def test_a_stack_with_holes_stays(order, rows):
    b = Builder("t")
    b.output(_stack(b, order, rows)[0])
    wanted = reference.run(b.graph, *PARTS)[0]
    exact(check=True).run(b.graph)
    assert "ConcatV2" not in _types(b)
    np.testing.assert_array_equal(reference.run(b.graph, *PARTS)[0], wanted)


@pytest.mark.parametrize("take", ["Slice", "GatherV2", "negative"])
def test_what_is_read_of_a_stack_is_the_part(take):
    b = Builder("t")
    stack, _ = _stack(b, [0, 1, 2])
    if take == "Slice":
        b.output(b.add("Slice", stack, [1, 1], [1, 2]))
        wanted = PARTS[1][:, 1:3]
    elif take == "GatherV2":
        b.output(b.add("GatherV2", stack, np.array([2], np.int32), 0))
        wanted = PARTS[2]
    else:  # left to the device: what an index from the end means is an attribute's business
        b.output(b.add("GatherV2", stack, np.array([-1], np.int32), 0, negative_index_support=True))
        wanted = PARTS[2]
    exact(check=True).run(b.graph)
    assert ("GatherV2" in _types(b)) == (take == "negative")
    if take != "negative":
        assert "ConcatV2" not in _types(b)
        np.testing.assert_array_equal(reference.run(b.graph, *PARTS)[0], wanted)


def test_a_slice_across_parts_stays():
    b = Builder("t")
    stack, _ = _stack(b, [0, 1, 2])
    b.output(b.add("Slice", stack, [1, 0], [2, 4]))
    exact(check=True).run(b.graph)
    assert _types(b) == ["ConcatV2", "Slice"]
    np.testing.assert_array_equal(reference.run(b.graph, *PARTS)[0], np.concatenate(PARTS)[1:])


@pytest.mark.parametrize(
    ("make", "axpy"),
    [
        (lambda b, p, g: b.add("Sub", p, b.add("Mul", g, 0.25)), True),
        (lambda b, p, g: b.add("Add", b.add("Mul", 0.25, g), p), True),
        (lambda b, p, g: b.add("Sub", b.add("Mul", 0.25, g), p), False),  # alpha * y - x
        (lambda b, p, g: b.add("Add", p, b.add("Mul", g, g)), False),
    ],
)
def test_steps_of_optimisers(make, axpy):
    b = Builder("t")
    p, g = (b.input(name, "float32", (2, 3)) for name in "pg")
    b.output(make(b, p, g))
    arrays = [np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32) * 3]
    wanted = reference.run(b.graph, *arrays)[0]
    standard(check=True).run(b.graph)
    assert ("Axpy" in _types(b)) == axpy
    np.testing.assert_allclose(reference.run(b.graph, *arrays)[0], wanted, rtol=1e-6)


def test_chains_are_left_to_an_executor_that_fuses_them():
    b = Builder("t")
    p, g = (b.input(name, "float32", (2, 3)) for name in "pg")
    b.output(b.add("Sub", p, b.add("Mul", g, 0.25)))
    standard(chains=True).run(b.graph)
    assert _types(b) == ["Mul", "Sub"]
