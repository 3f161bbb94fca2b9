"""sort by every comparator, top_k, approx_top_k."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from tests.unit.xla_npu.jax_programs import check_jax
from tests.unit.xla_npu.oracle import check, program, run_npu
from xla_npu import frontend
from xla_npu.errors import Unsupported
from xla_npu.lowering.comparators import keys_of

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, -0.0, 0.0, -np.nan, 1.0, 1.0]


def numbers(dtype, shape=(3, 20)):
    """With ties and every special value of the dtype."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(7)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        array = random.integers(-5, 5, shape).astype(dtype)  # unsigned: wraps to their ends
        array[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
        return array
    real = np.round(random.normal(size=shape) * 3)
    real[0, : len(SPECIAL)] = SPECIAL
    if dtype.kind == "c":
        return (real + 1j * np.round(random.normal(size=shape))).astype(dtype)
    return real.astype(dtype)


ALL = [np.bool_, *INTEGERS, *FLOATS, np.complex64, np.complex128]
_name = lambda dtype: np.dtype(dtype).name  # noqa: E731


@pytest.mark.parametrize("dtype", ALL, ids=_name)
def test_sort(dtype):
    check_jax(lambda x: jnp.sort(x, axis=1), numbers(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint64], ids=_name)
def test_sort_along_the_first_axis(dtype):
    check_jax(lambda x: (jnp.sort(x, axis=0), jnp.argsort(x, axis=0)), numbers(dtype))


@pytest.mark.parametrize("dtype", ALL, ids=_name)
def test_argsort_is_stable(dtype):
    check_jax(lambda x: (jnp.argsort(x), jnp.argsort(x, descending=True)), numbers(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.uint32, np.complex64, np.complex128], ids=_name)
def test_several_keys(dtype):
    def f(x, y):
        return lax.sort((x, y, jnp.arange(60).reshape(3, 20)), num_keys=2)

    check_jax(f, numbers(dtype), numbers(np.int16))


def test_payloads_of_every_type():
    payloads = [numbers(dtype) for dtype in ALL]
    check_jax(lambda key, *rest: lax.sort((key, *rest), num_keys=1), numbers(np.float32), *payloads)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 1), (1,)])
def test_nothing_to_sort(shape):
    check_jax(lambda x: jnp.sort(x), np.ones(shape, np.float32))


def test_functions_of_numpy():
    x = np.round(np.random.default_rng(1).normal(size=30) * 4).astype(np.float32)
    check_jax(lambda x, y: jnp.lexsort((y, x)), x, x[::-1])
    check_jax(lambda x: jnp.searchsorted(jnp.sort(x), x, method="sort"), x)
    check_jax(lambda x: jnp.partition(x, 5)[5], x)
    check_jax(lambda x: lax.sort((x, jnp.sin(x)), is_stable=False)[0], x)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=_name)
def test_top_k(dtype):
    check_jax(lambda x: lax.top_k(x, 7), numbers(dtype))


def test_top_k_of_little():
    check_jax(lambda x: lax.top_k(x, 0), numbers(np.float32))
    check_jax(lambda x: lax.top_k(x, 1), np.ones((2, 1), np.float32))
    check_jax(lambda x: lax.top_k(x, 3), np.ones((0, 5), np.float32))
    check_jax(lambda x: lax.top_k(x, 2, axis=0), numbers(np.int32))


@pytest.mark.parametrize("aggregate", [True, False])
def test_approx_top_k_is_exact(aggregate):
    x = np.random.default_rng(3).permutation(60).reshape(3, 20).astype(np.float32)
    check_jax(lambda x: lax.approx_max_k(x, 4, aggregate_to_topk=aggregate), x)
    check_jax(lambda x: lax.approx_min_k(x, 2, reduction_dimension=0, aggregate_to_topk=aggregate), x)


def comparator(body, elements=("f32", "i32"), shape="7", stable="true"):
    types = ", ".join(f"tensor<{shape}x{element}>" for element in elements)
    operands = ", ".join(f"%a{i}" for i in range(len(elements)))
    arguments = ", ".join(f"%l{i}: tensor<{e}>, %r{i}: tensor<{e}>" for i, e in enumerate(elements))
    results = ", ".join(f"%0#{i}" for i in range(len(elements)))
    text = f"""%0:{len(elements)} = "stablehlo.sort"({operands}) <{{dimension = 0 : i64, is_stable = {stable}}}> ({{
      ^bb0({arguments}):
        {body}
        stablehlo.return %p : tensor<i1>
    }}) : ({types}) -> ({types})
    return {results} : {types}"""
    full = [f"tensor<{shape}x{element}>" for element in elements]
    return program(text, full, full)


F32 = "(tensor<f32>, tensor<f32>) -> tensor<i1>"
I32 = "(tensor<i32>, tensor<i32>) -> tensor<i1>"
COMPARATORS = {
    "descending": f"%p = stablehlo.compare GT, %l0, %r0 : {F32}",
    "the other way round": f"%p = stablehlo.compare GT, %r0, %l0, FLOAT : {F32}",
    "by the second operand": f"%p = stablehlo.compare LT, %l1, %r1, SIGNED : {I32}",
    "by a function": f"""%a = stablehlo.abs %l0 : tensor<f32>
        %b = stablehlo.abs %r0 : tensor<f32>
        %p = stablehlo.compare LT, %a, %b : {F32}""",
    "up, then down": f"""%a = stablehlo.compare LT, %l0, %r0, FLOAT : {F32}
        %e = stablehlo.compare EQ, %r0, %l0, FLOAT : {F32}
        %b = stablehlo.compare GT, %l1, %r1, SIGNED : {I32}
        %c = stablehlo.and %b, %e : tensor<i1>
        %p = stablehlo.or %c, %a : tensor<i1>""",
}
NO_KEYS = {
    "by select": f"""%e = stablehlo.compare EQ, %l0, %r0 : {F32}
        %a = stablehlo.compare LT, %l0, %r0 : {F32}
        %b = stablehlo.compare GT, %l1, %r1 : {I32}
        %p = stablehlo.select %e, %b, %a : tensor<i1>, tensor<i1>""",
    "all the same": "%p = stablehlo.constant dense<false> : tensor<i1>",
    "by a difference": f"""%d = stablehlo.subtract %l0, %r0 : tensor<f32>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %p = stablehlo.compare LT, %d, %z : {F32}""",
}
X = np.array([2, -3, -0.0, 5, 0.0, 2, 3], np.float32)
Y = np.array([5, 1, 9, 2, 7, 6, -1], np.int32)


@pytest.mark.parametrize("name", COMPARATORS)
def test_comparators(name):
    check(comparator(COMPARATORS[name]), [X, Y])


def test_the_total_order_of_floats():
    """Which the reference interpreter takes for the usual order."""
    x = np.array([0.0, np.nan, -0.0, 1.0, -np.nan, -np.inf, 0.0], np.float32)
    order = np.array([1, 3, 0, 6, 2, 5, 4], np.int32)
    body = f"%p = stablehlo.compare GT, %l0, %r0, TOTALORDER : {F32}"
    check(comparator(body), [x, np.arange(7, dtype=np.int32)], expected=[x[order], order])


@pytest.mark.parametrize("name", NO_KEYS)
def test_comparators_that_are_no_keys(name):
    text = comparator(NO_KEYS[name])
    module = frontend.parse(text.encode())
    block = next(iter(frontend.nested(frontend.functions(module)["main"].operation))).regions[0].blocks[0]
    assert keys_of(block) is None
    check(text, [X, Y])


def test_the_same_operand_compared_with_another_is_no_key():
    body = f"%p = stablehlo.compare LT, %l0, %r1 : {F32}"
    with pytest.raises(Unsupported, match="sort by keys"):
        run_npu(comparator(body, ("f32", "f32"), "20000"), [np.zeros(20000, np.float32)] * 2)


def test_a_table_of_batches():
    x = np.random.default_rng(5).integers(0, 9, (2, 3, 4)).astype(np.float32)
    text = """%0 = "stablehlo.sort"(%a0) <{dimension = 1 : i64, is_stable = true}> ({
      ^bb0(%l0: tensor<f32>, %r0: tensor<f32>):
        %d = stablehlo.subtract %l0, %r0 : tensor<f32>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %p = stablehlo.compare LT, %d, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
    }) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    return %0 : tensor<2x3x4xf32>"""
    check(program(text, ["tensor<2x3x4xf32>"], ["tensor<2x3x4xf32>"]), [x], expected=[np.sort(x, 1)])


def test_composite_of_chlo():
    x = numbers(np.float32)
    with jax.enable_x64(False):
        text = """%0:2 = stablehlo.composite "chlo.top_k" %a0
          {composite_attributes = {k = 5 : i64, largest = true}, decomposition = @d, version = 1 : i32}
          : (tensor<3x20xf32>) -> (tensor<3x5xf32>, tensor<3x5xi32>)
        return %0#0, %0#1 : tensor<3x5xf32>, tensor<3x5xi32>"""
    wrapped = program(text, ["tensor<3x20xf32>"], ["tensor<3x5xf32>", "tensor<3x5xi32>"])
    decomposition = """func.func private @d(%a: tensor<3x20xf32>) -> (tensor<3x5xf32>, tensor<3x5xi32>) {
      %v = stablehlo.slice %a [0:3, 0:5] : (tensor<3x20xf32>) -> tensor<3x5xf32>
      %i = stablehlo.constant dense<0> : tensor<3x5xi32>
      return %v, %i : tensor<3x5xf32>, tensor<3x5xi32>
    }"""
    whole = wrapped.rstrip("} \n") + "}\n" + decomposition + "\n}"
    values, places = run_npu(whole, [x])
    theirs = lax.top_k(x, 5)
    np.testing.assert_array_equal(values, np.asarray(theirs[0]))
    np.testing.assert_array_equal(places, np.asarray(theirs[1]))
