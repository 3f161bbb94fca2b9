"""Reductions against the reference interpreter, NumPy and XLA on the CPU."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from tests.unit.xla_npu.jax_programs import check_jax
from tests.unit.xla_npu.oracle import check, program, run_npu
from tests.unit.xla_npu.test_lower_dot import nodes_of, sample, type_of
from xla_npu.types import element_named

INTEGERS = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")
FLOATS = ("f32", "f64", "bf16", "f16")
COMPLEX = ("complex<f32>", "complex<f64>")


def reduce_text(shape, element, cases):
    """Reductions of the argument; a case is (dimensions, combiner, init)."""
    t, s = type_of(shape, element), f"tensor<{element}>"
    lines, types = [], []
    for n, (dims, combiner, init) in enumerate(cases):
        types.append(type_of([size for axis, size in enumerate(shape) if axis not in dims], element))
        lines.append(f"%i{n} = stablehlo.constant dense<{init}> : {s}")
        lines.append(
            f"%{n} = stablehlo.reduce(%a0 init: %i{n}) applies stablehlo.{combiner} across "
            f"dimensions = {list(dims)} : ({t}, {s}) -> {types[-1]}"
        )
    lines.append(f"return {', '.join(f'%{n}' for n in range(len(cases)))} : {', '.join(types)}")
    return program("\n".join(lines), [t], types)


DIMS = ((0, 2), (1,), ())


@pytest.mark.parametrize("element", INTEGERS)
def test_integers(element):
    x, limits = sample((3, 4, 5), element), np.iinfo(element_named(element).numpy)
    x[0, 0, 0], x[1, 1, 1] = limits.min, limits.max
    how = (("add", 0), ("multiply", 1), ("add", 3), ("maximum", limits.min), ("minimum", limits.max), ("and", limits.max),
           ("or", 0), ("xor", 0), ("maximum", 7))  # fmt: skip
    check(reduce_text(x.shape, element, [(dims, *row) for dims in DIMS for row in how]), [x])


def test_booleans():
    how = (("and", "true"), ("or", "false"), ("xor", "false"), ("maximum", "false"), ("minimum", "true"),
           ("add", "false"), ("multiply", "true"))  # fmt: skip
    check(reduce_text((3, 4, 5), "i1", [((0, 2), *row) for row in how]), [sample((3, 4, 5), "i1")])


LOWEST = {"bf16": "0xFF80", "f16": "0xFC00", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}
ROUNDING = {"bf16": 1e-2, "f16": 2e-3, "f32": 1e-6, "f64": 1e-14}


@pytest.mark.parametrize("element", FLOATS)
def test_floats(element):
    x = sample((3, 4, 5), element)
    wide, limit = x.astype(np.float64), ROUNDING[element]
    dims = ((0, 2), (1,), (0, 1, 2))
    cases = [(d, *row) for d in dims for row in (("add", "0.0"), ("multiply", "2.0"))]
    wanted = [np.asarray(v).astype(x.dtype) for d in dims for v in (wide.sum(d), 2 * wide.prod(d))]
    check(reduce_text(x.shape, element, cases), [x], limit, limit, wanted)
    x[1, 2, 3], x[2, 1, 4], x[0, 0, 1] = np.nan, np.inf, -np.inf
    extrema = (("maximum", LOWEST[element]), ("minimum", "1.5"))
    check(reduce_text(x.shape, element, [(d, *row) for d in dims for row in extrema]), [x])


def test_sums_of_halves_are_rounded_once():
    x = np.ones(5000, ml_dtypes.bfloat16)
    assert run_npu(reduce_text((5000,), "bf16", [((0,), "add", "0.0")]), [x])[0] == ml_dtypes.bfloat16(5000)


def test_dimensions_of_one_element():
    x = np.array([[[-0.0], [np.nan], [2.0]]], np.float32)
    cases = [((0, 2), "add", "0.0"), ((2,), "maximum", LOWEST["f32"]), ((0,), "multiply", "1.0")]
    text = reduce_text(x.shape, "f32", cases)
    check(text, [x])
    assert not np.signbit(run_npu(text, [x])[0][0])  # 0 + -0.0
    flags = sample((1, 3, 1), "i1")
    check(reduce_text(flags.shape, "i1", [((0, 2), "and", "true"), ((2,), "add", "false")]), [flags])


@pytest.mark.parametrize("element", COMPLEX)
def test_complex_numbers(element):
    x = sample((3, 4), element)
    cases = [((0,), "add", "(0.0, 0.0)"), ((0, 1), "multiply", "(1.0, 0.0)")]
    check(reduce_text(x.shape, element, cases), [x], 1e-4, 1e-4, [x.sum(0), np.asarray(x.prod())])


@pytest.mark.parametrize("element", ["f32", "i32", "ui32", "i1"])
def test_empty_dimensions_give_the_init(element):
    init = {"i1": "true", "f32": "3.0"}.get(element, "3")
    combiners = ("add", "maximum") if element == "f32" else ("add", "maximum", "and")
    cases = [(dims, combiner, init) for combiner in combiners for dims in ((0,), (1,))]
    check(reduce_text((2, 0, 3), element, cases), [np.zeros((2, 0, 3), element_named(element).numpy)])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_any_associative_combiner_in_order(size):
    """x, y -> x + y - x * y, and the composition of affine functions, which does not commute."""
    x = np.random.default_rng(size).uniform(-1, 1, (3, size)).astype(np.float32)
    check_jax(lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b - a * b, [1]), x, tolerance=1e-5)
    y = np.random.default_rng(size + 1).uniform(-1, 1, (3, size)).astype(np.float32)

    def compose(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    want = [np.ones(3, np.float32), np.zeros(3, np.float32)]
    for i in range(size):
        want = [np.asarray(v) for v in compose(want, (x[:, i], y[:, i]))]
    text = jax.jit(
        lambda x, y: lax.reduce((x, y), (np.float32(1), np.float32(0)), compose, [1])
    ).lower(x, y).as_text()  # fmt: skip
    check(text, [x, y], 1e-5, 1e-5, want)


@pytest.mark.parametrize(
    "dtype", [np.float32, ml_dtypes.bfloat16, np.int8, np.uint32, np.int64, np.uint64, np.bool_]
)
def test_argmax_and_argmin(dtype):
    x = np.random.default_rng(0).integers(0, 4, (5, 7)).astype(dtype)
    check_jax(lambda x: (lax.argmax(x, 1, np.int32), lax.argmin(x, 0, np.int64), jnp.argmax(x)), x)
    if np.dtype(dtype).kind == "u":
        x[0, 3] = np.iinfo(dtype).max
        check_jax(lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1)), x)


def test_argmax_meets_nan_and_infinity():
    x = np.array(
        [[1, np.nan, 3, np.nan], [-np.inf] * 4, [np.inf, -np.inf, np.inf, 0], [-0.0, 0.0, -0.0, 0.0]],
        np.float32,
    )
    check_jax(
        lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.max(x, 1), jnp.min(x, 1), jnp.nanargmax(x[2:], 1)),
        x,
    )


def test_argmax_is_one_operator():
    x = jax.ShapeDtypeStruct((4, 50), np.float32)
    nodes = nodes_of(jax.jit(lambda x: jnp.argmax(x, 1)).lower(x).as_text())
    assert [node for node in nodes if node != "BroadcastTo"] == ["ArgMaxV2", "ReduceMax"]


def test_jax_reductions():
    x = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    check_jax(
        lambda x: (x.sum(), x.mean(1), x.var((0, 2)), jnp.prod(x, 2), x.std(), jnp.ptp(x, 0)),
        x,
        tolerance=1e-5,
    )
    check_jax(lambda x: (jax.nn.logsumexp(x, 1), jax.nn.softmax(x, -1), jnp.median(x)), x, tolerance=1e-5)
    check_jax(lambda x: (jnp.all(x > -3), jnp.any(x > 2, 0), jnp.count_nonzero(x > 0, 1)), x)
    n = np.random.default_rng(0).integers(-9, 9, (4, 5)).astype(np.int32)
    check_jax(lambda n: (lax.reduce_and(n, [0]), lax.reduce_or(n, [1]), lax.reduce_xor(n, [0, 1])), n)


def test_map():
    t, s = "tensor<2x3xf32>", "tensor<f32>"
    text = program(
        f'%0 = "stablehlo.map"(%a0, %a1) <{{dimensions = array<i64: 0, 1>}}> ({{\n^bb0(%x: {s}, %y: {s}):\n'
        f"%1 = stablehlo.multiply %x, %y : {s}\n%2 = stablehlo.add %1, %y : {s}\nstablehlo.return %2 : {s}\n}})"
        f" : ({t}, {t}) -> {t}\nreturn %0 : {t}",
        [t, t],
        [t],
    )
    check(text, [sample((2, 3), "f32", 1), sample((2, 3), "f32", 2)])
