"""Elementwise arithmetic and functions that CANN has operators for. What integers need besides is in integers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.convert import to_dtype
from xla_npu.lowering.helpers import bitcast, cast, is_float, scalar, signed
from xla_npu.lowering.registry import Rule, lowers
from xla_npu.lowering.storage import decode, encode, number_dtype

_FUNCTIONS = {
    "tanh": "Tanh",
    "exponential": "Exp",
    "log": "Log",
    "log_plus_one": "Log1p",
    "logistic": "Sigmoid",
    "sine": "Sin",
    "cosine": "Cos",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "floor": "Floor",
    "ceil": "Ceil",
    "round_nearest_even": "Rint",
    "atan2": "Atan2",
}


def elementwise(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule of an operation whose operands and result are of one shape; operands of storage types reach
    it decoded, and its result is encoded again."""

    def register(rule: Rule) -> Rule:
        def on_numbers(ctx: Context, op: Any, *operands: Value) -> Any:
            types = [ctx.operand_type(op, i).element for i in range(len(operands))]
            result = ctx.result_type(op).element
            numbers = [decode(ctx, v, t) if t.is_storage else v for v, t in zip(operands, types, strict=True)]
            value = rule(ctx, op, *numbers)
            assert isinstance(value, Value)
            return (
                encode(ctx, to_dtype(ctx, value, number_dtype(result)), result)
                if result.is_storage
                else value
            )

        lowers(*(f"stablehlo.{name}" for name in names))(on_numbers)
        return rule

    return register


def in_signed(ctx: Context, type: str, *values: Value) -> Value:
    """The operator on integers whose bits do not depend on the sign (wrapping ones): CANN has few unsigned types."""
    dtype = values[0].dtype
    if dtype.name not in ("uint16", "uint32", "uint64"):
        return ctx.add(type, *values)
    return bitcast(ctx, ctx.add(type, *(bitcast(ctx, v, signed(dtype)) for v in values)), dtype)


def _function(name: str, type: str) -> None:
    @elementwise(name)
    def rule(ctx: Context, op: Any, *operands: Value) -> Value:
        return ctx.add(type, *operands)


for _name, _type in _FUNCTIONS.items():
    _function(_name, _type)


def _arithmetic(name: str, type: str, of_bools: str | None) -> None:
    @elementwise(name)
    def rule(ctx: Context, op: Any, x: Value, y: Value) -> Value:
        if x.dtype.kind == "b" and of_bools is not None:
            return ctx.add(of_bools, x, y)
        return in_signed(ctx, type, x, y)


_arithmetic("add", "Add", "LogicalOr")
_arithmetic("subtract", "Sub", None)
_arithmetic("multiply", "Mul", "LogicalAnd")
_arithmetic("and", "BitwiseAnd", "LogicalAnd")
_arithmetic("or", "BitwiseOr", "LogicalOr")


@elementwise("xor")
def xor(ctx: Context, op: Any, x: Value, y: Value) -> Value:
    if x.dtype.kind == "b":
        return ctx.add("NotEqual", bitcast(ctx, x, np.int8), bitcast(ctx, y, np.int8))
    return in_signed(ctx, "BitwiseXor", x, y)


@elementwise("not")
def not_(ctx: Context, op: Any, x: Value) -> Value:
    return ctx.add("LogicalNot", x) if x.dtype.kind == "b" else in_signed(ctx, "Invert", x)


@elementwise("negate")
def negate(ctx: Context, op: Any, x: Value) -> Value:
    return negated(ctx, x)


def negated(ctx: Context, x: Value) -> Value:
    """-x; integers wrap."""
    if x.dtype.kind in "iu" and x.dtype.name in ("int16", "uint16", "uint8"):  # Neg has not those
        return in_signed(ctx, "Sub", scalar(ctx, 0, x.dtype), x)
    return in_signed(ctx, "Neg", x)


@elementwise("abs")
def absolute(ctx: Context, op: Any, x: Value) -> Value:
    if x.dtype.kind == "c":
        return ctx.add("ComplexAbs", x, Tout=np.float32 if x.dtype.itemsize == 8 else np.float64)
    return x if x.dtype.kind in "ub" else ctx.add("Abs", x)


@elementwise("sign")
def sign(ctx: Context, op: Any, x: Value) -> Value:
    if x.dtype.kind == "c":
        return _complex_sign(ctx, x)
    if x.dtype.kind == "u":
        return cast(ctx, ctx.add("NotEqual", bitcast(ctx, x, signed(x.dtype)), 0), x.dtype)
    found = ctx.add("Sign", x)
    if not is_float(x.dtype):
        return found
    # Of NaN it is NaN, of -0 it is -0.
    return ctx.add("SelectV2", ctx.add("Equal", found, 0.0), x, found)


def _complex_sign(ctx: Context, x: Value) -> Value:
    real, imaginary = parts(ctx, x)
    size = ctx.add("ComplexAbs", x, Tout=real.dtype)
    unit = joined(ctx, ctx.add("RealDiv", real, size), ctx.add("RealDiv", imaginary, size))
    return ctx.add("SelectV2", ctx.add("Equal", size, 0.0), x, unit)


def parts(ctx: Context, value: Value) -> tuple[Value, Value]:
    """Real and imaginary part of a complex number."""
    part = np.float32 if value.dtype.itemsize == 8 else np.float64
    return ctx.add("Real", value, Tout=part), ctx.add("Imag", value, Tout=part)


def joined(ctx: Context, real: Value, imaginary: Value) -> Value:
    """The complex number of two parts."""
    return ctx.add(
        "Complex", real, imaginary, Tout=np.complex64 if real.dtype.itemsize == 4 else np.complex128
    )


@elementwise("exponential_minus_one")
def exponential_minus_one(ctx: Context, op: Any, x: Value) -> Value:
    found = ctx.add("Expm1", x)
    if x.dtype.kind != "c":
        return found
    # Of a real number it is real, where exp(x) is infinite as well.
    real, imaginary = parts(ctx, found)
    angle = parts(ctx, x)[1]
    return joined(ctx, real, ctx.add("SelectV2", ctx.add("Equal", angle, 0.0), angle, imaginary))


@elementwise("tan")
def tangent(ctx: Context, op: Any, x: Value) -> Value:
    found = ctx.add("Tan", x)
    if x.dtype.kind != "c":
        return found
    # Of infinity + bi, b finite, both parts are NaN.
    (real, imaginary), (a, b) = parts(ctx, found), parts(ctx, x)
    nan = ctx.add("Add", imaginary, ctx.add("Sub", a, a))
    return joined(ctx, real, ctx.add("SelectV2", ctx.add("IsFinite", b), nan, imaginary))


@elementwise("round_nearest_afz")
def round_half_away(ctx: Context, op: Any, x: Value) -> Value:
    size = ctx.add("Abs", x)
    below = ctx.add("Floor", size)
    half = scalar(ctx, 0.5, x.dtype)
    up = ctx.add("GreaterEqual", ctx.add("Sub", size, below), half)  # an exact difference; NaN of infinity
    return copysign(ctx, ctx.add("SelectV2", up, ctx.add("Add", below, 1.0), below), x)


def copysign(ctx: Context, size: Value, sign: Value) -> Value:
    """`size` (not negative) with the sign bit of `sign`."""
    bits = signed(size.dtype)
    top = ctx.add("BitwiseAnd", bitcast(ctx, sign, bits), scalar(ctx, 1 << 8 * bits.itemsize - 1, bits))
    return bitcast(ctx, ctx.add("BitwiseOr", bitcast(ctx, size, bits), top), size.dtype)


@elementwise("cbrt")
def cube_root(ctx: Context, op: Any, x: Value) -> Value:
    return cast(ctx, _cube_root(ctx, cast(ctx, x, np.float32) if x.dtype.itemsize == 2 else x), x.dtype)


def _cube_root(ctx: Context, x: Value) -> Value:
    guess = ctx.add("Pow", ctx.add("Abs", x), scalar(ctx, 1.0 / 3.0, x.dtype))
    guess = copysign(ctx, guess, x)
    # One step of Newton's takes the power's last places away: y - (y - x / y^2) / 3.
    other = ctx.add("RealDiv", x, ctx.add("Mul", guess, guess))
    step = ctx.add("RealDiv", ctx.add("Sub", guess, other), scalar(ctx, 3.0, x.dtype))
    # At 0 and infinity (and NaN) the step is NaN, the guess right.
    return ctx.add("SelectV2", ctx.add("IsFinite", step), ctx.add("Sub", guess, step), guess)


@lowers("stablehlo.is_finite")
def is_finite(ctx: Context, op: Any, x: Value) -> Value:
    element = ctx.operand_type(op).element
    return ctx.add("IsFinite", decode(ctx, x, element) if element.is_storage else x)
