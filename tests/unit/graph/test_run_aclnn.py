"""Graphs on the device, operator by operator, against NumPy's float64."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from npu_common import runtime
from npu_common.graph import Builder, GraphError, Value
from npu_common.graph.executors import CompileOptions, chosen, executor
from tests.unit.graph import reference, test_fusion

# float32 arithmetic of at most a few hundred terms against float64.
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}


def run(b: Builder, *inputs: np.ndarray, fuse: bool = True) -> list[np.ndarray]:
    executable = executor("aclnn").compile(b.graph, CompileOptions(fuse=fuse))
    outputs = [runtime.empty(list(v.shape), v.dtype) for v in b.graph.outputs]
    executable.run([runtime.asarray(i) for i in inputs], outputs, runtime.current_stream())
    return [o.numpy() for o in outputs]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("fuse", [False, True], ids=["expanded", "fused"])
@pytest.mark.parametrize("name", [name for name in test_fusion.FIRES if "half" not in name])
def test_expansions_and_fused_operators_agree_with_float64(name: str, fuse: bool) -> None:
    b = test_fusion.build(test_fusion.FIRES[name][0])
    data = [np.asarray(i, np.float32) for i in test_fusion.inputs(b)]
    expected = reference.run(b.graph, *data)[0]
    np.testing.assert_allclose(run(b, *data, fuse=fuse)[0], expected, **TOLERANCE)


def test_transposes_views_and_constants() -> None:
    b = Builder("g")
    x, w = b.input("x", "float32", (2, 3, 4)), b.input("w", "float32", (5, 4))
    flat = b.add("Reshape", x, [6, 4])
    y = b.add(
        "MatMulV2", flat, b.add("Transpose", w, [1, 0]), bias=b.constant(np.arange(5, dtype=np.float32))
    )
    b.output(b.add("Reshape", y, [2, 3, 5]))
    data = numbers(2, 3, 4), numbers(5, 4)
    expected = data[0].astype(np.float64) @ data[1].T.astype(np.float64) + np.arange(5)
    np.testing.assert_allclose(run(b, *data)[0], expected, **TOLERANCE)


def scattered(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[0, 2], out[1, 0] = 7, 8
    return out


MOVES = {
    "slice": (lambda b, x: b.add("Slice", x, [1, 2], [2, 3]), lambda x: x[1:3, 2:5]),
    "pad": (lambda b, x: b.add("Pad", x, np.array([[1, 0], [0, 2]])), lambda x: np.pad(x, [(1, 0), (0, 2)])),
    "concat": (lambda b, x: b.add("ConcatV2", [x, x], -1), lambda x: np.concatenate([x, x], -1)),
    "split": (lambda b, x: b.add_many("SplitD", x, split_dim=1, num_split=3)[2], lambda x: np.split(x, 3, 1)[2]),
    "fill": (lambda b, x: x + b.add("Fill", [4, 6], b.constant(np.float32(2))), lambda x: x + 2),
    "reduce": (lambda b, x: b.add("ReduceMax", x, [0], keep_dims=False), lambda x: x.max(0)),
    "gather": (lambda b, x: b.add("GatherV2", x, b.constant(np.array([3, 0])), [0]), lambda x: x[[3, 0]]),
    "cast": (lambda b, x: b.add("Cast", x * 10.0, dst_type="int32"), lambda x: (x * np.float32(10)).astype(np.int32)),
    "select": (lambda b, x: b.add("SelectV2", x > 0.0, x, 0.0), lambda x: np.where(x > 0, x, 0)),
    "is nan": (lambda b, x: b.add("IsNan", b.add("Log", x)), lambda x: x < 0),
    "squared difference": (lambda b, x: b.add("SquaredDifference", x, b.add("Slice", x, [0, 0], [1, 6])),
                           lambda x: (x - x[:1]) ** 2),
    "gradient of elu": (lambda b, x: b.add("EluGrad", x, x), lambda x: np.where(x > 0, x, x * (x + 1))),
    "gradient of log softmax": (lambda b, x: b.add("LogSoftmaxGrad", x, x, axis=[1]),
                                lambda x: x - np.exp(x) * x.sum(1, keepdims=True)),
    "scatter": (lambda b, x: b.add("ScatterElements", x, b.constant(np.array([[2], [0]])), [[7.0], [8.0]], axis=1),
                scattered),
    "cross entropy": (lambda b, x: b.add("SigmoidCrossEntropyWithLogits", x, 0.0 * x), lambda x: np.log1p(np.exp(x))),
    "strided": (lambda b, x: b.add("StridedSlice", x, [0, 1], [4, 6], [2, 2]), lambda x: x[0:4:2, 1:6:2]),
    "flip": (lambda b, x: b.add("ReverseV2", x, [1]), lambda x: x[:, ::-1]),
    "tile": (lambda b, x: b.add("Tile", x, [2, 1]), lambda x: np.tile(x, (2, 1))),
    "pack": (lambda b, x: b.add("Pack", [x, x], axis=1), lambda x: np.stack([x, x], 1)),
    "cumulative sum": (lambda b, x: b.add("Cumsum", x, [1]), lambda x: x.cumsum(1)),
    "largest": (lambda b, x: b.add_many("TopKV2", x, np.array([2], np.int32))[0], lambda x: -np.sort(-x, 1)[:, :2]),
    "argmax": (lambda b, x: b.add("ArgMaxV2", x, [1], dtype="int64"), lambda x: x.argmax(1)),
    "masked fill": (lambda b, x: b.add("MaskedFill", x, x > 0.0, b.constant(np.float32(9))),
                    lambda x: np.where(x > 0, 9, x)),
    "upper triangle": (lambda b, x: b.add("Triu", x, diagonal=1), lambda x: np.triu(x, 1)),
    "clip": (lambda b, x: b.add("ClipByValue", x, -0.5, 0.5), lambda x: x.clip(-0.5, 0.5)),
    "mean": (lambda b, x: b.add("ReduceMean", x, [-1, 0]), lambda x: x.mean()),
    "product": (lambda b, x: b.add("ReduceProd", x, [1]), lambda x: x.prod(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_single_operators(name: str) -> None:
    build, expected = MOVES[name]
    b = Builder("g")
    b.output(build(b, b.input("x", "float32", (4, 6))))
    x = numbers(4, 6)
    np.testing.assert_allclose(run(b, x)[0], expected(x), **TOLERANCE)


def test_inputs_that_swap_their_memory() -> None:
    b = Builder("g")
    x, y = b.input("x", "float32", (8,)), b.input("y", "float32", (8,))
    b.output(y, donated=x)
    b.output(b.add("Identity", x), donated=y)
    b.output(x + y)
    one, other = runtime.asarray(numbers(8)), runtime.asarray(numbers(8) + 1)
    total = runtime.empty([8])
    executable = executor("aclnn").compile(b.graph, CompileOptions())

    executable.run([one, other], [one, other, total], runtime.current_stream())

    np.testing.assert_array_equal(one.numpy(), numbers(8) + 1)
    np.testing.assert_array_equal(other.numpy(), numbers(8))
    np.testing.assert_allclose(total.numpy(), 2 * numbers(8) + 1, **TOLERANCE)


def test_an_executable_survives_its_bytes() -> None:
    b = Builder("g")
    b.output(b.input("x", "float32", (3,)) * 2.0)
    executable = executor("aclnn").deserialise(executor("aclnn").compile(b.graph, CompileOptions()).serialise(),
                                               CompileOptions())  # fmt: skip
    result = runtime.empty([3])
    executable.run([runtime.asarray(numbers(3))], [result], runtime.current_stream())
    np.testing.assert_array_equal(result.numpy(), numbers(3) * 2)


def test_threads_share_an_executable() -> None:
    b = Builder("g")
    b.output(b.add("Exp", b.input("x", "float32", (64,)) * b.constant(numbers(64))))
    executable = executor("aclnn").compile(b.graph, CompileOptions())
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        with runtime.Stream() as stream:
            for _ in range(20):
                result = runtime.empty([64])
                executable.run([runtime.full([64], float(number))], [result], stream)
            found[number] = result.numpy()
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        np.testing.assert_allclose(found[number], np.exp(number * numbers(64)), rtol=1e-5)


def dynamic(b: Builder) -> Value:
    return -b.input("x", "float32", (None,))


def stateful(b: Builder) -> Value:
    x = b.input("x", "float32", (2,))
    return b.add("Assign", x, x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (dynamic, "has no fixed shape.*NPU_COMPILER=ge"),
        (stateful, "Assign.*NPU_COMPILER=ge"),
        (lambda b: b.add("L2Loss", b.input("x", "float32", (2,))), "no aclnn operator.*NPU_COMPILER=ge"),
    ],
)
def test_what_does_not_run_operator_by_operator_is_refused(make: object, message: str) -> None:
    b = Builder("g")
    b.output(make(b))
    with pytest.raises(GraphError, match=message):
        executor("aclnn").compile(b.graph, CompileOptions())


def test_other_buffers_are_refused() -> None:
    b = Builder("g")
    b.output(-b.input("x", "float32", (3,)))
    executable = executor("aclnn").compile(b.graph, CompileOptions())
    with pytest.raises(ValueError, match=r"input 0 is float32\[4\]; the graph was compiled for float32\[3\]"):
        executable.run([runtime.empty([4])], [runtime.empty([3])], runtime.current_stream())


def test_the_executor_is_chosen_by_argument_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_COMPILER", "afir")
    assert (chosen(), chosen("aclnn")) == ("afir", "aclnn")
    monkeypatch.setenv("NPU_COMPILER", "fast")
    with pytest.raises(ValueError, match=r"no executor 'fast' .from NPU_COMPILER.; choose aclnn, ge, afir"):
        chosen()
