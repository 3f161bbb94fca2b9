"""aclnn operators by name, against NumPy; and what is said of wrong arguments."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from npu_common import runtime
from npu_common.runtime import ops

from .conftest import Spawn, output

pytestmark = pytest.mark.usefixtures("blocks_are_returned")
X = np.random.default_rng(0).standard_normal((4, 6), dtype=np.float32)
Y = np.random.default_rng(1).standard_normal((4, 6), dtype=np.float32)


def run(name: str, *arguments, like: np.ndarray, **named) -> np.ndarray:
    """The operator's last parameter as a NumPy array of the shape and dtype of `like`."""
    out = runtime.empty(like.shape, like.dtype)
    on_device = [runtime.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    ops.call(name, *on_device, **named, out=out)
    return out.numpy()


@pytest.mark.parametrize("alpha", [1, 2.5, ops.scalar(2.5, "float32"), np.float32(2.5)], ids=str)
def test_add_takes_every_kind_of_scalar(alpha) -> None:
    factor = 2.5 if isinstance(alpha, type(ops.scalar(1, "int8"))) else float(alpha)
    np.testing.assert_allclose(run("aclnnAdd", X, Y, alpha, like=X), X + factor * Y, rtol=1e-6)


def test_arguments_by_cann_s_names() -> None:
    x, out = runtime.asarray(X), runtime.empty((4, 6))
    ops.call("aclnnSoftmax", x, out=out, dim=1)
    e = np.exp(X - X.max(1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), e / e.sum(1, keepdims=True), rtol=1e-6)


def test_arrays_lists_booleans_and_dtypes() -> None:
    np.testing.assert_allclose(
        run("aclnnReduceSum", X, [1], True, np.float32, like=X[:, :1]), X.sum(1, keepdims=True), rtol=1e-5
    )
    np.testing.assert_array_equal(run("aclnnPermute", X, [1, 0], like=X.T), X.T)
    both = [runtime.asarray(X), runtime.asarray(Y)]
    np.testing.assert_array_equal(
        run("aclnnCat", both, 0, like=np.concatenate([X, Y])), np.concatenate([X, Y])
    )
    np.testing.assert_array_equal(run("aclnnCast", X, "int32", like=X.astype(np.int32)), X.astype(np.int32))


def test_absent_tensors_and_integers() -> None:
    x = np.random.default_rng(2).standard_normal((2, 8), dtype=np.float32)
    out, mean, rstd = runtime.empty((2, 8)), runtime.empty((2, 1)), runtime.empty((2, 1))
    ops.call("aclnnLayerNorm", runtime.asarray(x), [8], None, None, 1e-5, out, mean, rstd)
    centred = x - x.mean(1, keepdims=True)
    np.testing.assert_allclose(
        out.numpy(), centred / np.sqrt(x.var(1, keepdims=True) + 1e-5), rtol=1e-4, atol=1e-5
    )
    gelu = runtime.empty((2, 8))
    ops.call("aclnnGeluV2", runtime.asarray(x), 1, gelu)
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(gelu.numpy(), tanh, rtol=1e-4, atol=1e-5)


def test_bfloat16_and_views() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    out = runtime.empty((4, 4), ml_dtypes.bfloat16)
    array = runtime.asarray(x)
    ops.call("aclnnMatmul", array, array.transpose(), out, 0)
    reference = x.astype(np.float64) @ x.astype(np.float64).T
    np.testing.assert_allclose(out.numpy().astype(np.float64), reference, rtol=2**-7, atol=2**-7)


def test_an_operator_puts_its_output_on_its_stream() -> None:
    with runtime.Stream() as stream:
        x, out = (
            runtime.asarray(X, stream=runtime.default_stream()),
            runtime.empty(X.shape, stream=runtime.default_stream()),
        )
        ops.call("aclnnNeg", x, out)
        assert out.stream.handle == stream.handle
        np.testing.assert_array_equal(out.numpy(), -X)


WRONG = {
    "an unknown name": (lambda x: ops.call("aclnnAd", x), ValueError, "nearest name is aclnnAdd"),
    "too few": (
        lambda x: ops.call("aclnnAdd", x, x, 1),
        TypeError,
        "takes 4 arguments .self other alpha out., 3 were given",
    ),
    "a missing name": (lambda x: ops.call("aclnnAdd", x, x, out=x), TypeError, "also needs alpha"),
    "an unknown parameter": (
        lambda x: ops.call("aclnnAdd", x, x, 1, x, beta=1),
        TypeError,
        "has no parameter beta",
    ),
    "twice": (lambda x: ops.call("aclnnAdd", x, x, 1, x, alpha=1), TypeError, "alpha twice"),
    "a number for a tensor": (
        lambda x: ops.call("aclnnNeg", 1.0, x),
        TypeError,
        r"self .argument 1. takes a tensor, not float",
    ),
    "a host array": (lambda x: ops.call("aclnnNeg", X, x), TypeError, "in host memory"),
    "a string for a scalar": (
        lambda x: ops.call("aclnnAdd", x, x, "1", x),
        TypeError,
        "alpha .argument 3. takes a scalar, not str",
    ),
    "a float for an integer": (
        lambda x: ops.call("aclnnSoftmax", x, 1.0, x),
        TypeError,
        "dim .argument 2. takes an integer, not float",
    ),
    "an integer for a bool": (
        lambda x: ops.call("aclnnReduceSum", x, [1], 1, "float32", x),
        TypeError,
        "keepDims .argument 3. takes a bool",
    ),
    "out of range": (lambda x: ops.call("aclnnGeluV2", x, 1 << 70, x), OverflowError, "int"),
    "a scalar that is too large": (
        lambda x: ops.call("aclnnAdd", x, x, 1 << 70, x),
        OverflowError,
        "int too big",
    ),
    "two devices": (
        lambda x: ops.call("aclnnAdd", x, x.to(1), 1, x),
        ValueError,
        "other is on npu:1, the stream on npu:0",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named_before_anything_runs(case: str) -> None:
    call, error, sentence = WRONG[case]
    with pytest.raises(error, match=sentence):
        call(runtime.asarray(X))


def test_every_prototype_has_a_signature_and_names_its_outputs() -> None:
    assert len(ops.names()) > 1200
    assert (
        ops.signature("aclnnAdd")
        == "aclnnAdd(self: tensor, other: tensor, alpha: scalar, out: tensor, written)"
    )
    assert ops.exists("aclnnAdd") and not ops.exists("aclnnNoSuchOperator")


def test_operators_of_many_threads_and_no_handle_leaks() -> None:
    def hammer(seed: int) -> bool:
        host = np.full(100, seed, np.float32)
        with runtime.Stream():
            x, out = runtime.asarray(host), runtime.empty(100)
            for i in range(200):
                ops.call("aclnnAdd", x, x, i, out)
            return bool((out.numpy() == seed * 200).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(hammer, range(8)))


def test_a_call_leaves_nothing_behind(spawn: Spawn) -> None:
    """Each call makes four handles and an executor: a hundred bytes lost a call would be seen."""
    code = """
import resource
import numpy as np
from npu_common import runtime
x, out = runtime.asarray(np.ones(16, np.float32)), runtime.empty(16)

def calls(n):
    for i in range(n):
        runtime.ops.call("aclnnAdd", x, x, i, out)
        runtime.ops.call("aclnnReduceSum", x, [0], False, "float32", runtime.empty(()))
    runtime.current_stream().synchronize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes

calls(3000)
print(calls(3000), calls(30000))
"""
    before, after = map(int, output(spawn(code)).split())
    assert after - before < 3000


def test_an_operator_that_fails_on_the_device_shows_when_its_values_are_asked_for(spawn: Spawn) -> None:
    """In a process of its own: the error stays with the device, which gives out no values from then on."""
    code = """
import numpy as np
from npu_common import runtime
x, out = runtime.asarray(np.ones((4, 6), np.float32)), runtime.zeros((4, 4))
y = runtime.zeros(3)
try:
    runtime.ops.call("aclnnMatmul", x, x, out, 0)
    out.numpy()
except runtime.CannError as error:
    print(error.code_name, error)
try:
    y.numpy()
    print("values")
except runtime.CannError as error:
    print("still", error.code_name)
"""
    first, second = output(spawn(code)).splitlines()
    assert "aclnnMatmul" in first and first.startswith("ACL_ERROR_")
    assert second in ("values", "still ACL_ERROR_RT_AICORE_EXCEPTION")  # refused at once, or on the device
