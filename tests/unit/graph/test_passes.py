"""Passes that keep every bit: NaN, infinities and signed zeros included."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_common.graph import Builder, Value
from npu_common.graph.passes import PassManager, exact
from npu_common.graph.passes.algebra import ALGEBRA
from npu_common.graph.passes.common_subexpressions import COMMON_SUBEXPRESSIONS
from npu_common.graph.passes.constant_folding import CONSTANT_FOLDING
from npu_common.graph.passes.dead_code import DEAD_CODE
from tests.unit.graph import reference

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5], np.float32)
Make = Callable[[Builder, Value], Value]


def kinds(b: Builder) -> list[str]:
    return [node.type for node in b.graph.order() if node.type not in ("Data", "Const")]


def bits(array: np.ndarray) -> tuple[object, ...]:
    # The payload and sign of a NaN are nobody's promise.
    clean = np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array
    return array.dtype.name, array.shape, np.ascontiguousarray(clean).tobytes()


def same_shape(b: Builder, x: Value) -> Value:
    return b.add("Reshape", b.add("Reshape", x, [3, 2]), [6])


BECOMES: dict[str, tuple[Make, list[str]]] = {
    "x * 1": (lambda b, x: x * 1.0, []),
    "1 * x": (lambda b, x: 1.0 * x, []),
    "x / 1": (lambda b, x: x / 1.0, []),
    "x - 0": (lambda b, x: x - 0.0, []),
    "x + (-0)": (lambda b, x: x + -0.0, []),
    "x + 0 changes -0": (lambda b, x: x + 0.0, ["Add"]),
    "x - (-0) changes -0": (lambda b, x: x - -0.0, ["Sub"]),
    "x * 0 is not 0": (lambda b, x: x * 0.0, ["Mul"]),
    "x - x is not 0": (lambda b, x: x - x, ["Sub"]),
    "-(-x)": (lambda b, x: b.add("Neg", -x), []),
    "identity": (lambda b, x: b.add("Identity", x), []),
    "max(-inf, x)": (lambda b, x: b.add("Maximum", -np.inf, x), []),
    "max(0, x)": (lambda b, x: b.add("Maximum", 0.0, x), ["Maximum"]),
    "reshape and back": (same_shape, []),
    "two transposes": (lambda b, x: b.add("Transpose", b.add("Transpose", b.add("Reshape", x, [1, 2, 3]), [1, 2, 0]),
                                          [2, 0, 1]), ["Reshape"]),
    "cast up and back": (lambda b, x: b.add("Cast", b.add("Cast", x, dst_type="float64"), dst_type="float32"), []),
    "cast down and back": (lambda b, x: b.add("Cast", b.add("Cast", x, dst_type="float16"), dst_type="float32"),
                           ["Cast", "Cast"]),
    "cast through a wider float to an integer": (
        lambda b, x: b.add("Cast", b.add("Cast", x, dst_type="float64"), dst_type="int32"), ["Cast", "Cast"]),
    "cast through a wider float to a narrower": (
        lambda b, x: b.add("Cast", b.add("Cast", x, dst_type="float64"), dst_type="float16"), ["Cast"]),
    "broadcast that the operator does": (lambda b, x: b.add("Reshape", x, [1, 6]) * b.add("BroadcastTo", 2.0, [4, 6]),
                                         ["Reshape", "Mul"]),
    "one times a smaller operand": (lambda b, x: b.add("Mul", x, b.constant(np.ones((2, 1), np.float32))), ["Mul"]),
    "sum with its dimension put back": (
        lambda b, x: b.add("Reshape", b.add("ReduceSum", b.add("Reshape", x, [2, 3]), [-1]), [2, 1]),
        ["Reshape", "ReduceSum"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BECOMES)
def test_clean_up_keeps_the_bits(name: str) -> None:
    make, left = BECOMES[name]
    b = Builder("g")
    b.output(make(b, b.input("x", "float32", (6,))))
    expected = reference.run(b.graph, SPECIAL, wide=False)[0]

    PassManager([ALGEBRA, DEAD_CODE], check=True).run(b.graph)

    if name != "broadcast that the operator does":  # 2.0 is a constant of its own shape there
        assert kinds(b) == left
    assert bits(reference.run(b.graph, SPECIAL, wide=False)[0]) == bits(expected)


def test_integers_have_no_signed_zero() -> None:
    b = Builder("g")
    b.output(b.input("x", "int32", (2,)) + 0)
    PassManager([ALGEBRA, DEAD_CODE], check=True).run(b.graph)
    assert kinds(b) == []


PRODUCTS = [("MatMulV2", (3, 4), (4, 5), "transpose_x"), ("BatchMatMulV2", (2, 3, 4), (2, 4, 5), "adj_x")]


@pytest.mark.parametrize(("kind", "left", "right", "attribute"), PRODUCTS)
@pytest.mark.parametrize("turned", [(True, False), (False, True), (True, True)])
def test_transposes_go_into_products(
    kind: str, left: tuple, right: tuple, attribute: str, turned: tuple
) -> None:
    b = Builder("g")
    rank = len(left)
    perm = [*range(rank - 2), rank - 1, rank - 2]
    values, data = [], []
    for name, shape, turn in zip("ab", (left, right), turned, strict=True):
        stored = (*shape[:-2], shape[-1], shape[-2]) if turn else shape
        value = b.input(name, "float32", stored)
        values.append(b.add("Transpose", value, perm) if turn else value)
        data.append(np.random.default_rng(1).standard_normal(stored).astype(np.float32))
    b.output(b.add(kind, *values))
    expected = reference.run(b.graph, *data)[0]

    exact(check=True).run(b.graph)

    assert kinds(b) == [kind]
    node = b.graph.outputs[0].node
    assert [node.attributes.get(f"{attribute}{i}", False) for i in (1, 2)] == list(turned)
    np.testing.assert_array_equal(reference.run(b.graph, *data)[0], expected)


@pytest.mark.parametrize(("kind", "left", "right", "attribute"), PRODUCTS)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_transposed_product_is_the_product_the_other_way_round(
    kind: str, left: tuple, right: tuple, attribute: str, turned: tuple, shared: bool
) -> None:
    b = Builder("g")
    rank = len(left)
    stored = [(*s[:-2], s[-1], s[-2]) if t else s for s, t in zip((left, right), turned, strict=True)]
    values = [b.input(name, "float32", shape) for name, shape in zip("ab", stored, strict=True)]
    flags = {f"{attribute}{i}": turn for i, turn in zip((1, 2), turned, strict=True)}
    product = b.add(kind, *values, attributes=flags)
    b.output(b.add("Transpose", product, [*range(rank - 2), rank - 1, rank - 2]))
    if shared:  # computed for its own sake too: once is enough
        b.output(product)
    data = [np.random.default_rng(1).standard_normal(shape).astype(np.float32) for shape in stored]
    expected = reference.run(b.graph, *data)[0]

    exact(check=True).run(b.graph)

    assert kinds(b) == ([kind, "Transpose"] if shared else [kind])
    np.testing.assert_allclose(reference.run(b.graph, *data)[0], expected, rtol=1e-6, atol=1e-6)


def test_equal_expressions_are_computed_once() -> None:
    b = Builder("g")
    x = b.input("x", "float32", (4,))
    b.output(b.add("Exp", x * 2.0) + b.add("Exp", x * 2.0))
    PassManager([COMMON_SUBEXPRESSIONS, DEAD_CODE], check=True).run(b.graph)
    assert kinds(b) == ["Mul", "Exp", "Add"]


def test_zeros_of_two_signs_are_two_constants() -> None:
    b = Builder("g")
    x = b.input("x", "float32", (4,))
    b.output(b.add("RealDiv", x, 0.0))
    b.output(b.add("RealDiv", x, -0.0))
    PassManager([COMMON_SUBEXPRESSIONS, DEAD_CODE], check=True).run(b.graph)
    assert kinds(b) == ["RealDiv", "RealDiv"]


@pytest.mark.parametrize(("kind", "left"), [("RandomUniform", 2), ("StatelessRandomUniformV2", 1)])
def test_random_numbers_are_drawn_as_often_as_written(kind: str, left: int) -> None:
    b = Builder("g")
    key = [b.constant(np.zeros(n, np.uint64)) for n in (1, 2)] + [b.constant(np.int32(1))]
    for _ in range(2):
        inputs = [[4]] if kind == "RandomUniform" else [[4], *key]
        b.output(b.add(kind, *inputs, dtype="float32"))
    PassManager([COMMON_SUBEXPRESSIONS, DEAD_CODE], check=True).run(b.graph)
    assert len(kinds(b)) == left


def test_what_nobody_needs_goes_and_inputs_stay() -> None:
    b = Builder("g")
    x, _ = b.input("x", "float32", (4,)), b.input("unused", "float32", (4,))
    b.add("Exp", x * 2.0)
    b.output(-x)
    PassManager([DEAD_CODE], check=True).run(b.graph)
    assert kinds(b) == ["Neg"] and len(b.graph.inputs) == 2


def test_a_node_that_writes_to_an_input_stays() -> None:
    b = Builder("g")
    x, y = b.input("x", "float32", (4,)), b.input("y", "float32", (4,))
    b.add("Assign", x, y)
    b.output(-y)
    PassManager([DEAD_CODE]).run(b.graph)
    assert kinds(b) == ["Assign", "Neg"]


def folded(make: Callable[[Builder], Value]) -> np.ndarray | None:
    b = Builder("g")
    b.output(make(b))
    PassManager([CONSTANT_FOLDING, DEAD_CODE], check=True).run(b.graph)
    return b.graph.outputs[0].constant


INTS = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
FOLDS: dict[str, tuple[Callable[[Builder], Value], np.ndarray]] = {
    "integers wrap": (lambda b: b.constant(np.int8(127)) + np.int8(1), np.int8(-128)),
    "product of floats": (lambda b: b.constant(np.float32(0.1)) * 3.0, np.float32(0.1) * np.float32(3)),
    "comparison": (lambda b: b.constant(INTS) > 3, INTS > 3),
    "transpose": (lambda b: b.add("Transpose", b.constant(INTS), [1, 0]), INTS.T),
    "concat": (
        lambda b: b.add("ConcatV2", [b.constant(INTS), b.constant(INTS)], 1),
        np.concatenate([INTS, INTS], 1),
    ),
    "pack": (
        lambda b: b.add("Pack", [b.constant(np.int64(3)), b.constant(np.int64(4))], axis=0),
        np.array([3, 4]),
    ),
    "fill": (lambda b: b.add("Fill", [2, 2], b.constant(np.float32(1.5))), np.full((2, 2), 1.5, np.float32)),
    "range": (lambda b: b.add("Range", np.int32(0), np.int32(4), np.int32(1)), np.arange(4, dtype=np.int32)),
    "exact cast": (lambda b: b.add("Cast", b.constant(INTS), dst_type="float32"), INTS.astype(np.float32)),
    "shape": (
        lambda b: b.add("Shape", b.input("x", "float32", (3, 4)), dtype="int64"),
        np.array([3, 4], np.int64),
    ),
}


@pytest.mark.parametrize("name", FOLDS)
def test_constants_are_folded(name: str) -> None:
    make, expected = FOLDS[name]
    found = folded(make)
    assert found is not None
    assert bits(np.asarray(found)) == bits(np.asarray(expected))


STAY: dict[str, Callable[[Builder], Value]] = {
    "a function that is not exact": lambda b: b.add("Exp", b.constant(np.float32(1))),
    "a float that rounds when cast": lambda b: b.add("Cast", b.constant(np.float32(0.1)), dst_type="float16"),
    "an integer out of range": lambda b: b.add("Cast", b.constant(np.int32(300)), dst_type="int8"),
    "a subnormal operand": lambda b: b.constant(np.float32(1e-40)) * 2.0,
    "a subnormal result": lambda b: b.constant(np.float32(1e-30)) * np.float32(1e-10),
    "a NaN": lambda b: b.constant(np.float32(np.inf)) - np.float32(np.inf),
    "bfloat16": lambda b: b.constant(1.0, "bfloat16") + b.constant(2.0, "bfloat16"),
    "a large result": lambda b: b.add("Fill", [1000, 1000], b.constant(np.float32(1.5))),
}


@pytest.mark.parametrize("name", STAY)
def test_what_is_not_sure_is_left_to_the_device(name: str) -> None:
    assert folded(STAY[name]) is None


def test_a_report_says_what_each_pass_did() -> None:
    b = Builder("g")
    b.output(b.input("x", "float32", (2,)) * 1.0)
    report = exact().run(b.graph)
    assert report.passes["algebra"].changes == 1
    assert report.rounds == 2
    assert "algebra" in str(report)


def test_ten_thousand_nodes_take_seconds() -> None:
    b = Builder("g")
    value = b.input("x", "float32", (4,))
    for i in range(5_000):
        value = value * 1.0 if i % 2 else value + float(i % 7)
    b.output(value)
    started = time.perf_counter()
    exact().run(b.graph)
    assert time.perf_counter() - started < 30
    assert "Mul" not in kinds(b)


UNARY = ("Neg", "Identity", "Square")
BINARY = ("Add", "Sub", "Mul", "Maximum")
SHAPES = [(2, 3), (3,), (2, 1), (1, 3), ()]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_random_graphs_mean_the_same_after_exact_passes(data: st.DataObject) -> None:
    b = Builder("g")
    values = [b.input(f"x{i}", "float32", data.draw(st.sampled_from(SHAPES))) for i in range(2)]
    for _ in range(data.draw(st.integers(1, 12))):
        pick = st.sampled_from(values)
        step = data.draw(st.sampled_from((*UNARY, *BINARY, "constant", "cast", "broadcast", "transpose")))
        if step in UNARY:
            values.append(b.add(step, data.draw(pick)))
        elif step in BINARY:
            values.append(b.add(step, data.draw(pick), data.draw(pick)))
        elif step == "constant":
            values.append(b.constant(np.float32(data.draw(st.sampled_from([0.0, -0.0, 1.0, -1.5, np.inf])))))
        elif step == "cast":
            wide = b.add("Cast", data.draw(pick), dst_type="float64")
            values.append(b.add("Cast", wide, dst_type="float32"))
        elif step == "broadcast":
            values.append(b.add("BroadcastTo", data.draw(pick), [2, 3]))
        else:
            flat = b.add("BroadcastTo", data.draw(pick), [2, 3])
            values.append(b.add("Transpose", b.add("Transpose", flat, [1, 0]), [1, 0]))
    for value in values[-2:]:
        b.output(value)
    inputs = [np.resize(SPECIAL, v.shape) for v in b.graph.inputs]
    expected = [bits(np.asarray(r)) for r in reference.run(b.graph, *inputs, wide=False)]

    exact(check=True).run(b.graph)

    assert [bits(np.asarray(r)) for r in reference.run(b.graph, *inputs, wide=False)] == expected
