"""Functions of CHLO that CANN has operators for: they reach a plugin as composites. Of complex numbers, and for the
rest of CHLO, the decompositions serve."""

from __future__ import annotations

from typing import Any

from npu_common.graph import Value
from xla_npu.lowering.calls import composite
from xla_npu.lowering.context import Context
from xla_npu.lowering.elementwise import joined, parts
from xla_npu.lowering.registry import lowers

_FUNCTIONS = {
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "erf": "Erf",
    "erfc": "Erfc",
    "sinh": "Sinh",
    "tan": "Tan",
}


def _register(name: str, type: str) -> None:
    @lowers(f"composite:chlo.{name}")
    def function(ctx: Context, op: Any, x: Value) -> Any:
        return composite(ctx, op, x) if x.dtype.kind == "c" else ctx.add(type, x)


for _name, _type in _FUNCTIONS.items():
    _register(_name, _type)


@lowers("composite:chlo.square")
def square(ctx: Context, op: Any, x: Value) -> Value:
    return ctx.add("Mul", x, x)


@lowers("composite:chlo.cosh")
def cosh(ctx: Context, op: Any, x: Value) -> Value:
    found = ctx.add("Cosh", x)
    if x.dtype.kind != "c":
        return found
    # The decomposition is NaN where exp is infinite. The real part is NaN at bi, b infinite, whatever the other.
    (real, imaginary), (_, b) = parts(ctx, found), parts(ctx, x)
    return joined(ctx, ctx.add("Add", real, ctx.add("Sub", b, b)), imaginary)
