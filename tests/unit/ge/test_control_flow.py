"""Branches and loops of the emulated graph engine, on states that are swapped, kept, written to or strided."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from npu_common.graph import Builder
from npu_common.graph.ir import Value
from tests.unit.ge.test_engine import run

Array = np.ndarray
Types = Sequence[tuple[str, tuple[int | None, ...]]]
COUNTED: Types = [("int32", ()), ("float32", (3, 3)), ("float32", (3, 3))]
A = np.arange(9, dtype=np.float32).reshape(3, 3) / 8
B = np.array([[1, 2, 0], [0, 1, -1], [3, 0, 1]], np.float32) / 2
# Shapes that are known only when the graph runs take the engine's other road.
ROWS = pytest.mark.parametrize("rows", [3, None], ids=["static", "dynamic"])
EXECUTORS = pytest.mark.parametrize("name", ["ge", "afir"])


def body(name: str, types: Types, results: Callable[..., Sequence[Value]]) -> Builder:
    b = Builder(name)
    for value in results(b, *[b.input(f"s{i}", *each) for i, each in enumerate(types)]):
        b.output(value)
    return b


def loop(types: Types, step: Callable[..., Sequence[Value]], limit: int = 5) -> Builder:
    """A graph of one While over the inputs; the first state counts up to `limit`."""
    condition = body("condition", types, lambda b, i, *_: [b.add("Less", i, b.constant(np.int32(limit)))])
    g = Builder("while")
    state = [g.input(f"x{i}", *each) for i, each in enumerate(types)]
    for value in g.add_many("While", state, subgraphs=[condition, body("body", types, step)]):
        g.output(value)
    return g


def counted(rows: int | None) -> Types:
    return [COUNTED[0], *[(dtype, (rows, 3)) for dtype, _ in COUNTED[1:]]]


SHAPES = [(), (3, 3), (3, 3)]


@ROWS
@EXECUTORS
def test_states_that_change_places(rows: int | None, name: str) -> None:
    g = loop(counted(rows), lambda b, i, x, y: [i + 1, y, x])
    for count in (0, 1, 5, 7):
        _, x, y = run(g, np.array(count, np.int32), A, B, name=name, shapes=SHAPES)
        odd = max(0, 5 - count) % 2
        np.testing.assert_array_equal(x, B if odd else A)
        np.testing.assert_array_equal(y, A if odd else B)


@ROWS
@EXECUTORS
def test_a_state_that_is_handed_on_unchanged(rows: int | None, name: str) -> None:
    g = loop(counted(rows), lambda b, i, w, x: [i + 1, w, b.add("Tanh", w @ x) + x * 0.5])
    _, w, x = run(g, np.array(0, np.int32), A, B, name=name, shapes=SHAPES)
    want = B.astype(np.float64)
    for _ in range(5):
        want = np.tanh(A.astype(np.float64) @ want) + want * 0.5
    np.testing.assert_array_equal(w, A)
    np.testing.assert_allclose(x, want, rtol=1e-5, atol=1e-6)


@ROWS
def test_a_loop_over_a_transposed_value(rows: int | None) -> None:
    g = Builder("strided")
    i, x = g.input("i", "int32", ()), g.input("x", "float32", (rows, 3))
    turned = g.add("Transpose", x, [1, 0])
    condition = body("condition", COUNTED, lambda b, i, *_: [b.add("Less", i, b.constant(np.int32(3)))])
    step = body("step", COUNTED, lambda b, i, w, y: [i + 1, w, w @ y])
    for value in g.add_many("While", [i, turned, x], subgraphs=[condition, step])[1:]:
        g.output(value)
    w, y = run(g, np.array(0, np.int32), A, shapes=SHAPES[1:])
    np.testing.assert_array_equal(w, A.T)
    np.testing.assert_allclose(y, np.linalg.matrix_power(A.T.astype(np.float64), 3) @ A, rtol=1e-5)


@ROWS
def test_a_body_that_assigns_to_its_argument_leaves_the_callers_value_alone(rows: int | None) -> None:
    def step(b: Builder, i: Value, x: Value, y: Value) -> list[Value]:
        return [i + 1, b.add("Assign", x, x * 2.0), y + x]

    types = counted(rows)
    condition = body("condition", types, lambda b, i, *_: [b.add("Less", i, b.constant(np.int32(5)))])
    g = Builder("assign")
    state = [g.input(f"x{i}", *each) for i, each in enumerate(types)]
    results = g.add_many("While", state, subgraphs=[condition, body("step", types, step)])
    for value in [*results[1:], state[1] + 0.0]:
        g.output(value)
    x, _, kept = run(g, np.array(2, np.int32), A, B, shapes=[(3, 3)] * 3)
    np.testing.assert_array_equal(x, A * 8)
    np.testing.assert_array_equal(kept, A)


@ROWS
@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_that_assigns_to_its_argument_leaves_the_callers_value_alone(
    rows: int | None, flag: bool
) -> None:
    types: Types = [("float32", (rows, 3))]
    then = body("then", types, lambda b, x: [b.add("Assign", x, x * 2.0)])
    other = body("other", types, lambda b, x: [b.add("Neg", x)])
    g = Builder("if")
    p, x = g.input("p", "bool", ()), g.input("x", "float32", (rows, 3))
    g.output(g.add_many("If", p, [x], subgraphs=[then, other])[0])
    g.output(x + 0.0)
    got, kept = run(g, np.array(flag), A, shapes=[(3, 3)] * 2)
    np.testing.assert_array_equal(got, A * 2 if flag else -A)
    np.testing.assert_array_equal(kept, A)


@ROWS
@EXECUTORS
def test_a_branch_in_a_loop_in_a_loop(rows: int | None, name: str) -> None:
    types = counted(rows)
    pair: Types = types[1:]

    def inner(b: Builder, i: Value, x: Value, y: Value) -> list[Value]:
        odd = b.add("Equal", b.add("FloorMod", i, b.constant(np.int32(2))), b.constant(np.int32(1)))
        then = body("then", pair, lambda b, x, y: [x + y, y])
        other = body("other", pair, lambda b, x, y: [b.add("Neg", x), x * 0.5])
        return [i + 1, *b.add_many("If", odd, [x, y], subgraphs=[then, other])]

    def outer(b: Builder, i: Value, x: Value, y: Value) -> list[Value]:
        condition = body(
            "inner_condition", types, lambda b, k, *_: [b.add("Less", k, b.constant(np.int32(4)))]
        )
        zero = b.constant(np.int32(0))
        results = b.add_many("While", [zero, x, y], subgraphs=[condition, body("inner", types, inner)])
        return [i + 1, results[1], results[2] + 1.0]

    _, x, y = run(loop(types, outer, 3), np.array(0, np.int32), A, B, name=name, shapes=SHAPES)
    left, right = A.astype(np.float64), B.astype(np.float64)
    for _ in range(3):
        for k in range(4):
            left, right = (left + right, right) if k % 2 else (-left, left * 0.5)
        right = right + 1
    np.testing.assert_allclose(x, left, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, right, rtol=1e-5, atol=1e-6)


def test_fused_regions_in_a_loop() -> None:
    """A body whose chain of operators AutoFuse takes, against the same loop without it."""

    def step(b: Builder, i: Value, x: Value, y: Value) -> list[Value]:
        return [i + 1, b.add("Tanh", b.add("Exp", x * -0.5) + y) * 0.25 + x, y]

    graphs = [loop(COUNTED, step) for _ in range(2)]
    fused, plain = (
        run(g, np.array(0, np.int32), A, B, name=name) for g, name in zip(graphs, ("afir", "ge"), strict=True)
    )
    for got, want in zip(fused, plain, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
