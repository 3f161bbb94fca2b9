"""Expansions as importers write them become CANN's fused operators; near misses stay as they are.

Tolerance: the expansion and the fused operator are both evaluated in float64 by their definitions, so they agree to
1e-12 but for constants that the graph holds in float32 (0.044715, sqrt(2)), which gives 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from npu_common.graph import Builder, Value
from npu_common.graph.passes import standard
from tests.unit.graph import reference

RTOL = 1e-6
Make = Callable[[Builder], Value]
X = (2, 3, 64)


def mean(b: Builder, x: Value, axis: int = -1) -> Value:
    return b.add("ReduceMean", x, [axis], keep_dims=True)


def kept_sum(b: Builder, x: Value, kind: str = "ReduceSum") -> Value:
    """As JAX has it: a reduction that drops the dimension, then reshape and broadcast."""
    shape = list(x.shape or ())
    small = b.add("Reshape", b.add(kind, x, [len(shape) - 1]), [*shape[:-1], 1])
    return b.add("BroadcastTo", small, shape)


def rms_torch(b: Builder, eps: float = 1e-5, axis: int = -1) -> Value:
    x, w = b.input("x", "float32", X), b.input("w", "float32", (64,))
    return x * b.add("Rsqrt", mean(b, b.add("Pow", x, 2.0), axis) + eps) * w


def rms_jax(b: Builder, count: float = 64.0) -> Value:
    x, w = b.input("x", "float32", X), b.input("w", "float32", (64,))
    variance = kept_sum(b, b.add("Square", x)) / count
    wide = b.add("BroadcastTo", b.add("Reshape", w, [1, 1, 64]), list(X))
    return wide * (x * b.add("Rsqrt", variance + 1e-6))


def rms_half(b: Builder) -> Value:
    x, w = b.input("x", "bfloat16", X), b.input("w", "bfloat16", (64,))
    f = b.add("Cast", x, dst_type="float32")
    return b.add("Cast", f * b.add("Rsqrt", mean(b, f * f) + 1e-5), dst_type="bfloat16") * w


def layer_norm(b: Builder, affine: bool = True, other: bool = False) -> Value:
    x = b.input("x", "float32", X)
    centred = x - mean(b, x)
    spread = (x if other else centred) * centred
    y = centred * b.add("Rsqrt", mean(b, spread) + 1e-5)
    if not affine:
        return y
    return y * b.input("w", "float32", (64,)) + b.input("b", "float32", (64,))


def layer_norm_jax(b: Builder) -> Value:
    x = b.input("x", "float32", X)
    centred = x - kept_sum(b, x) * (1 / 64)
    variance = kept_sum(b, centred * centred) * (1 / 64)
    w, beta = b.input("w", "float32", (64,)), b.input("b", "float32", (64,))
    return centred / b.add("Sqrt", variance + 1e-6) * w + beta


def gelu_erf(b: Builder, divisor: float = math.sqrt(2)) -> Value:
    x = b.input("x", "float32", X)
    return x * 0.5 * (b.add("Erf", x / divisor) + 1.0)


def gelu_erfc(b: Builder) -> Value:
    x = b.input("x", "float32", X)
    return 0.5 * x * b.add("Erfc", -x * math.sqrt(0.5))


def gelu_tanh(b: Builder, cube: float = 0.044715) -> Value:
    x = b.input("x", "float32", X)
    inner = (x + b.add("Pow", x, 3.0) * cube) * math.sqrt(2 / math.pi)
    return x * (0.5 * (b.add("Tanh", inner) + 1.0))


def gelu_tanh_products(b: Builder) -> Value:
    x = b.input("x", "float32", X)
    return 0.5 * x * (1.0 + b.add("Tanh", math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def silu(b: Builder, x: Value) -> Value:
    return x * b.add("Sigmoid", x)


def silu_exp(b: Builder, shift: float = 1.0) -> Value:
    x = b.input("x", "float32", X)
    return x / (b.add("Exp", -x) + shift)


def swiglu(b: Builder, first: int = 0) -> Value:
    parts = b.add_many("SplitD", b.input("x", "float32", X), split_dim=-1, num_split=2)
    return silu(b, parts[first]) * parts[1 - first]


def swiglu_slices(b: Builder, second: int = 32) -> Value:
    x = b.input("x", "float32", X)
    gate, up = b.add("Slice", x, [0, 0, 0], [2, 3, 32]), b.add("Slice", x, [0, 0, second], [2, 3, 32])
    return silu(b, gate) * up


def softmax(b: Builder, x: Value, other: Value | None = None) -> Value:
    exp = b.add("Exp", x - b.add("ReduceMax", x, [-1], keep_dims=True))
    return exp / b.add("ReduceSum", exp if other is None else other, [-1], keep_dims=True)


def softmax_jax(b: Builder, x: Value) -> Value:
    top = b.add("Maximum", b.constant(np.float32(-np.inf)), kept_sum(b, x, "ReduceMax"))
    exp = b.add("Exp", x - top)
    return exp / kept_sum(b, exp)


def rotary(b: Builder, negated: int = 1) -> Value:
    x = b.input("x", "float32", (2, 4, 8, 16))
    cos, sin = b.input("cos", "float32", (1, 1, 8, 16)), b.input("sin", "float32", (1, 1, 8, 16))
    halves = b.add_many("Split", [-1], x, num_split=2, outputs=2)
    halves[negated] = -halves[negated]
    return x * cos + b.add("ConcatV2", halves[::-1], -1) * sin


def heads(b: Builder) -> list[Value]:
    return [b.input(name, "float32", (2, 4, 8, 16)) for name in "qkv"]


def attention(
    b: Builder, mask: Callable[[Builder, Value], Value] = lambda b, s: s, axes: str = "torch"
) -> Value:
    q, k, v = heads(b)
    scores = mask(b, b.add("BatchMatMulV2", q, b.add("Transpose", k, [0, 1, 3, 2])) / 4.0)
    weights = softmax(b, scores) if axes == "torch" else softmax_jax(b, scores)
    return b.add("BatchMatMulV2", weights, v)


def causal(b: Builder, scores: Value, shift: int = 0) -> Value:
    position = b.add("Range", np.int32(0), np.int32(8), np.int32(1))
    row = b.add("Reshape", position + shift, [8, 1])
    return b.add("SelectV2", b.add("GreaterEqual", row, position), scores, -math.inf)


def biased(b: Builder, scores: Value) -> Value:
    return scores + b.input("bias", "float32", (1, 4, 8, 8))


FIRES = {
    "rms, torch": (rms_torch, "RmsNorm"),
    "rms, jax": (rms_jax, "RmsNorm"),
    "rms, half": (rms_half, "RmsNorm"),
    "layer norm": (layer_norm, "LayerNormV4"),
    "layer norm, jax": (layer_norm_jax, "LayerNormV4"),
    "layer norm, plain": (lambda b: layer_norm(b, affine=False), "LayerNormV4"),
    "gelu, erf": (gelu_erf, "GeluV2"),
    "gelu, erfc": (gelu_erfc, "GeluV2"),
    "gelu, tanh": (gelu_tanh, "GeluV2"),
    "gelu, tanh of products": (gelu_tanh_products, "GeluV2"),
    "silu": (lambda b: silu(b, b.input("x", "float32", X)), "Swish"),
    "silu, exp": (silu_exp, "Swish"),
    "swiglu": (swiglu, "SwiGlu"),
    "swiglu, slices": (swiglu_slices, "SwiGlu"),
    "softmax, torch": (lambda b: softmax(b, b.input("x", "float32", X)), "SoftmaxV2"),
    "softmax, jax": (lambda b: softmax_jax(b, b.input("x", "float32", X)), "SoftmaxV2"),
    "rotary": (rotary, "RotaryMul"),
    "attention": (attention, "FlashAttentionScore"),
    "attention, jax": (lambda b: attention(b, axes="jax"), "FlashAttentionScore"),
    "attention, causal": (lambda b: attention(b, causal), "FlashAttentionScore"),
    "attention, bias": (lambda b: attention(b, biased), "FlashAttentionScore"),
}
MISSES = {
    "rms over another dimension": (lambda b: rms_torch(b, axis=1), "RmsNorm"),
    "rms with a negative epsilon": (lambda b: rms_torch(b, eps=-1e-5), "RmsNorm"),
    "rms with a wrong count": (lambda b: rms_jax(b, count=60.0), "RmsNorm"),
    "layer norm of something else": (lambda b: layer_norm(b, other=True), "LayerNormV4"),
    "gelu with another divisor": (lambda b: gelu_erf(b, 1.5), "GeluV2"),
    "gelu with another cube": (lambda b: gelu_tanh(b, 0.05), "GeluV2"),
    "silu with another shift": (lambda b: silu_exp(b, 2.0), "Swish"),
    "silu with a shift that adds dimensions": (
        lambda b: (lambda x: x / (b.add("Exp", -x) + np.ones((1, 1, 1, 1), np.float32)))(
            b.input("x", "float32", X)
        ),
        "Swish",
    ),
    "swiglu the other way round": (lambda b: swiglu(b, first=1), "SwiGlu"),
    "swiglu of overlapping slices": (lambda b: swiglu_slices(b, second=31), "SwiGlu"),
    "softmax with another sum": (
        lambda b: softmax(b, b.input("x", "float32", X), b.input("y", "float32", X)),
        "SoftmaxV2",
    ),
    "rotary with the other half negated": (lambda b: rotary(b, negated=0), "RotaryMul"),
    "attention with rows that see nothing": (
        lambda b: attention(b, lambda b, s: causal(b, s, shift=-1)),
        "FlashAttentionScore",
    ),
}


def build(make: Make) -> Builder:
    b = Builder("g")
    b.output(make(b))
    return b


def inputs(b: Builder) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(v.shape) for v in b.graph.inputs]


@pytest.mark.parametrize("name", FIRES)
def test_an_expansion_is_fused_and_means_the_same(name: str) -> None:
    make, fused = FIRES[name]
    b = build(make)
    data = inputs(b)
    expected = reference.run(b.graph, *data)[0]

    standard(check=True).run(b.graph)

    kinds = [node.type for node in b.graph.nodes if node.type not in ("Data", "Const", "Reshape")]
    assert kinds == [fused]
    np.testing.assert_allclose(reference.run(b.graph, *data)[0], expected, rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_is_left_alone(name: str) -> None:
    make, fused = MISSES[name]
    b = build(make)
    data = inputs(b)
    expected = reference.run(b.graph, *data)[0]

    standard(check=True).run(b.graph)

    assert fused not in [node.type for node in b.graph.nodes]
    np.testing.assert_allclose(reference.run(b.graph, *data)[0], expected, rtol=RTOL, atol=RTOL)


def test_what_something_else_reads_is_not_fused_away() -> None:
    b = Builder("g")
    x = b.input("x", "float32", X)
    gate = b.add("Sigmoid", x)
    b.output(x * gate)
    b.output(gate)

    standard(check=True).run(b.graph)

    assert [node.type for node in b.graph.order()] == ["Data", "Sigmoid", "Mul"]


def test_patterns_are_found_inside_subgraphs() -> None:
    then, other = Builder("then"), Builder("other")
    then.output(silu(then, then.input("x", "float32", X)))
    other.output(-other.input("x", "float32", X))
    b = Builder("g")
    p, x = b.input("p", "bool", ()), b.input("x", "float32", X)
    b.output(b.add_many("If", p, [x], subgraphs=[then, other])[0])

    standard(check=True).run(b.graph)

    assert [node.type for node in then.graph.order()] == ["Data", "Swish"]
