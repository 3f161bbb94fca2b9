"""The emulated graph engine through aclgrphBuildModel and aclmdl*: what a graph computes, against NumPy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from npu_common import runtime
from npu_common.graph import Builder, GraphError
from npu_common.graph.executors import CompileOptions, executor

Array = np.ndarray


def run(
    g: Builder, *inputs: Array, name: str = "ge", shapes: list[tuple[int, ...]] | None = None
) -> list[Array]:
    """Compiles and runs once; `shapes`: of the outputs of a dynamic graph."""
    executable = executor(name).compile(g.graph, CompileOptions(fuse=False))
    stream = runtime.current_stream()
    dims = shapes or [value.shape for value in executable.graph.outputs]
    outputs = [
        runtime.empty(shape, value.dtype) for shape, value in zip(dims, executable.graph.outputs, strict=True)
    ]
    executable.run(list(inputs), outputs, stream)
    stream.synchronize()
    return [output.numpy() for output in outputs]


def unary(type: str, shape: tuple[int | None, ...] = (3,)) -> Builder:
    g = Builder(type)
    g.output(g.add(type, g.input("x", "float32", shape)))
    return g


X = np.array([1.0, -2.0, 3.0], np.float32)


@pytest.mark.parametrize("flag", [True, False])
def test_if_takes_one_branch(flag: bool) -> None:
    g = Builder("if")
    p, x = g.input("p", "bool", ()), g.input("x", "float32", (3,))
    g.output(g.add_many("If", p, [x], subgraphs=[unary("Neg"), unary("Abs")])[0])
    (got,) = run(g, np.array(flag), X)
    np.testing.assert_array_equal(got, -X if flag else abs(X))


@pytest.mark.parametrize(("index", "want"), [(0, -X), (1, abs(X)), (2, X * X), (7, X * X), (-1, X * X)])
def test_case_takes_the_last_branch_where_the_index_is_out_of_range(index: int, want: Array) -> None:
    g = Builder("case")
    i, x = g.input("i", "int32", ()), g.input("x", "float32", (3,))
    g.output(g.add_many("Case", i, [x], subgraphs=[unary("Neg"), unary("Abs"), unary("Square")])[0])
    (got,) = run(g, np.array(index, np.int32), X)
    np.testing.assert_array_equal(got, want)


def test_while_runs_until_its_condition_fails() -> None:
    def state(b: Builder) -> list:
        return [b.input("i", "int32", ()), b.input("x", "float32", (3,))]

    condition, body = Builder("condition"), Builder("body")
    i, _ = state(condition)
    condition.output(condition.add("Less", i, condition.constant(np.int32(5))))
    i, x = state(body)
    body.output(i + 1)
    body.output(x * 2.0)
    g = Builder("while")
    for value in g.add_many("While", state(g), subgraphs=[condition, body]):
        g.output(value)
    count, got = run(g, np.array(2, np.int32), X)
    assert count == 5
    np.testing.assert_array_equal(got, X * 8)


def test_a_called_graph_is_part_of_its_caller() -> None:
    g = Builder("call")
    g.output(
        g.add_many("PartitionedCall", [g.input("x", "float32", (3,))], subgraphs=[unary("Neg")])[0] + 1.0
    )
    (got,) = run(g, X)
    np.testing.assert_array_equal(got, 1 - X)


def test_a_dynamic_graph_runs_with_any_size() -> None:
    g = Builder("dynamic")
    x = g.input("x", "float32", (None, 4))
    g.output(g.add("ReduceSum", g.add("Transpose", x, [1, 0]) * 2.0, [1]))
    for rows in (1, 5, 0):
        value = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        (got,) = run(g, value, shapes=[(4,)])
        np.testing.assert_array_equal(got, 2 * value.sum(0))


@pytest.mark.parametrize("name", ["ge", "afir"])
def test_memory_is_reused_without_mixing_values_up(name: str) -> None:
    """x, its transpose and results that die at different times share one workspace."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 16), dtype=np.float32)
    g = Builder("reuse")
    a = g.add("Exp", g.input("x", "float32", (16, 16)) * 0.5)
    t = g.add("Transpose", a, [1, 0])
    both = a + t  # elementwise, and one operand is the other's memory in another order
    low, high = g.add_many("SplitV", both, [4, 12], 0, num_split=2)
    g.output(g.add("ConcatV2", [high, g.add("Neg", low)], 0))
    g.output(g.add("Reshape", t, [4, 64]) - 1.0)
    e = np.exp(x.astype(np.float64) * 0.5)
    s = e + e.T
    first, second = run(g, x, name=name)
    np.testing.assert_allclose(first, np.concatenate([s[4:], -s[:4]]), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(second, e.T.reshape(4, 64) - 1, rtol=1e-6, atol=1e-6)


SHAPES = [(1,), (7,), (16384,), (16385,), (3, 20000), (5, 1, 7), (0, 4), (33, 129, 17)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fused_regions_compute_what_their_operators_do(shape: tuple[int, ...]) -> None:
    """Whatever the tiles cut: a broadcast row, a broadcast column, a scalar, a reduction in between.

    Where a tile ends, ATen's vector loops end too, and their scalar tails round tanh and exp otherwise by one unit.
    """
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape, dtype=np.float32)
    row = rng.standard_normal(shape[-1:], dtype=np.float32)
    column = rng.standard_normal((*shape[:-1], 1), dtype=np.float32)
    g = Builder("region")
    vx, vr, vc = (
        g.input("x", "float32", shape),
        g.input("r", "float32", row.shape),
        g.input("c", "float32", column.shape),
    )
    y = g.add("Sigmoid", vx * vr) + vc
    if len(shape) > 1:
        y = y - g.add("ReduceMax", y, [-1], keep_dims=True) if shape[-1] and 0 not in shape else y
    z = g.add("Tanh", y) * 0.5
    g.output(z)
    g.output(y)
    plain, fused = run(g, x, row, column), run(g, x, row, column, name="afir")
    for a, b in zip(plain, fused, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-7, atol=3e-7)


def test_a_fused_region_with_results_larger_than_the_caches() -> None:
    """Such results are written past the caches; rows of an odd length start at every alignment."""
    rows, columns = 1301, 4099  # 20 MiB of float32
    x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    bias = np.linspace(-1, 1, columns, dtype=np.float32)
    g = Builder("large")
    a, b = g.input("x", "float32", x.shape), g.input("b", "float32", bias.shape)
    y = g.add("Relu", a * 0.5 + b)
    g.output(y)
    g.output(g.add("Neg", y) - 0.25)
    first, second = run(g, x, bias, name="afir")
    want = np.maximum(x.astype(np.float64) * 0.5 + bias, 0)
    np.testing.assert_allclose(first, want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(second, -want - 0.25, rtol=1e-6, atol=1e-6)


def test_one_compiled_graph_serves_many_threads() -> None:
    g = Builder("threads")
    x = g.input("x", "float32", (64, 64))
    g.output(g.add("MatMul", x, x) + x)
    executable = executor("ge").compile(g.graph, CompileOptions())

    def work(seed: int) -> float:
        value = np.random.default_rng(seed).standard_normal((64, 64), dtype=np.float32)
        stream, output = runtime.Stream(), runtime.empty((64, 64))
        worst = 0.0
        for _ in range(20):
            executable.run([value], [output], stream)
            stream.synchronize()
            want = value.astype(np.float64) @ value + value
            worst = max(worst, float(abs(output.numpy() - want).max()))
        return worst

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(work, range(4))) < 1e-4


def test_an_operator_that_nobody_has_is_named() -> None:
    g = Builder("missing")
    x = g.input("x", "float32", (2, 2))
    g.output(g.add("LpNorm", x))
    with pytest.raises(GraphError, match=r"LpNorm.*not implemented by the host emulator"):
        executor("ge").compile(g.graph, CompileOptions())


@pytest.mark.parametrize("damage", ["empty", "foreign", "truncated", "flipped"])
def test_bytes_that_are_no_model_are_refused(damage: str) -> None:
    from npu_common import _cann

    executable = executor("ge").compile(unary("Neg").graph, CompileOptions())
    model = executable._model
    bad = {
        "empty": b"",
        "foreign": b"IMOD" * 40,
        "truncated": model[:-3],
        "flipped": model[:-3] + bytes([model[-3] ^ 1]) + model[-2:],
    }[damage]
    with pytest.raises(_cann.CannError, match=r"no model|truncated|damaged"):
        _cann.GraphSession.load(bad, runtime.current_stream()._native)
