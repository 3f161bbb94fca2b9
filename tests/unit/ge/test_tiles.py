"""The tile bodies of fused regions, against torch on the CPU: each operator and dtype, odd lengths, odd values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from npu_common import runtime
from npu_common.graph import Builder
from npu_common.graph.executors import CompileOptions, executor

UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Abs": torch.abs,
    "Neg": torch.neg,
    "Sqrt": torch.sqrt,
    "Rsqrt": torch.rsqrt,
    "Reciprocal": torch.reciprocal,
    "Square": torch.square,
    "Relu": torch.relu,
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "RealDiv": torch.div,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
CODES = {"float32": 0, "float16": 1, "bfloat16": 27}  # GE's DataType
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 3e38, -1.0]


def run(g: Builder, inputs: list[np.ndarray], name: str = "afir") -> list[np.ndarray]:
    executable = executor(name).compile(g.graph, CompileOptions(fuse=False))
    outputs = [runtime.empty(value.shape, value.dtype) for value in executable.graph.outputs]
    executable.run(inputs, outputs, runtime.current_stream())
    return [output.numpy() for output in outputs]


def samples(count: int, seed: int) -> torch.Tensor:
    """float32, shape (count,): normal numbers with NaN, infinities and both zeros among them."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(count).astype(np.float32) * 3
    places = generator.choice(count, min(count, 64), replace=False)
    values[places] = generator.choice(np.array(ODD, np.float32), len(places))
    return torch.from_numpy(values)


def same(got: np.ndarray, want: torch.Tensor, ulp: bool = True) -> None:
    wide = want.float().numpy()
    got = got.astype(np.float32)
    resolution = 2 * torch.finfo(want.dtype).eps if ulp else 0
    np.testing.assert_allclose(got, wide, rtol=resolution, atol=0)
    finite = ~np.isnan(wide)
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(wide[finite]))


@pytest.mark.parametrize("count", [3, 2048, 4099])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_operand(name: str, dtype: str, count: int) -> None:
    x = samples(count, 1)
    g = Builder("tiles")
    narrow = g.add("Cast", g.input("x", "float32", (count,)), dst_type=CODES[dtype])
    value = g.add(name, narrow)
    g.output(g.add("Cast", value, dst_type=0))
    (got,) = run(g, [x.numpy()])
    same(got, UNARY[name](x.to(DTYPES[dtype])))


@pytest.mark.parametrize("single", [None, 0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_operands(name: str, dtype: str, single: int | None) -> None:
    count = 4099
    sides = [samples(count, 2), samples(count, 3)]
    if single is not None:
        sides[single] = torch.tensor([0.75])
    g = Builder("tiles")
    values = [g.input(f"x{i}", "float32", tuple(side.shape)) for i, side in enumerate(sides)]
    a, b = (g.add("Cast", value, dst_type=CODES[dtype]) for value in values)
    value = g.add(name, a, b)
    g.output(g.add("Cast", g.add("Neg", value), dst_type=0))
    (got,) = run(g, [side.numpy() for side in sides])
    same(got, -BINARY[name](*(side.to(DTYPES[dtype]) for side in sides)))


@pytest.mark.parametrize("count", [4_500_001, 2048 * 64 * 3])
def test_results_beyond_the_caches_and_values_read_again(count: int) -> None:
    x, y = samples(count, 4), samples(count, 5)
    g = Builder("tiles")
    a, b = g.input("x", "float32", (count,)), g.input("y", "float32", (count,))
    scaled = a * 0.5 + b
    clipped = g.add("Minimum", g.add("Maximum", scaled, b), g.add("Abs", a))
    g.output(scaled)
    g.output(g.add("Relu", clipped - scaled) + clipped)
    got = run(g, [x.numpy(), y.numpy()])
    want_scaled = x * 0.5 + y
    want = torch.minimum(torch.maximum(want_scaled, y), x.abs())
    same(got[0], want_scaled, ulp=False)
    same(got[1], torch.relu(want - want_scaled) + want, ulp=False)


def test_a_region_computes_the_very_bits_of_its_operators() -> None:
    count = 70_001
    g = Builder("tiles")
    y = 1.5 - g.input("x", "float32", (count,)) * 0.5
    values = [y, *(g.add(name, y) for name in UNARY)]
    y = g.add("Sqrt", g.add("Abs", y)) + 0.25
    y = g.add("Neg", g.add("Maximum", 2.0 / y, g.constant(np.float32(0.5))) - 1.0)
    for value in [*values, y]:
        g.output(value)
    x = samples(count, 6).numpy()
    for fused, alone in zip(run(g, [x]), run(g, [x], "ge"), strict=True):
        np.testing.assert_array_equal(fused, alone)


def test_square_roots_are_rounded_as_ieee_754_has_it() -> None:
    x = abs(samples(70_001, 7)).numpy()
    g = Builder("tiles")
    g.output(g.add("Sqrt", g.add("Neg", g.add("Neg", g.input("x", "float32", x.shape)))))
    for name in ("ge", "afir"):
        (got,) = run(g, [x], name)
        np.testing.assert_array_equal(got, np.sqrt(x.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("seed", range(16))
def test_a_chain_of_operators_with_single_elements(seed: int) -> None:
    """What stays in registers from one operator to the next: exact in torch too, so the bits are the same."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 9000))
    exact = ["Abs", "Neg", "Relu", "Square"]
    x = samples(count, seed)
    g = Builder("chain")
    value, want = g.input("x", "float32", (count,)), x
    for _ in range(int(random.integers(2, 14))):
        if random.random() < 0.4:
            name = str(random.choice(exact))
            value, want = g.add(name, value), UNARY[name](want)
            continue
        name = str(random.choice(list(BINARY)))
        number = np.float32(random.choice([0.5, -1.25, 3.0, 1e-3, np.inf, np.nan]))
        other, held = g.constant(number), torch.tensor([number])
        if random.random() < 0.5:
            value, want = g.add(name, value, other), BINARY[name](want, held)
        else:
            value, want = g.add(name, other, value), BINARY[name](held, want)
    g.output(value)
    (got,) = run(g, [x.numpy()])
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("single", [None, 0, 1])
@pytest.mark.parametrize(
    "name", ["Add", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"]
)
def test_integers_of_32_bits(name: str, single: int | None) -> None:
    count = 4099
    generator = np.random.default_rng(6)
    sides = [generator.integers(-(2**31), 2**31, count, dtype=np.int32) for _ in range(2)]
    if "Shift" in name:
        sides[1] &= 31
    if single is not None:
        sides[single] = sides[single][:1]
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "BitwiseAnd": np.bitwise_and,
                 "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "LeftShift": np.left_shift,
                 "RightShift": np.right_shift}  # fmt: skip
    g = Builder("tiles")
    a, b = (g.input(f"x{i}", "int32", side.shape) for i, side in enumerate(sides))
    g.output(g.add("Invert", g.add(name, a, b)))
    (got,) = run(g, sides)
    np.testing.assert_array_equal(got, ~functions[name](*sides))


def test_an_element_repeated_by_broadcast_to_has_a_window_in_each_tile() -> None:
    x, one = np.arange(300_000, dtype=np.int32), np.array([7], np.int32)
    g = Builder("tiles")
    a, b = g.input("x", "int32", x.shape), g.input("one", "int32", (1,))
    wide = g.add("BroadcastTo", b, list(x.shape))
    g.output(g.add("BitwiseXor", g.add("Add", a, wide), wide))
    (got,) = run(g, [x, one])
    np.testing.assert_array_equal(got, (x + 7) ^ 7)
