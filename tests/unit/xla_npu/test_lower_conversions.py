"""Comparisons, select, clamp, conversions, bits, complex numbers and iota."""

import math

import jax
import numpy as np
import pytest
from jax import lax

from tests.unit.xla_npu.oracle import check, program, run_npu, run_reference
from tests.unit.xla_npu.test_lower_elementwise import DTYPES, FLOATS, INTS, TOLERANCE, pairs, values
from xla_npu.types import element_named

STORAGE = (
    "f8E5M2",
    "f8E4M3FN",
    "f8E4M3B11FNUZ",
    "f8E5M2FNUZ",
    "f8E4M3FNUZ",
    "f8E4M3",
    "f8E3M4",
    "f8E8M0FNU",
    "f4E2M1FN",
)


def dtype_of(element):
    return element_named(element).numpy


@pytest.mark.parametrize("element", (*FLOATS, *INTS, "i1", "complex<f32>", "complex<f64>"))
def test_compare(element):
    inputs = pairs(element)
    t, r = f"tensor<{len(inputs[0])}x{element}>", f"tensor<{len(inputs[0])}xi1>"
    directions = ("EQ", "NE") if "complex" in element else ("EQ", "NE", "LT", "LE", "GT", "GE")
    lines = [f"%{i} = stablehlo.compare {d}, %a0, %a1 : ({t}, {t}) -> {r}" for i, d in enumerate(directions)]
    lines.append(
        f"return {', '.join(f'%{i}' for i in range(len(directions)))} : {', '.join([r] * len(directions))}"
    )
    check(program("\n".join(lines), [t, t], [r] * len(directions)), inputs)


@pytest.mark.parametrize("element", FLOATS)
def test_total_order(element):
    dtype = dtype_of(element)
    x = np.array([-np.nan, -np.inf, -1.5, -0.0, 0.0, 1e-3, np.inf, np.nan]).astype(dtype)
    x[0] = np.copysign(np.array(np.nan, dtype), np.array(-1, dtype))
    n = len(x)
    a, b = np.repeat(x, n), np.tile(x, n)
    t, r = f"tensor<{n * n}x{element}>", f"tensor<{n * n}xi1>"
    order = np.arange(n)
    expected = np.repeat(order, n) < np.tile(order, n)
    text = program(
        f"%0 = stablehlo.compare LT, %a0, %a1, TOTALORDER : ({t}, {t}) -> {r}\nreturn %0 : {r}", [t, t], [r]
    )
    check(text, [a, b], expected=[expected])


@pytest.mark.parametrize("element", ("f32", "bf16", "i16", "ui32", "i1", "complex<f32>", "f8E4M3FN"))
def test_select(element):
    dtype = dtype_of(element)
    t = f"tensor<2x3x{element}>"
    x, y = np.arange(6).reshape(2, 3).astype(dtype), np.ones((2, 3)).astype(dtype)
    for predicate, p in ((np.array(True), "tensor<i1>"), (np.eye(2, 3, dtype=bool), "tensor<2x3xi1>")):
        text = program(f"%0 = stablehlo.select %a0, %a1, %a2 : {p}, {t}\nreturn %0 : {t}", [p, t, t], [t])
        check(text, [predicate, x, y], expected=[np.where(predicate, x, y)])


@pytest.mark.parametrize("element", (*FLOATS, *INTS))
def test_clamp(element):
    x = values(element)
    low, high = np.array(1, x.dtype), np.array(3, x.dtype)
    t, s = f"tensor<{len(x)}x{element}>", f"tensor<{element}>"
    text = program(
        f"%0 = stablehlo.clamp %a0, %a1, %a2 : ({s}, {t}, {s}) -> {t}\nreturn %0 : {t}", [s, t, s], [t]
    )
    check(text, [low, x, high])


def saturated(x, dtype):
    """Float to integer as XLA has it."""
    if dtype.kind == "b":
        return x.astype(np.float64) != 0
    limits, out = np.iinfo(dtype), []
    for v in x.astype(np.float64):
        out.append(
            0 if np.isnan(v) else limits.max if v >= limits.max else limits.min if v <= limits.min else int(v)
        )
    return np.array(out, dtype)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_convert(source, target):
    x, dtype = values(source), np.dtype(DTYPES[target])
    if source in FLOATS:
        x = np.concatenate(
            [x, np.array([2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e30, -1e30, -129.0]).astype(x.dtype)]
        )
    t, r = f"tensor<{len(x)}x{source}>", f"tensor<{len(x)}x{target}>"
    real = x.real if x.dtype.kind == "c" and dtype.kind != "c" else x
    is_float = real.dtype.kind == "f" or real.dtype.name == "bfloat16"
    with np.errstate(all="ignore"):
        if is_float and dtype.kind in "iub":
            expected = saturated(real, dtype)
        elif dtype.name == "bfloat16" and real.dtype.itemsize == 8:
            expected = real.astype(np.float32).astype(dtype)  # as XLA does
        else:
            expected = real.astype(dtype)
    text = program(f"%0 = stablehlo.convert %a0 : ({t}) -> {r}\nreturn %0 : {r}", [t], [r])
    check(text, [x], expected=[expected])


def test_float64_to_float16_rounds_once():
    x = np.array(
        [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 65519.999999, 65520.0, 2.0**-25 + 2.0**-60, 1e300, np.nan]
    )
    text = program("%0 = stablehlo.convert %a0 : (tensor<7xf64>) -> tensor<7xf16>\nreturn %0 : tensor<7xf16>",
                   ["tensor<7xf64>"], ["tensor<7xf16>"])  # fmt: skip
    with np.errstate(all="ignore"):
        check(text, [x], expected=[x.astype(np.float16)])


@pytest.mark.parametrize("element", STORAGE)
def test_small_floats(element):
    dtype, n = dtype_of(element), 16 if element == "f4E2M1FN" else 256
    codes = np.arange(n, dtype=np.uint8).view(dtype)
    t, f = f"tensor<{n}x{element}>", f"tensor<{n}xf32>"
    check(program(f"%0 = stablehlo.convert %a0 : ({t}) -> {f}\nreturn %0 : {f}", [t], [f]), [codes],
          expected=[codes.astype(np.float32)])  # fmt: skip
    finite = codes.astype(np.float32)
    finite = np.unique(finite[np.isfinite(finite)])
    between = (finite[1:] + finite[:-1]) / 2
    x = np.concatenate([finite, between, np.nextafter(between, np.float32(np.inf)),
                        np.nextafter(between, np.float32(-np.inf)), finite[-1:] * np.float32([1.01, 1.0625, 1.1, 2]),
                        np.float32([-0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38])]).astype(np.float32)  # fmt: skip
    t, f = f"tensor<{len(x)}x{element}>", f"tensor<{len(x)}xf32>"
    text = program(f"%0 = stablehlo.convert %a0 : ({f}) -> {t}\nreturn %0 : {t}", [f], [t])
    np.testing.assert_array_equal(run_npu(text, [x])[0].view(np.uint8), x.astype(dtype).view(np.uint8))


@pytest.mark.parametrize("element", ("i4", "ui4", "i2", "ui2"))
def test_small_integers(element):
    dtype, n = dtype_of(element), 16 if "4" in element else 4
    codes = np.arange(n, dtype=np.uint8).view(dtype)
    for target in ("i8", "ui8", "i32", "f32", "bf16"):
        t, r = f"tensor<{n}x{element}>", f"tensor<{n}x{target}>"
        text = program(f"%0 = stablehlo.convert %a0 : ({t}) -> {r}\nreturn %0 : {r}", [t], [r])
        check(text, [codes], expected=[codes.astype(np.int8).astype(dtype_of(target))])
    x = np.arange(-20, 20, dtype=np.int32)
    t, r = "tensor<40xi32>", f"tensor<40x{element}>"
    text = program(f"%0 = stablehlo.convert %a0 : ({t}) -> {r}\nreturn %0 : {r}", [t], [r])
    check(text, [x], expected=[x.astype(dtype)])


@pytest.mark.parametrize(
    ("source", "target", "shape", "result"),
    [
        ("f32", "i32", (3,), (3,)),
        ("ui32", "f32", (), ()),
        ("bf16", "ui16", (2, 2), (2, 2)),
        ("f32", "ui8", (2,), (2, 4)),
        ("ui8", "f32", (2, 4), (2,)),
        ("f64", "i32", (3, 1), (3, 1, 2)),
        ("ui32", "ui64", (2,), ()),
        ("f8E4M3FN", "i8", (3,), (3,)),
        ("i4", "ui4", (3,), (3,)),
    ],
)
def test_bitcast(source, target, shape, result):
    x = np.arange(1, 1 + int(np.prod(shape))).astype(dtype_of(source)).reshape(shape)
    t = f"tensor<{''.join(f'{d}x' for d in shape)}{source}>"
    r = f"tensor<{''.join(f'{d}x' for d in result)}{target}>"
    expected = np.frombuffer(x.tobytes(), dtype_of(target)).reshape(result)
    check(program(f"%0 = stablehlo.bitcast_convert %a0 : ({t}) -> {r}\nreturn %0 : {r}", [t], [r]), [x],
          expected=[expected])  # fmt: skip


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize(
    ("exponent", "mantissa"), ((8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (3, 0), (11, 52))
)
def test_reduce_precision(element, exponent, mantissa):
    x = np.concatenate([values(element), np.logspace(-30, 30, 61).astype(dtype_of(element)),
                        -np.linspace(0.1, 9, 40).astype(dtype_of(element))])  # fmt: skip
    if mantissa == 0:  # the interpreter makes infinity of NaN then; XLA keeps it
        x = x[x == x]
    t = f"tensor<{len(x)}x{element}>"
    text = program(f"%0 = stablehlo.reduce_precision %a0, format = e{exponent}m{mantissa} : {t}\nreturn %0 : {t}",
                   [t], [t])  # fmt: skip
    expected = run_reference(text, [x])
    # Without mantissa bits the interpreter has no NaN left; XLA keeps it, and so do we.
    expected[0][np.isnan(x.astype(np.float64))] = np.nan
    check(text, [x], expected=expected)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("shape", "dimension"), (((5,), 0), ((2, 3), 0), ((2, 3, 2), 1), ((0, 2), 0), ((2000, 1), 0))
)
def test_iota(element, shape, dimension):
    if element == "i1" or (element in ("i8", "ui8", "f16", "bf16") and max(shape) > 100):
        return
    t = f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"
    expected = np.broadcast_to(
        np.arange(shape[dimension]).reshape([-1] + [1] * (len(shape) - 1 - dimension)), shape
    ).astype(DTYPES[element])
    check(
        program(f"%0 = stablehlo.iota dim = {dimension} : {t}\nreturn %0 : {t}", [], [t]),
        [],
        expected=[expected],
    )


@pytest.mark.parametrize("part", ("f32", "f64"))
def test_complex_parts(part):
    x, y = np.array([1.5, -0.0, np.inf], dtype_of(part)), np.array([0.0, -2.0, np.nan], dtype_of(part))
    t, c = f"tensor<3x{part}>", f"tensor<3xcomplex<{part}>>"
    text = program(
        f"%0 = stablehlo.complex %a0, %a1 : {c}\n%1 = stablehlo.real %0 : ({c}) -> {t}\n"
        f"%2 = stablehlo.imag %0 : ({c}) -> {t}\n%3 = stablehlo.negate %0 : {c}\n"
        f"%4 = stablehlo.abs %3 : ({c}) -> {t}\nreturn %0, %1, %2, %3, %4 : {c}, {t}, {t}, {c}, {t}",
        [t, t],
        [c, t, t, c, t],
    )
    whole = np.empty(3, np.result_type(x, 1j))
    whole.real, whole.imag = x, y
    check(text, [x, y], expected=[whole, x, y, -whole, np.abs(whole)])


COMPLEX = {
    "tanh": np.tanh, "exponential": np.exp, "exponential_minus_one": np.expm1, "log": np.log,
    "log_plus_one": np.log1p, "sine": np.sin, "cosine": np.cos, "tan": np.tan, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)), "sign": np.sign,
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("part", ("f32", "f64"))
def test_complex_functions(name, part):
    x = np.random.default_rng(1).normal(size=(40, 2)) * 3
    x = (x[:, 0] + 1j * x[:, 1]).astype(np.complex64 if part == "f32" else np.complex128)
    t = f"tensor<40xcomplex<{part}>>"
    text = program(f"%0 = stablehlo.{name} %a0 : {t}\nreturn %0 : {t}", [t], [t])
    expected = COMPLEX[name](x.astype(np.complex128)).astype(x.dtype)
    check(text, [x], rtol=1e-5 if part == "f32" else 1e-12, expected=[expected])


@pytest.mark.parametrize("name", ("divide", "power"))
@pytest.mark.parametrize("part", ("f32", "f64"))
def test_complex_operators(name, part):
    x = np.random.default_rng(1).normal(size=(4, 40))
    x, y = ((a + 1j * b).astype(np.complex64 if part == "f32" else np.complex128) for a, b in (x[:2], x[2:]))
    t = f"tensor<40xcomplex<{part}>>"
    text = program(f"%0 = stablehlo.{name} %a0, %a1 : {t}\nreturn %0 : {t}", [t, t], [t])
    wide = {"divide": np.divide, "power": np.power}[name](x.astype(np.complex128), y.astype(np.complex128))
    check(text, [x, y], rtol=1e-5 if part == "f32" else 1e-12, expected=[wide.astype(x.dtype)])


@pytest.mark.parametrize("small", ("i4", "ui4"))
@pytest.mark.parametrize(("wide", "count"), (("i8", 2), ("f16", 4), ("ui32", 8)))
def test_bitcast_of_half_bytes(small, wide, count):
    whole = np.random.default_rng(0).integers(0, 256, (3, count // 2)).astype(np.uint8)
    halves = np.stack([whole & 15, whole >> 4], -1).reshape(3, count).view(dtype_of(small))
    value = whole.view(dtype_of(wide)).reshape(3)
    t, w = f"tensor<3x{count}x{small}>", f"tensor<3x{wide}>"
    text = program(f"%0 = stablehlo.bitcast_convert %a0 : ({t}) -> {w}\nreturn %0 : {w}", [t], [w])
    np.testing.assert_array_equal(run_npu(text, [halves])[0].view(np.uint8), value.view(np.uint8))
    text = program(f"%0 = stablehlo.bitcast_convert %a0 : ({w}) -> {t}\nreturn %0 : {t}", [w], [t])
    np.testing.assert_array_equal(run_npu(text, [value])[0].view(np.uint8), halves.view(np.uint8))


FUNCTIONS = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cosh": np.cosh, "sinh": np.sinh, "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
}  # fmt: skip


@pytest.mark.parametrize("element", FLOATS)
def test_composites(element):
    x = np.array([-3.0, -1.0, -0.5, -0.0, 0.25, 0.75, 1.0, 2.5, np.nan]).astype(dtype_of(element))
    t = f"tensor<9x{element}>"
    lines = [
        f'%{i} = stablehlo.composite "chlo.{name}" %a0 {{decomposition = @d}} : ({t}) -> {t}'
        for i, name in enumerate(FUNCTIONS)
    ]
    types = [t] * len(FUNCTIONS)
    lines.append(f"return {', '.join(f'%{i}' for i in range(len(types)))} : {', '.join(types)}")
    text = program("\n".join(lines), [t], types)
    unused = f"func.func private @d(%x: {t}) -> {t} {{ return %x : {t} }}\n"
    text = text.replace("func.func @main", unused + "func.func @main")
    with np.errstate(all="ignore"):
        expected = [f(x.astype(np.float64)).astype(x.dtype) for f in FUNCTIONS.values()]
    check(text, [x], rtol=TOLERANCE[element], expected=expected)


@pytest.mark.parametrize("algorithm", ("THREE_FRY", "PHILOX", "DEFAULT"))
@pytest.mark.parametrize("element", ("ui8", "ui16", "ui32", "ui64"))
@pytest.mark.parametrize("shape", ((), (5,), (3, 5, 3), (4, 3)))
def test_random_bits_are_those_of_xla(algorithm, element, shape):
    state = np.array([0xFFFFFFFFFFFFFFF1, 0xFFFFFFFFFFFFFFFF], np.uint64)
    t = f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"
    text = program(
        f"%0, %1 = stablehlo.rng_bit_generator %a0, algorithm = {algorithm} : (tensor<2xui64>) -> (tensor<2xui64>, {t})"
        f"\nreturn %0, %1 : tensor<2xui64>, {t}",
        ["tensor<2xui64>"],
        ["tensor<2xui64>", t],
    )
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        wanted = jax.jit(
            lambda key: lax.rng_bit_generator(
                key, shape, dtype_of(element), algorithm=getattr(lax.RandomAlgorithm, f"RNG_{algorithm}")
            )
        )(state)
    check(text, [state], expected=[np.asarray(each) for each in wanted])
