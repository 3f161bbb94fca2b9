"""GeluV2, Swish, SwiGlu and SoftmaxV2 from their expansions.

GELU becomes GeluV2, whose attribute says which of the two formulas it is; plain Gelu and FastGelu are other
approximations and never a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from npu_common.graph.ir import Node, Value
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import (
    Match,
    Pattern,
    Rewrite,
    any_of,
    integers,
    ints,
    number,
    op,
    rewrite,
    var,
)

_FLOATS = ("float32", "float16", "bfloat16")
_x = var("x", lambda value: value.dtype.name in _FLOATS)


def _product(*factors: Pattern) -> Pattern:
    """A product of three, in any association."""
    a, b, c = factors
    return any_of(op("Mul", op("Mul", a, b), c), op("Mul", op("Mul", a, c), b), op("Mul", op("Mul", b, c), a))


_half, _one = number("half", 0.5, 0.0), number("one", 1.0, 0.0)

# 0.5 x (1 + erf(x / sqrt 2)); erfc(-x / sqrt 2) is how JAX writes 1 + erf.
_scaled = any_of(
    op("Mul", _x, number("c", math.sqrt(0.5), 4e-3)), op("RealDiv", _x, number("d", math.sqrt(2.0), 4e-3))
)
_minus_scaled = any_of(
    op("Neg", _scaled),
    op("Mul", op("Neg", _x), number("c", math.sqrt(0.5), 4e-3)),
    op("Mul", _x, number("c", -math.sqrt(0.5), 4e-3)),
)
_normal = any_of(op("Add", op("Erf", _scaled), _one), op("Erfc", _minus_scaled))
_gelu_erf = _product(_x, _half, _normal)

# 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
_cube = any_of(
    op("Pow", _x, number("three", 3.0, 0.0)),
    op("Mul", op("Mul", _x, _x), _x),
    op("Mul", op("Square", _x), _x),
)
_inner = op("Add", _x, op("Mul", _cube, number("k", 0.044715, 4e-3)))
_tanh = op("Tanh", op("Mul", _inner, number("r", math.sqrt(2.0 / math.pi), 4e-3)))
_gelu_tanh = _product(_x, _half, op("Add", _tanh, _one))

_sigmoid = any_of(
    op("Sigmoid", _x),
    op("RealDiv", _one, op("Add", op("Exp", op("Neg", _x)), _one)),
    op("Reciprocal", op("Add", op("Exp", op("Neg", _x)), _one)),
)
_swish = any_of(
    op("Mul", _x, _sigmoid),
    op("RealDiv", _x, op("Add", op("Exp", op("Neg", _x)), _one)),
)


def _build_gelu(approximate: str) -> Callable[[Match], Value | None]:
    def build(found: Match) -> Value | None:
        return found.builder().add("GeluV2", found["x"], approximate=approximate)

    return build


def _build_swish(found: Match) -> Value | None:
    return found.builder().add("Swish", found["x"], scale=1.0)


# silu(a) * b with a and b the two halves of one tensor.
_swiglu = op("Mul", op("Swish", var("a"), scale=1.0), var("b"))


def _build_swiglu(found: Match) -> Value | None:
    halves = _halves(found["a"], found["b"])
    if halves is None:
        return None
    source, dim = halves
    types = [(found.root.dtype, found.root.shape)]
    return found.builder().add("SwiGlu", source, outputs=types, dim=dim)


def _halves(a: Value, b: Value) -> tuple[Value, int] | None:
    """The tensor that a and b are the first and second half of, and along which dimension."""
    if a.shape is None or a.shape != b.shape or not (a.is_static and b.is_static):
        return None
    if a.node is b.node:
        return _split_halves(a, b)
    if a.node.type == b.node.type == "Slice":
        return _slice_halves(a, b)
    return None


def _split_halves(a: Value, b: Value) -> tuple[Value, int] | None:
    node = a.node
    if (a.index, b.index) != (0, 1) or len(node.outputs) != 2:
        return None
    if node.type == "SplitD":
        return _source(node, "x"), int(node.attributes["split_dim"])
    axis = integers(node.input("split_dim")) if node.type in ("Split", "SplitV") else None
    return (_source(node, "x"), axis[0]) if axis is not None else None


def _slice_halves(a: Value, b: Value) -> tuple[Value, int] | None:
    source = a.node.inputs[0]
    first, second = integers(a.node.inputs[1]), integers(b.node.inputs[1])
    if source is None or source is not b.node.inputs[0] or source.shape is None or not first or not second:
        return None
    sizes = a.shape or ()
    moved = [i for i, (p, q) in enumerate(zip(first, second, strict=True)) if p != q]
    if any(first) or len(moved) != 1 or second[moved[0]] != sizes[moved[0]]:
        return None
    dim = moved[0]
    whole = tuple(s if i != dim else 2 * (s or 0) for i, s in enumerate(sizes))
    return (source, dim) if whole == source.shape else None


def _source(node: Node, name: str) -> Value:
    value = node.input(name)
    assert value is not None, f"{node} has no input {name}"
    return value


# exp(x - max) / sum(exp(x - max)): what SoftmaxV2 computes.
_axes = ints("axes")
_exp = op("Exp", op("Sub", _x, op("ReduceMax", _x, _axes, keep_dims=True)))
_total = op("ReduceSum", _exp, _axes, keep_dims=True)
_softmax = any_of(op("RealDiv", _exp, _total), op("Mul", _exp, op("Reciprocal", _total)))


def _build_softmax(found: Match) -> Value | None:
    # An empty list of axes is no reduction at all for ReduceMax (noop_with_empty_axes).
    return (
        found.builder().add("SoftmaxV2", found["x"], axes=found.ints("axes")) if found.ints("axes") else None
    )


FUSE_ACTIVATION = Pass(
    "fuse activation",
    rewrite(
        (
            Rewrite("GELU (erf)", _gelu_erf, _build_gelu("none")),
            Rewrite("GELU (tanh)", _gelu_tanh, _build_gelu("tanh")),
            Rewrite("Swish", _swish, _build_swish),
            Rewrite("SwiGLU", _swiglu, _build_swiglu),
            Rewrite("Softmax", _softmax, _build_softmax),
        )
    ),
)
