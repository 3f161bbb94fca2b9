"""Static graphs with products, whose steps the engine runs on pieces of the batch, the rows or the heads, against
NumPy in float64. Shapes are large enough for that (and for several pieces), or deliberately do not divide."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_common import runtime
from npu_common.graph import Builder
from npu_common.graph.executors import CompileOptions, executor
from npu_common.graph.ir import Value
from tests.unit.ge.test_control_flow import body
from tests.unit.ge.test_engine import run

Array = np.ndarray
Pair = tuple[Value, Array]
EXECUTORS = pytest.mark.parametrize("name", ["ge", "afir"])


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) / 4


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def close(got: Array, want: Array) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@EXECUTORS
@pytest.mark.parametrize(
    ("batch", "length", "heads"), [(4, 32, 4), (2, 64, 2), (1, 64, 4), (1, 64, 3), (3, 48, 4), (3, 7, 5)]
)
def test_attention_between_products(batch: int, length: int, heads: int, name: str) -> None:
    """A norm, q, k and v of one left operand, attention with a mask, a residual: by batch, rows or heads."""
    size = 16
    dim = heads * size
    x = floats(batch, length, dim)
    weights = [floats(dim, dim, seed=i + 1) for i in range(4)]
    mask = np.triu(np.ones((length, length), bool), 1)
    g = Builder("attention")
    start = g.input("x", "float32", x.shape)
    wq, wk, wv, wo = (g.input(f"w{i}", "float32", w.shape) for i, w in enumerate(weights))
    mean = g.add("ReduceMean", g.add("Square", start), [-1], keep_dims=True)
    h = g.add("Reshape", start * g.add("Rsqrt", mean + 1e-6), [batch * length, dim])

    def split_heads(value: Value) -> Value:
        return g.add("Transpose", g.add("Reshape", value, [batch, length, heads, size]), [0, 2, 1, 3])

    q, k, v = (split_heads(g.add("MatMul", h, w, transpose_x2=True)) for w in (wq, wk, wv))
    scores = g.add("BatchMatMul", q, g.add("Transpose", k, [0, 1, 3, 2])) * (1 / math.sqrt(size))
    masked = g.add("MaskedFill", scores, g.constant(mask), g.constant(np.float32(-np.inf)))
    weighted = g.add("BatchMatMul", g.add("SoftmaxV2", masked, axes=[-1]), v)
    joined = g.add("Reshape", g.add("Transpose", weighted, [0, 2, 1, 3]), [batch * length, dim])
    projected = g.add("Reshape", g.add("MatMul", joined, wo), [batch, length, dim])
    g.output(start + projected)
    g.output(k)
    got, got_k = run(g, x, *weights, name=name)

    x64, (aq, ak, av, ao) = x.astype(np.float64), (w.astype(np.float64) for w in weights)
    n = x64 / np.sqrt((x64**2).mean(-1, keepdims=True) + 1e-6)
    hq, hk, hv = ((n @ w.T).reshape(batch, length, heads, size).swapaxes(1, 2) for w in (aq, ak, av))
    s = np.where(mask, -np.inf, hq @ hk.swapaxes(-1, -2) / math.sqrt(size))
    close(got_k, hk)
    close(got, x64 + (softmax(s) @ hv).swapaxes(1, 2).reshape(batch, length, dim) @ ao)


@EXECUTORS
def test_a_layer_with_its_gradient(name: str) -> None:
    """The weights' gradients sum over the rows that the forward pass cuts."""
    x, w, dy = floats(64, 96), floats(96, 128, seed=1), floats(64, 128, seed=2)
    g = Builder("gradient")
    vx, vw, vdy = (g.input(n, "float32", a.shape) for n, a in (("x", x), ("w", w), ("dy", dy)))
    y = g.add("Relu", g.add("MatMul", vx, vw))
    dh = g.add("ReluGrad", vdy, y)
    g.output(g.add("MatMul", vx, dh, transpose_x1=True))
    g.output(g.add("MatMul", dh, vw, transpose_x2=True))
    g.output(g.add("ReduceSum", dh, [0], keep_dims=False))
    dw, dx, db = run(g, x, w, dy, name=name)
    x64, w64 = x.astype(np.float64), w.astype(np.float64)
    want = np.where(x64 @ w64 > 0, dy, 0)
    close(dw, x64.T @ want)
    close(dx, want @ w64.T)
    close(db, want.sum(0))


def test_pieces_along_an_inner_dimension_are_put_together() -> None:
    """One row in a batch of one: only the heads can be cut, and their results interleave in memory."""
    a, b = floats(1, 6, 64, 32), floats(1, 6, 32, 64, seed=1)
    g = Builder("inner")
    va, vb = g.input("a", "float32", a.shape), g.input("b", "float32", b.shape)
    product = g.add("BatchMatMul", va, vb)
    turned = g.add("Transpose", product * 2.0, [2, 0, 1, 3])
    g.output(g.add("ReduceMax", turned + 1.0, [3], keep_dims=False))
    g.output(turned)
    g.output(product)
    largest, got, plain = run(g, a, b)
    want = a.astype(np.float64) @ b
    close(plain, want)
    close(got, want.transpose(2, 0, 1, 3) * 2)
    close(largest, (want.transpose(2, 0, 1, 3) * 2 + 1).max(3))


def test_an_input_that_is_written_to_after_pieces_have_read_it() -> None:
    x, w = floats(64, 128), floats(128, 128, seed=1)
    g = Builder("assign")
    vx, vw = g.input("x", "float32", x.shape), g.input("w", "float32", w.shape)
    y = g.add("MatMul", vx, vw) * 0.5
    written = g.add("Assign", vx, y)
    g.output(g.add("MatMul", written, vw) + 1.0)
    g.output(y)
    got, first = run(g, x, w)
    want = x.astype(np.float64) @ w * 0.5
    close(first, want)
    close(got, want @ w + 1)


@EXECUTORS
def test_pieces_in_a_loop(name: str) -> None:
    x, w = floats(64, 128), floats(128, 128, seed=1)
    types = [("int32", ()), ("float32", x.shape), ("float32", w.shape)]
    condition = body("condition", types, lambda b, i, *_: [b.add("Less", i, b.constant(np.int32(3)))])
    step = body("step", types, lambda b, i, v, m: [i + 1, b.add("Tanh", b.add("MatMul", v, m) + v) * 0.5, m])
    g = Builder("loop")
    state = [g.input(f"s{i}", *each) for i, each in enumerate(types)]
    g.output(g.add_many("While", state, subgraphs=[condition, step])[1])
    (got,) = run(g, np.array(0, np.int32), x, w, name=name)
    want = x.astype(np.float64)
    for _ in range(3):
        want = np.tanh(want @ w + want) * 0.5
    close(got, want)


def test_pieces_of_one_operand_that_is_also_read_whole() -> None:
    x = floats(64, 128)
    g = Builder("overlap")
    vx = g.input("x", "float32", x.shape)
    y = g.add("MatMul", vx, vx, transpose_x2=True)
    g.output(y + y)
    executable = executor("ge").compile(g.graph, CompileOptions(fuse=False))
    memory, output = runtime.asarray(x), runtime.empty((64, 64))
    for _ in range(3):  # the same binding again
        executable.run([memory], [output], runtime.current_stream())
    runtime.current_stream().synchronize()
    close(output.numpy(), 2 * x.astype(np.float64) @ x.T)


UNARY: dict[str, Callable[[Array], Array]] = {
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Abs": np.abs,
}


def grow(draw: st.DrawFn, g: Builder, pool: list[Pair]) -> Pair:
    """One more operator on values of the pool, whose elements stay small."""
    value, array = draw(st.sampled_from(pool))
    axis = draw(st.integers(0, array.ndim - 1))
    match draw(
        st.sampled_from(
            [
                "unary",
                "binary",
                "product",
                "batched",
                "softmax",
                "mean",
                "transpose",
                "merge",
                "cut",
                "concat",
            ]
        )
    ):
        case "binary":
            other, second = draw(st.sampled_from([p for p in pool if p[1].shape == array.shape]))
            return g.add("Maximum", value, other), np.maximum(array, second)
        case "product" if array.ndim == 2:
            weight = floats(array.shape[1], 64, seed=draw(st.integers(0, 9))) / math.sqrt(array.shape[1])
            turned = draw(st.booleans())
            factor = g.constant(np.ascontiguousarray(weight.T) if turned else weight)
            return g.add("MatMul", value, factor, transpose_x2=turned), array @ weight.astype(np.float64)
        case "batched" if array.ndim == 3:
            scaled = value * (1 / array.shape[2])
            return (
                g.add("BatchMatMul", scaled, value, adj_x2=True),
                array / array.shape[2] @ array.swapaxes(1, 2),
            )
        case "softmax":
            turned = np.moveaxis(array, axis, -1)
            return g.add("SoftmaxV2", value, axes=[axis]), np.moveaxis(softmax(turned), -1, axis)
        case "mean" if array.ndim > 2 or draw(st.booleans()):
            mean = g.add("ReduceMean", value, [axis], keep_dims=True)
            return value - mean, array - array.mean(axis, keepdims=True)
        case "transpose":
            perm = draw(st.permutations(range(array.ndim)))
            return g.add("Transpose", value, list(perm)), array.transpose(perm)
        case "merge" if array.ndim == 3:
            shape = [array.shape[0] * array.shape[1], array.shape[2]]
            return g.add("Reshape", value, shape), array.reshape(shape)
        case "merge" if array.shape[0] % 4 == 0:
            shape = [4, array.shape[0] // 4, array.shape[1]]
            return g.add("Reshape", value, shape), array.reshape(shape)
        case "cut" if array.shape[axis] > 1:
            begin, sizes = [0] * array.ndim, list(array.shape)
            begin[axis] = draw(st.integers(0, 1))
            sizes[axis] = array.shape[axis] - draw(st.integers(begin[axis], 1))
            window = tuple(slice(b, b + s) for b, s in zip(begin, sizes, strict=True))
            return g.add("Slice", value, begin, sizes), array[window]
        case "concat" if array.size < 65536:
            return g.add("ConcatV2", [value, g.add("Neg", value)], axis), np.concatenate(
                [array, -array], axis
            )
    name = draw(st.sampled_from(sorted(UNARY)))
    return g.add(name, value), UNARY[name](array)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_graphs_with_products(data: st.DataObject) -> None:
    g, pool, inputs = Builder("random"), [], []
    for i in range(data.draw(st.integers(1, 2))):
        shape = data.draw(st.sampled_from([(4, 32, 64), (2, 48, 64), (1, 64, 96), (64, 128), (3, 32, 64)]))
        inputs.append(floats(*shape, seed=i))
        pool.append((g.input(f"x{i}", "float32", shape), inputs[-1].astype(np.float64)))
    first = len(pool)
    for _ in range(data.draw(st.integers(4, 20))):
        pool.append(grow(data.draw, g, pool))
    wanted = [pool[-1], *data.draw(st.lists(st.sampled_from(pool[first:]), max_size=3))]
    for value, _ in wanted:
        g.output(value)
    for name in ("ge", "afir"):
        executable = executor(name).compile(g.graph, CompileOptions(fuse=False))
        outputs = [runtime.empty(array.shape) for _, array in wanted]
        executable.run(inputs, outputs, runtime.current_stream())
        runtime.current_stream().synchronize()
        for output, (_, array) in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(output.numpy(), array, rtol=1e-4, atol=1e-4, err_msg=name)
