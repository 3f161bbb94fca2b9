"""triangular_solve, the one of linear algebra that CANN has an operator for with JAX's meaning; the rest is hosted."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.registry import lowers

_HALF = ("float16", "bfloat16")


@lowers("stablehlo.triangular_solve")
def triangular_solve(ctx: Context, op: Any, a: Value, b: Value) -> Value:
    """op(a) x = b, or x op(a) = b: then op(a)^T x^T = b^T, since the operator solves from the left only."""
    assert a.shape is not None and b.shape is not None
    left, lower, unit = (bool(op.attributes[name].value) for name in ("left_side", "lower", "unit_diagonal"))
    operation = str(op.attributes["transpose_a"]).rpartition(" ")[2].strip("<>")
    if 0 in b.shape:
        return b
    given = b.dtype
    if given.name in _HALF:
        a, b = (ctx.add("Cast", value, dst_type=np.float32) for value in (a, b))
    transposed, conjugated = operation != "NO_TRANSPOSE", operation == "ADJOINT"
    transposed = transposed == left  # the transposition of x op(a)
    if a.dtype.kind == "c" and transposed != conjugated:
        a = ctx.add("Conj", a)  # the operator transposes with conjugation
    if unit:
        a = _unit_diagonal(ctx, a)
    x = ctx.add("MatrixTriangularSolve", a, b if left else _turned(ctx, b), lower=lower, adjoint=transposed)
    x = x if left else _turned(ctx, x)
    return x if x.dtype == given else ctx.add("Cast", x, dst_type=given)


def _turned(ctx: Context, value: Value) -> Value:
    assert value.shape is not None
    rank = len(value.shape)
    return ctx.add("Transpose", value, [*range(rank - 2), rank - 1, rank - 2])


def _unit_diagonal(ctx: Context, a: Value) -> Value:
    assert a.shape is not None and a.shape[-1] is not None
    mask = ctx.constant(np.eye(a.shape[-1], dtype=np.bool_))
    return ctx.add("SelectV2", mask, ctx.constant(np.ones((), a.dtype)), a)
