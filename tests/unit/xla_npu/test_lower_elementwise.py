"""Elementwise arithmetic, functions and integers against the reference interpreter, XLA on the CPU and NumPy."""

import ml_dtypes
import numpy as np
import pytest

from tests.unit.xla_npu.oracle import check, program

RNG = np.random.default_rng(0)
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64,
    "i1": np.bool_, "complex<f32>": np.complex64, "complex<f64>": np.complex128,
}  # fmt: skip
FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("ui8", "ui16", "ui32", "ui64")
INTS = SIGNED + UNSIGNED
TOLERANCE = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 3e-6, "f64": 1e-13}


def values(element: str) -> np.ndarray:
    """Numbers at and around the corners of the type."""
    dtype = np.dtype(DTYPES[element])
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        found = [limits.min, limits.min + 1, limits.max // 2 + 1, limits.max - 1, limits.max, 0, 1, 2, 3, 7]
        return np.array(found + ([-1, -2, -7] if dtype.kind == "i" else []), dtype)
    if dtype.kind == "c":
        line = np.array([0.0, -0.0, 1.5, -2.25, 1e-3, 100.0])
        return (line[:, None] + 1j * line[None]).reshape(-1).astype(dtype)
    line = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49, 3.75, -7.3, 100.0, np.inf, -np.inf, np.nan]
    return np.array(line).astype(dtype)


def pairs(element: str) -> list[np.ndarray]:
    x = values(element)
    a, b = np.repeat(x, len(x)), np.tile(x, len(x))
    return [a, b]


def one(
    name: str, element: str, count: int, size: int, result: str | None = None, attributes: str = ""
) -> str:
    t, r = f"tensor<{size}x{element}>", f"tensor<{size}x{result or element}>"
    names = ", ".join(f"%a{i}" for i in range(count))
    operation = f'%0 = "stablehlo.{name}"({names}) {attributes} : ({", ".join([t] * count)}) -> {r}'
    return program(f"{operation}\nreturn %0 : {r}", [t] * count, [r])


@pytest.mark.parametrize("element", (*FLOATS, *INTS, "i1", "complex<f32>", "complex<f64>"))
@pytest.mark.parametrize("name", ("add", "multiply", "subtract"))
def test_arithmetic(name, element):
    if (name, element) == ("subtract", "i1"):
        return
    inputs = pairs(element)
    check(one(name, element, 2, len(inputs[0])), inputs)


@pytest.mark.parametrize("element", (*INTS, "i1"))
@pytest.mark.parametrize("name", ("and", "or", "xor"))
def test_logic(name, element):
    inputs = pairs(element)
    check(one(name, element, 2, len(inputs[0])), inputs)


@pytest.mark.parametrize("element", (*FLOATS, *INTS, "i1"))
@pytest.mark.parametrize("name", ("maximum", "minimum"))
def test_extremes(name, element):
    inputs = pairs(element)
    check(one(name, element, 2, len(inputs[0])), inputs)


def _truncated(x, y, width, is_signed):
    """XLA's division and remainder of integers."""
    low = -(1 << width - 1) if is_signed else 0

    def wrap(n):
        n &= (1 << width) - 1
        return n - (1 << width) if is_signed and n >> (width - 1) else n

    def divided(a, b):
        if b == 0:
            return wrap(-1), a
        if a == low and b == -1 and is_signed:
            return low, 0
        q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return q, a - q * b

    return zip(*(divided(int(a), int(b)) for a, b in zip(x, y, strict=True)), strict=True)


@pytest.mark.parametrize("element", INTS)
def test_integer_division(element):
    x, y = pairs(element)
    more = RNG.integers(np.iinfo(x.dtype).min, np.iinfo(x.dtype).max, (2, 200), x.dtype, endpoint=True)
    x, y = np.concatenate([x, more[0]]), np.concatenate([y, more[1]])
    wanted = [np.array(v, x.dtype) for v in _truncated(x, y, 8 * x.dtype.itemsize, x.dtype.kind == "i")]
    for name, expected in zip(("divide", "remainder"), wanted, strict=True):
        check(one(name, element, 2, len(x)), [x, y], expected=[expected])


@pytest.mark.parametrize("element", INTS)
@pytest.mark.parametrize("divisor", (1, 3, 100))
def test_division_by_a_constant(element, divisor):
    x, n = values(element), len(values(element))
    t = f"tensor<{n}x{element}>"
    text = program(
        f"%c = stablehlo.constant dense<{divisor}> : {t}\n%0 = stablehlo.divide %a0, %c : {t}\n"
        f"%1 = stablehlo.remainder %a0, %c : {t}\nreturn %0, %1 : {t}, {t}",
        [t],
        [t, t],
    )
    check(text, [x])


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("name", ("divide", "remainder"))
def test_float_division(name, element):
    inputs = pairs(element)
    check(one(name, element, 2, len(inputs[0])), inputs)


@pytest.mark.parametrize("element", INTS)
@pytest.mark.parametrize("name", ("shift_left", "shift_right_arithmetic", "shift_right_logical"))
def test_shifts(name, element):
    width = 8 * np.dtype(DTYPES[element]).itemsize
    x = values(element)
    amounts = np.array(
        [0, 1, 3, width - 1, width, width + 1, np.iinfo(x.dtype).max, np.iinfo(x.dtype).min], x.dtype
    )
    inputs = [np.repeat(x, len(amounts)), np.tile(amounts, len(x))]
    check(one(name, element, 2, len(inputs[0])), inputs)
    for amount in (0, 3, width - 1, width):
        t = f"tensor<{len(x)}x{element}>"
        text = program(
            f"%c = stablehlo.constant dense<{amount}> : {t}\n%0 = stablehlo.{name} %a0, %c : {t}\nreturn %0 : {t}",
            [t],
            [t],
        )
        check(text, [x])


@pytest.mark.parametrize("element", INTS)
@pytest.mark.parametrize("name", ("popcnt", "count_leading_zeros", "not"))
def test_bits(name, element):
    check(one(name, element, 1, len(values(element))), [values(element)])


@pytest.mark.parametrize("element", INTS)
def test_integer_power(element):
    x = values(element)
    exponents = np.array(
        [0, 1, 2, 5, 62, np.iinfo(x.dtype).max] + ([-1, -2] if x.dtype.kind == "i" else []), x.dtype
    )
    a, b = np.repeat(x, len(exponents)), np.tile(exponents, len(x))

    def power(base, exponent):
        if exponent < 0:
            return {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
        return pow(base, exponent, 1 << 64)

    wide = np.array([power(int(p), int(q)) & (1 << 64) - 1 for p, q in zip(a, b, strict=True)], np.uint64)
    check(one("power", element, 2, len(a)), [a, b], expected=[wide.astype(x.dtype)])


@pytest.mark.parametrize("element", (*SIGNED, *FLOATS))
@pytest.mark.parametrize("name", ("abs", "sign", "negate"))
def test_signs(name, element):
    check(one(name, element, 1, len(values(element))), [values(element)])


@pytest.mark.parametrize("element", UNSIGNED)
def test_negate_unsigned(element):
    check(one("negate", element, 1, len(values(element))), [values(element)])


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("name", ("floor", "ceil", "round_nearest_afz", "round_nearest_even"))
def test_rounding(name, element):
    dtype = np.dtype(DTYPES[element])
    below = np.nextafter(np.float32(0.5), np.float32(0)).astype(dtype)
    x = np.concatenate([values(element), np.array([below, -0.3, 2.0**23 + 1, -3.5]).astype(dtype)])
    check(one(name, element, 1, len(x)), [x])


MATHS = {
    "tanh": np.tanh, "exponential": np.exp, "exponential_minus_one": np.expm1, "log": np.log,
    "log_plus_one": np.log1p, "sine": np.sin, "cosine": np.cos, "tan": np.tan, "sqrt": np.sqrt,
    "cbrt": np.cbrt, "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("name", MATHS)
def test_functions(name, element):
    dtype = np.dtype(DTYPES[element])
    x = np.concatenate(
        [values(element), RNG.normal(size=50).astype(dtype), np.array([1e-7, 6.5e4]).astype(dtype)]
    )
    if name in ("sine", "cosine", "tan"):
        x = x[np.abs(x.astype(np.float64)) < 50]
    with np.errstate(all="ignore"):
        expected = MATHS[name](x.astype(np.float64)).astype(dtype)
    check(
        one(name, element, 1, len(x)),
        [x],
        rtol=TOLERANCE[element],
        atol=TOLERANCE[element] / 10,
        expected=[expected],
    )


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("name", ("power", "atan2"))
def test_two_operands(name, element):
    x, y = pairs(element)
    with np.errstate(all="ignore"):
        function = {"power": np.power, "atan2": np.arctan2}[name]
        expected = function(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    check(one(name, element, 2, len(x)), [x, y], rtol=TOLERANCE[element], expected=[expected])


@pytest.mark.parametrize("shape", ((), (0, 3), (1, 2)))
@pytest.mark.parametrize("element", ("f32", "ui32", "i1"))
def test_shapes(shape, element):
    t = f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"
    text = program(
        f"%0 = stablehlo.add %a0, %a0 : {t}\n%1 = stablehlo.maximum %0, %a0 : {t}\nreturn %1 : {t}", [t], [t]
    )
    check(text, [np.ones(shape, DTYPES[element])])


@pytest.mark.parametrize("element", ("i4", "ui4", "f8E4M3FN", "f8E5M2"))
def test_storage_types_compute(element):
    t = f"tensor<4x{element}>"
    text = program(f"%0 = stablehlo.add %a0, %a1 : {t}\nreturn %0 : {t}", [t, t], [t])
    from xla_npu.types import element_named

    dtype = element_named(element).numpy
    x, y = np.array([1, 2, 3, 7]).astype(dtype), np.array([1, 5, 0, 2]).astype(dtype)
    check(
        text, [x, y], expected=[(x.astype(np.float32) + y.astype(np.float32)).astype(np.int32).astype(dtype)]
    )
