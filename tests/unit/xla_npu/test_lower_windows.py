"""reduce_window and select_and_scatter against the reference interpreter and XLA on the CPU."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from tests.unit.xla_npu.jax_programs import check_jax
from tests.unit.xla_npu.oracle import check, program, run_npu
from tests.unit.xla_npu.test_lower_dot import nodes_of, sample, type_of

EXACT = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f32", "f64")
# Window, strides, base dilations, window dilations, padding, result.
GEOMETRIES = (
    ((1, 2, 2), (1, 2, 2), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0)), (3, 2, 2)),
    ((1, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1), ((0, 0), (1, 1), (1, 1)), (3, 3, 4)),
    ((2, 2, 1), (1, 1, 1), (1, 2, 1), (1, 3, 2), ((0, 1), (2, 1), (1, 0)), (3, 9, 5)),
    ((3, 5, 4), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0)), (1, 1, 1)),
    ((1, 3, 2), (1, 4, 3), (1, 1, 1), (1, 1, 1), ((0, 0), (2, 3), (0, 1)), (3, 2, 2)),
    ((2, 1, 1), (2, 1, 2), (1, 1, 1), (1, 1, 1), ((-1, 0), (-2, 1), (0, -1)), (1, 4, 2)),
)


def numbers(values):
    return f"array<i64: {', '.join(map(str, values))}>"


def window_text(element, cases):
    """reduce_windows of the argument; a case is (geometry, combiner, init)."""
    t, s = type_of((3, 5, 4), element), f"tensor<{element}>"
    lines, types = [], []
    for n, ((window, strides, base, dilations, padding, result), combiner, init) in enumerate(cases):
        types.append(type_of(result, element))
        lines.append(
            f"%i{n} = stablehlo.constant dense<{init}> : {s}\n"
            f'%{n} = "stablehlo.reduce_window"(%a0, %i{n}) <{{window_dimensions = {numbers(window)}, '
            f"window_strides = {numbers(strides)}, base_dilations = {numbers(base)}, "
            f"window_dilations = {numbers(dilations)}, "
            f"padding = dense<{[list(pair) for pair in padding]}> : tensor<3x2xi64>}}> ({{\n"
            f"^bb0(%x: {s}, %y: {s}):\n%z = stablehlo.{combiner} %x, %y : {s}\nstablehlo.return %z : {s}\n"
            f"}}) : ({t}, {s}) -> {types[-1]}"
        )
    lines.append(f"return {', '.join(f'%{n}' for n in range(len(cases)))} : {', '.join(types)}")
    return program("\n".join(lines), [t], types)


@pytest.mark.parametrize("element", EXACT)
def test_any_geometry(element):
    is_float = element.startswith("f")
    x = np.round(sample((3, 5, 4), element) * 8) if is_float else sample((3, 5, 4), element)
    how = (("add", "0.0"), ("maximum", "5.0")) if is_float else (("add", "0"), ("maximum", "5"))
    check(window_text(element, [(geometry, *row) for geometry in GEOMETRIES for row in how]), [x])


def test_sums_of_halves_are_rounded_once():
    x = np.ones((3, 5, 4), ml_dtypes.bfloat16)
    x[0] = 256
    whole = run_npu(window_text("bf16", [(GEOMETRIES[3], "add", "0.0")]), [x])[0]
    assert whole == ml_dtypes.bfloat16(256 * 20 + 40)


def test_long_windows():
    def all_sizes(x):
        return [
            lax.reduce_window(x, np.int32(0), lax.add, (size,), (1,), "SAME", None, (dilation,))
            for size in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 23)
            for dilation in (1, 2)
        ]

    check_jax(all_sizes, np.arange(40, dtype=np.int32) ** 2)


CUMULATIVE = (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int8, np.uint8, np.uint16, np.uint32, np.int64, np.uint64]
)
def test_cumulative_operations(dtype):
    x = np.random.default_rng(0).integers(0, 5, (3, 5, 2)).astype(dtype)
    check_jax(lambda x: [f(x, 1, reverse=r) for f in CUMULATIVE for r in (False, True)], x, tolerance=1e-6)


def test_cumulative_operations_on_halves_and_complex_numbers():
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.complex64)
    check_jax(lambda x: (lax.cumsum(x, 1), lax.cumprod(x, 0, reverse=True)), x, tolerance=1e-5)
    h = x.real.astype(ml_dtypes.bfloat16)
    text = jax.jit(lambda h: lax.cummax(h, 1)).lower(h).as_text()
    np.testing.assert_array_equal(run_npu(text, [h])[0], np.maximum.accumulate(h, 1))


def test_cumulative_sums_of_exponentials():
    x = np.array([[1.0, 2, -np.inf, 3], [-np.inf, -np.inf, 0, 1], [100, 1000, -1000, 1]], np.float32)
    for dtype in (np.float32, np.float64):
        check_jax(
            lambda x: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 0, reverse=True)),
            x.astype(dtype),
            tolerance=1e-6,
        )


def test_extrema_meet_nan():
    x = np.array([1, 3, np.nan, 2, np.inf, -np.inf, 0], np.float32)
    check_jax(lambda x: (lax.cummax(x), lax.cummin(x, reverse=True)), x)
    check_jax(lambda x: lax.reduce_window(x, -np.inf, lax.max, (3,), (1,), "VALID"), x)


def test_any_associative_combiner():
    def either(a, b):
        return a + b - a * b

    x = np.random.default_rng(0).uniform(0, 1, (9,)).astype(np.float32)
    cases = ((9, ((8, 0),)), (9, ((0, 8),)), (4, ((0, 0),)), (2, ((1, 1),)))
    check_jax(
        lambda x: [lax.reduce_window(x, np.float32(0), either, (w,), (1,), padding) for w, padding in cases],
        x,
        tolerance=1e-5,
    )


def test_what_operators_serve():
    x = jax.ShapeDtypeStruct((4, 8, 6), np.float32)

    def nodes(f):
        return [n for n in nodes_of(jax.jit(f).lower(x).as_text()) if n != "Reshape"]

    assert nodes(lambda x: lax.cumsum(x, 1)) == ["Cumsum"]
    assert nodes(lambda x: lax.cummax(x, 0)) == ["Cummax"]
    assert nodes(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID")) == [
        "ReduceMax"
    ]


# select_and_scatter


def pool(window, strides, padding, combiner=lax.max, init=-np.inf):
    def f(x):
        y = lax.reduce_window(x, init, combiner, window, strides, padding)
        return (y * jnp.arange(1, y.size + 1).reshape(y.shape)).sum()

    return f


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("window", "strides", "padding"),
    [
        ((1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        ((1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        ((1, 3, 2, 1), (1, 1, 3, 2), "SAME"),
    ],
)
def test_gradients_of_pooling(dtype, window, strides, padding):
    x = np.random.default_rng(0).integers(0, 5, (2, 7, 6, 3)).astype(dtype)  # with ties
    check_jax(jax.grad(pool(window, strides, padding)), x)
    check_jax(jax.grad(pool(window, strides, padding, lax.min, np.inf)), x)


def test_gradients_of_pooling_meet_nan():
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    x[0, 0], x[1, 2], x[3, 3], x[2, 0] = np.nan, np.nan, np.inf, -np.inf
    check_jax(jax.grad(pool((2, 2), (2, 2), "VALID")), x)
    check_jax(jax.grad(pool((2, 2), (1, 1), "VALID")), x)


@pytest.mark.parametrize(("scatter", "init"), [("add", 0), ("maximum", -100), ("multiply", 1)])
def test_any_scatter(scatter, init):
    t, u, s = "tensor<5x4xi32>", "tensor<3x3xi32>", "tensor<i32>"
    text = program(
        f"%i = stablehlo.constant dense<{init}> : {s}\n"
        f'%0 = "stablehlo.select_and_scatter"(%a0, %a1, %i) <{{window_dimensions = array<i64: 2, 3>, '
        f"window_strides = array<i64: 2, 1>, padding = dense<[[1, 0], [1, 0]]> : tensor<2x2xi64>}}> ({{\n"
        f"^bb0(%x: {s}, %y: {s}):\n%1 = stablehlo.compare GE, %x, %y : ({s}, {s}) -> tensor<i1>\n"
        f"stablehlo.return %1 : tensor<i1>\n}}, {{\n^bb0(%x: {s}, %y: {s}):\n"
        f"%1 = stablehlo.{scatter} %x, %y : {s}\nstablehlo.return %1 : {s}\n}}) : ({t}, {u}, {s}) -> {t}\n"
        f"return %0 : {t}",
        [t, u],
        [t],
    )
    rng = np.random.default_rng(0)
    check(text, [rng.integers(-9, 9, (5, 4), np.int32), rng.integers(-9, 9, (3, 3), np.int32)])
