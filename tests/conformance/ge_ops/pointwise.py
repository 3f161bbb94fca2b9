"""Elementwise operators and their gradients."""

from __future__ import annotations

import math

import numpy as np

from tests.conformance.ge_ops.case import (
    ANY,
    FLOATS,
    NUMBERS,
    PAIRS,
    SHAPES,
    Case,
    Op,
    X,
    binary,
    same_shape,
    unary,
)  # fmt: skip

erf = np.vectorize(math.erf, otypes=[np.float64])
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softplus(x):
    return np.logaddexp(0, x)


def truncated_division(a, b):
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


def elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    return np.where(x > 0, scale * x, scale * alpha * np.expm1(np.minimum(x, 0) * input_scale))


def erfinv(y):
    x = np.zeros_like(y)
    for _ in range(60):  # Newton's steps
        x = x - (erf(x) - y) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    return x


def xlogy(x, y):
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


def popcount(x):
    return np.array([bin(int(number)).count("1") for number in x.flat]).reshape(x.shape)


UNARY = [
    unary("Abs", np.abs, NUMBERS),
    unary("Neg", np.negative, NUMBERS),
    unary("Sign", np.sign, "f4 f2 b2 i4 i8"),
    unary("Sqrt", np.sqrt, domain="positive"),
    unary("Rsqrt", lambda x: 1 / np.sqrt(x), domain="positive"),
    unary("Reciprocal", lambda x: 1 / x, domain="nonzero"),
    unary("Square", np.square, NUMBERS),
    unary("Exp", np.exp),
    unary("Expm1", np.expm1),
    unary("Log", np.log, domain="positive"),
    unary("Log1p", np.log1p, domain="positive"),
    unary("Sin", np.sin),
    unary("Cos", np.cos),
    unary("Tan", np.tan, domain="unit"),
    unary("Asin", np.arcsin, domain="unit"),
    unary("Acos", np.arccos, domain="unit"),
    unary("Atan", np.arctan),
    unary("Sinh", np.sinh),
    unary("Cosh", np.cosh),
    unary("Tanh", np.tanh),
    unary("Asinh", np.arcsinh),
    unary("Acosh", np.arccosh, domain="large"),
    unary("Atanh", np.arctanh, domain="unit"),
    unary("Erf", erf),
    unary("Erfc", lambda x: 1 - erf(x)),
    unary("Erfinv", erfinv, domain="unit", loose=4),
    unary("Sigmoid", sigmoid),
    unary("Relu", lambda x: np.maximum(x, 0), NUMBERS),
    unary("Relu6", lambda x: np.clip(x, 0, 6), "f4 f2 b2 i4"),
    unary("Selu", lambda x: elu(x, SELU_ALPHA, SELU_SCALE)),
    unary("Elu", elu),
    unary("Elu", lambda x: elu(x, 0.5, 2.0, 1.5), "f4", alpha=0.5, scale=2.0, input_scale=1.5),
    unary("LeakyRelu", lambda x: np.where(x > 0, x, 0.125 * x), negative_slope=0.125),
    unary("Gelu", gelu_tanh, loose=20),  # CANN's Gelu is the tanh form
    unary("FastGelu", lambda x: x * sigmoid(1.702 * x), loose=4),
    unary("GeluV2", gelu),
    unary("GeluV2", gelu_tanh, "f4", approximate="tanh"),
    unary("Mish", lambda x: x * np.tanh(softplus(x))),
    unary("Softplus", softplus),
    unary("Swish", lambda x: x * sigmoid(x)),
    unary("HardSwish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    unary("HardSigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    unary("Floor", np.floor),
    unary("Ceil", np.ceil),
    unary("Round", np.rint),
    unary("Trunc", np.trunc),
    unary("LogicalNot", np.logical_not, "b1"),
    unary("Invert", np.invert, "i4 i8 u1", domain="bits"),
    Op("PopulationCount", "i4 i8 u1 i1", [Case([X((3, 4), "bits")], popcount)], compiled=True),
    unary("IsInf", np.isinf),
    unary("IsFinite", np.isfinite),
    unary("IsNan", np.isnan),
    unary("ZerosLike", np.zeros_like, NUMBERS),
    unary("OnesLike", np.ones_like, ANY),
    unary("Muls", lambda x: x * 2.5, value=2.5),
    unary("Adds", lambda x: x + 2.5, value=2.5),
    unary("Identity", lambda x: x, ANY),
    unary("Cast", lambda x: x.astype(np.float64), ANY, dst_type="float32"),
    unary("Cast", lambda x: x.astype(np.float64), "f4 i4 b1", dst_type="float16"),
    unary("Cast", lambda x: np.trunc(x).astype(np.int32), ANY, domain="halves", dst_type="int32"),
    unary("Cast", lambda x: np.trunc(x).astype(np.int64), "f4 i4", domain="halves", dst_type="int64"),
    unary("Cast", lambda x: x != 0, "f4 i4 i8", domain="whole", dst_type="bool"),
]

BINARY = [
    binary("Add", np.add),
    binary("AddV2", np.add),
    binary("Sub", np.subtract),
    binary("Mul", np.multiply),
    binary("Div", truncated_division, domains=("any", "nonzero")),
    binary("RealDiv", np.divide, FLOATS, ("any", "nonzero")),
    binary("FloorDiv", np.floor_divide, domains=("halves", "nonzero"), types="f4 i4 i8"),
    binary("FloorMod", np.mod, "f4 i4 i8", ("any", "nonzero"), loose=10),
    binary("Mod", np.fmod, "f4 i4 i8", ("any", "nonzero"), loose=10),
    binary("TruncateMod", np.fmod, "f4 i4 i8", ("any", "nonzero"), loose=10),
    binary("Maximum", np.maximum),
    binary("Minimum", np.minimum),
    binary("Pow", np.power, domains=("positive", "small"), types=FLOATS),
    binary("Pow", np.power, domains=("any", "positive"), types="i4 i8"),
    binary("Atan2", np.arctan2, FLOATS),
    binary("Equal", np.equal, ANY, ("whole", "whole")),
    binary("NotEqual", np.not_equal, NUMBERS, ("whole", "whole")),
    binary("Less", np.less, NUMBERS, ("whole", "whole")),
    binary("LessEqual", np.less_equal, NUMBERS, ("whole", "whole")),
    binary("Greater", np.greater, ANY, ("whole", "whole")),
    binary("GreaterEqual", np.greater_equal, ANY, ("whole", "whole")),
    binary("LogicalAnd", np.logical_and, "b1"),
    binary("LogicalOr", np.logical_or, "b1"),
    binary("BitwiseAnd", np.bitwise_and, "i4 i8 u1"),
    binary("BitwiseOr", np.bitwise_or, "i4 i8 u1"),
    binary("BitwiseXor", np.bitwise_xor, "i4 i8 u1"),
    binary("Xlogy", xlogy, FLOATS, ("any", "positive")),
    binary("SquaredDifference", lambda a, b: (a - b) ** 2),
    binary("Axpy", lambda a, b: a + 2 * b, "f4 f2 b2 i4", alpha=2.0),
]


def several(type, types, reference, inputs, **attributes):
    """Shapes that broadcast, of several operands: a list of lists of X."""
    return Op(type, types, [Case(each, reference, attributes) for each in inputs])


def three(first, second, third):
    return [[X(a, *first), X(b, *second), X(b, *third)] for a, b in PAIRS]


CONDITION = ("any", "b1")
NARY = [
    several(
        "SelectV2",
        ANY,
        np.where,
        [
            [X(c, *CONDITION), X(a), X(b)]
            for c, (a, b) in zip(
                ((), (3,), (3,), (2, 1), (2, 3, 1), (1, 1), (1,), (4, 5), (2, 3), (2,)), PAIRS, strict=True
            )
        ],
    ),
    several("Select", ANY, np.where, [[X(s, *CONDITION), X(s), X(s)] for s in SHAPES]),
    several(
        "ClipByValue",
        NUMBERS,
        lambda x, a, b: np.minimum(np.maximum(x, a), b),
        [[X(s), X(()), X((), "positive")] for s in SHAPES],
    ),
    several(
        "ClipByValueV2",
        NUMBERS,
        lambda x, a, b: np.minimum(np.maximum(x, a), b),
        [[X(s), X(()), X((), "positive")] for s in SHAPES],
    ),
    several("AddN", NUMBERS, lambda xs: sum(xs[1:], xs[0]), [[[X(s)] * 3] for s in SHAPES], N=3),
    several(
        "Addcmul",
        "f4 f2 b2 i4",
        lambda x, a, b: x + 2 * a * b,
        [[X(a), X(b), X(a), lambda t: np.array(2, t)] for a, b in PAIRS if len(a) >= len(b)][1:],
    ),
    several(
        "Addcdiv",
        FLOATS,
        lambda x, a, b: x + 2 * a / b,
        [[X(a), X(b), X(a, "nonzero"), lambda t: np.array(2, t)] for a, b in PAIRS if len(a) >= len(b)][1:],
    ),
    several("Lerp", FLOATS, lambda a, b, w: a + w * (b - a), [[X(s), X(s), X(s, "weights")] for s in SHAPES]),
    several(
        "MaskedFill",
        "f4 f2 b2 i4 i8 b1",
        lambda x, m, v: np.where(m, v, x),
        [[X(s), X(s, *CONDITION), X(())] for s in SHAPES[1:]]
        + [[X((2, 3, 4)), X((3, 1), *CONDITION), X(())]],
    ),
    several(
        "BiasAdd",
        "f4 f2 b2 i4",
        lambda x, b: x + b,
        [[X((2, 3)), X((3,))], [X((2, 4, 5, 3)), X((3,))], [X((0, 3)), X((3,))]],
    ),
    Op(
        "BiasAdd",
        "f4",
        [Case([X((2, 3, 4, 5)), X((3,))], lambda x, b: x + b[:, None, None], {"data_format": "NCHW"})],
        compiled=True,
    ),
    several(
        "SigmoidCrossEntropyWithLogits",
        FLOATS,
        lambda x, t: np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x))),
        [[X(s), X(s, "weights")] for s in SHAPES],
    ),
]

GRADIENTS = [
    same_shape("ReluGrad", lambda g, x: g * (x > 0)),
    same_shape("SigmoidGrad", lambda y, g: g * y * (1 - y)),
    same_shape("TanhGrad", lambda y, g: g * (1 - y * y)),
    same_shape("SwishGrad", lambda g, x, y: g * (sigmoid(x) * (1 + x * (1 - sigmoid(x)))), count=3),
    same_shape("LeakyReluGrad", lambda g, x: np.where(x > 0, g, 0.125 * g), negative_slope=0.125),
    same_shape("SoftplusGrad", lambda g, x: g * sigmoid(x)),
    same_shape("ThresholdGradV2D", lambda g, x: np.where(x > 0.5, g, 0), "f2 b2", threshold=0.5),
    same_shape("EluGrad", lambda g, y: np.where(y > 0, g, g * (y + 1))),
]

# Not asked about NaN and infinities: Cast (to integers anything goes), Erfinv (the reference iterates), Sign (torch's of
# NaN is 0), GeluV2 (CPU torch 2.13 answers NaN for infinity where it computes vectors, infinity where it does not).
FINITE = ("Cast", "Erfinv", "Sign", "GeluV2")


def special(op: Op) -> Op:
    """The operator on NaN, infinities and zeros of both signs."""
    case = op.cases[0]
    shapes = ((9,),) if len(case.inputs) == 1 else ((9, 1), (1, 9))
    inputs = [X(shape, "special") for shape in shapes]
    return Op(op.type, "f4 b2", [Case(inputs, case.reference, case.attributes)], op.loose)


SPECIAL = [
    special(op) for op in (*UNARY, *BINARY) if {"f4", "b2"} <= set(op.types.split()) and op.type not in FINITE
]

OPS: list[Op] = [*SPECIAL, *UNARY, *BINARY, *NARY, *GRADIENTS]
