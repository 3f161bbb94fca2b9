"""Random graphs on the emulated engine, plain and fused, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_common import runtime
from npu_common.graph import Builder
from npu_common.graph.executors import CompileOptions, executor
from npu_common.graph.ir import Value

Array = np.ndarray
Pair = tuple[Value, Array]

# All bounded, so that errors do not grow: a graph of twenty operators stays within 1e-4.
UNARY: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Relu": lambda x: np.maximum(x, 0),
    "Sin": np.sin,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}


def grow(draw: st.DrawFn, g: Builder, pool: list[Pair]) -> Pair:
    """One more operator on values of the pool."""
    value, array = draw(st.sampled_from(pool))
    kind = draw(
        st.sampled_from(
            [
                "unary",
                "binary",
                "choice",
                "mean",
                "max",
                "transpose",
                "reshape",
                "concat",
                "stack",
                "slice",
                "stride",
                "split",
            ]
        )
    )
    if kind == "unary" or (array.ndim == 0 and kind not in ("binary", "choice")):
        name = draw(st.sampled_from(sorted(UNARY)))
        return g.add(name, value), UNARY[name](array)
    if kind == "binary":
        fitting = [pair for pair in pool if _broadcasts(array, pair[1])]
        other, second = draw(st.sampled_from(fitting))
        name = draw(st.sampled_from(sorted(BINARY)))
        return g.add(name, value, other), BINARY[name](array, second)
    if kind == "choice":
        other, second = draw(st.sampled_from([pair for pair in pool if pair[1].shape == array.shape]))
        return _choose(g, (value, array), (other, second))
    axis = draw(st.integers(-array.ndim, array.ndim - 1))
    if kind in ("mean", "max"):
        keep = draw(st.booleans())
        name, function = ("ReduceMean", np.mean) if kind == "mean" else ("ReduceMax", np.max)
        return g.add(name, value, [axis], keep_dims=keep), function(array, axis=axis, keepdims=keep)
    if kind == "transpose":
        perm = draw(st.permutations(range(array.ndim)))
        return g.add("Transpose", value, list(perm)), array.transpose(perm)
    if kind == "reshape":
        return g.add("Reshape", value, [-1, array.shape[0]]), array.reshape(-1, array.shape[0])
    if kind in ("concat", "stack") and (array.ndim > 4 or array.size > 10_000):
        return value, array
    if kind in ("concat", "stack"):
        fitting = [pair for pair in pool if pair[1].shape == array.shape]
        parts = [(value, array), *draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2))]
        values, arrays = [v for v, _ in parts], [a for _, a in parts]
        if kind == "concat":
            return g.add("ConcatV2", values, axis), np.concatenate(arrays, axis)
        return g.add("Pack", values, axis=axis, N=len(parts)), np.stack(arrays, axis)
    if kind == "split":
        sizes = draw(
            st.sampled_from([n for n in range(1, array.shape[axis] + 1) if array.shape[axis] % n == 0])
        )
        index = draw(st.integers(0, sizes - 1))
        parts = g.add_many("Split", np.array(axis, np.int32), value, num_split=sizes)
        return parts[index], np.split(array, sizes, axis)[index]
    begin = [draw(st.integers(0, size - 1)) for size in array.shape]
    sizes = [draw(st.integers(1, size - b)) for size, b in zip(array.shape, begin, strict=True)]
    window = tuple(slice(b, b + s) for b, s in zip(begin, sizes, strict=True))
    if kind == "stride":
        steps = [draw(st.integers(1, 3)) for _ in begin]
        window = tuple(slice(w.start, w.stop, step) for w, step in zip(window, steps, strict=True))
        return g.add("StridedSlice", value, begin, [w.stop for w in window], steps), array[window]
    return g.add("Slice", value, begin, sizes), array[window]


def _choose(g: Builder, a: Pair, b: Pair) -> Pair:
    """The larger of two, by a comparison: no sum before it may decide otherwise, so that both are compared as given."""
    above = g.add("GreaterEqual", a[0], b[0])
    return g.add("SelectV2", above, a[0], b[0]), np.maximum(a[1], b[1])


def _broadcasts(a: Array, b: Array) -> bool:
    try:
        return np.broadcast_shapes(a.shape, b.shape) in (a.shape, b.shape)
    except ValueError:
        return False


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_graphs(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    g, pool, inputs = Builder("random"), [], []
    for i in range(data.draw(st.integers(1, 3))):
        shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
        inputs.append(rng.standard_normal(shape, dtype=np.float32))
        pool.append((g.input(f"x{i}", "float32", shape), inputs[-1].astype(np.float64)))
    first = len(pool)
    for _ in range(data.draw(st.integers(1, 20))):
        pool.append(grow(data.draw, g, pool))
    wanted = [pool[-1], *data.draw(st.lists(st.sampled_from(pool[first:]), max_size=2))]
    for value, _ in wanted:
        g.output(value)
    for name in ("ge", "afir"):
        executable = executor(name).compile(g.graph, CompileOptions())
        outputs = [runtime.empty(array.shape) for _, array in wanted]
        executable.run(inputs, outputs, runtime.current_stream())
        for output, (_, array) in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(output.numpy(), array, rtol=1e-4, atol=1e-4, err_msg=name)
