"""Attention and its gradient, as importers write them, become FlashAttentionScore and FlashAttentionScoreGrad.

Expected values: the expansion in float64 by its definitions, before the passes. Run on the NPU in float32, the fused
operators agree with it to 1e-5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from npu_common import runtime
from npu_common.graph import Builder, Value
from npu_common.graph.executors import CompileOptions, executor
from npu_common.graph.passes import standard
from tests.unit.graph import reference

B, N, ROWS, COLUMNS, D = 2, 3, 8, 12, 16
FUSED = {"FlashAttentionScore", "FlashAttentionScoreGrad"}
CAUSAL = np.tril(np.ones((ROWS, COLUMNS), bool), COLUMNS - ROWS)


@dataclass(frozen=True)
class Form:
    """How an importer writes it."""

    mask: bool = False
    bias: bool = False
    divides: bool = False  # by 4 instead of times 0.25
    divides_gradient: bool | None = None  # as the scores where None
    scaled: bool = True
    scales_gradient: bool | None = None  # as the scores where None
    weighted_first: bool = False  # dp p - p sum(dp p) instead of p (dp - sum(dp p))
    turned: bool = False  # dk as the transpose of the gradient of k^T
    # What no fused operator computes:
    other_scale: float = 0.25  # of the gradient
    scales_dk: bool = True
    beyond_mask: float = 0.0  # gradient of what the mask leaves out
    other_mask: bool = False  # of the gradient
    sums_columns: bool = False
    keeps_weights: bool = False  # p is a result too


def expansion(form: Form) -> Builder:
    b = Builder("attention")
    q, k, v, do = (
        b.input(name, "float32", (B, N, rows, D))
        for name, rows in zip(("q", "k", "v", "do"), (ROWS, COLUMNS, COLUMNS, ROWS), strict=True)
    )

    def product(x: Value, y: Value) -> Value:
        return b.add("BatchMatMulV2", x, y)

    def turned(x: Value) -> Value:
        return b.add("Transpose", x, [0, 1, 3, 2])

    def scaled(x: Value, by: float, scales: bool, divides: bool) -> Value:
        if not scales:
            return x
        return x / (1 / by) if divides else x * by

    keep = b.constant(CAUSAL[None, None])
    scores = scaled(product(q, turned(k)), 0.25, form.scaled, form.divides)
    if form.mask:
        scores = b.add("SelectV2", keep, scores, np.float32(-np.inf))
    if form.bias:
        scores = scores + b.input("bias", "float32", (1, N, ROWS, COLUMNS))
    exp = b.add("Exp", scores - b.add("ReduceMax", scores, [-1], keep_dims=True))
    p = exp / b.add("ReduceSum", exp, [-1], keep_dims=True)
    dp = product(do, turned(v))
    weighted = dp * p
    total = b.add("ReduceSum", weighted, [2 if form.sums_columns else -1], keep_dims=True)
    ds = weighted - p * total if form.weighted_first else p * (dp - total)
    if form.mask:
        kept = b.constant(CAUSAL[None, None, ::-1].copy()) if form.other_mask else keep
        ds = b.add("SelectV2", kept, ds, np.float32(form.beyond_mask))
    unscaled = ds
    scales = form.scaled if form.scales_gradient is None else form.scales_gradient
    divides = form.divides if form.divides_gradient is None else form.divides_gradient
    ds = scaled(ds, form.other_scale, scales, divides)
    for_dk = ds if form.scales_dk else unscaled
    dk = turned(product(turned(q), for_dk)) if form.turned else product(turned(for_dk), q)
    for result in (product(p, v), product(ds, k), dk, product(turned(p), do)):
        b.output(result)
    if form.keeps_weights:
        b.output(p)
    return b


FIRES: dict[str, Form] = {
    "plain": Form(),
    "divided": Form(divides=True),
    "divided, its gradient multiplied": Form(divides=True, divides_gradient=False),
    "multiplied, its gradient divided": Form(divides_gradient=True),
    "unscaled": Form(scaled=False),
    "as torch writes softmax's gradient": Form(weighted_first=True),
    "transposed": Form(turned=True),
    "causal": Form(mask=True),
    "causal, transposed, divided": Form(mask=True, turned=True, divides=True, weighted_first=True),
    "bias": Form(bias=True),
}
MISSES: dict[str, Form] = {
    "another scale in the gradient": Form(other_scale=0.5),
    "divided, a gradient multiplied by something else": Form(
        divides=True, divides_gradient=False, other_scale=0.5
    ),
    "multiplied, a gradient divided by something else": Form(divides_gradient=True, other_scale=0.5),
    "multiplied and divided by one number": Form(divides_gradient=True, other_scale=4.0),
    "no scale in the gradient": Form(scales_gradient=False),
    "a scale in the gradient alone": Form(scaled=False, scales_gradient=True),
    "a scale for dq alone": Form(scales_dk=False),
    "another mask in the gradient": Form(mask=True, other_mask=True),
    "a mask that lets a gradient through": Form(mask=True, beyond_mask=1.0),
    "a sum over the wrong dimension": Form(sums_columns=True),
    "weights that somebody reads": Form(keeps_weights=True),
}


def prepared(form: Form) -> tuple[Builder, list[np.ndarray], list[np.ndarray]]:
    b = expansion(form)
    random = np.random.default_rng(0)
    data = [random.standard_normal(v.shape).astype(np.float32) for v in b.graph.inputs]
    return b, data, reference.run(b.graph, *data)


def types(b: Builder) -> set[str]:
    return {node.type for node in b.graph.nodes}


@pytest.mark.parametrize("name", FIRES)
def test_the_expansion_is_fused_and_means_the_same(name: str) -> None:
    b, data, expected = prepared(FIRES[name])
    standard(check=True).run(b.graph)
    assert types(b) - {"Data", "Const"} == FUSED
    for got, want in zip(reference.run(b.graph, *data), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_is_left_alone(name: str) -> None:
    b, data, expected = prepared(MISSES[name])
    standard(check=True).run(b.graph)
    assert "FlashAttentionScoreGrad" not in types(b)
    for got, want in zip(reference.run(b.graph, *data), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("compiler", ["ge", "aclnn"])
@pytest.mark.parametrize("name", FIRES)
def test_the_fused_operators_compute_it(
    name: str, compiler: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPU_CACHE_DIR", str(tmp_path))
    b, data, expected = prepared(FIRES[name])
    executable = executor(compiler).compile(b.graph, CompileOptions())
    assert {node.type for node in executable.graph.nodes} >= FUSED
    outputs = [runtime.empty(value.shape, value.dtype) for value in executable.graph.outputs]
    executable.run([runtime.asarray(each) for each in data], outputs, runtime.current_stream())
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("divisor", [0.0, np.nan])
def test_attention_divided_by_no_number_is_left_alone(divisor: float) -> None:
    b = Builder("attention")
    q, k, v = (b.input(name, "float32", (B, N, ROWS, D)) for name in ("q", "k", "v"))
    scores = b.add("BatchMatMulV2", q, b.add("Transpose", k, [0, 1, 3, 2])) / divisor
    b.output(b.add("BatchMatMulV2", b.add("SoftmaxV2", scores), v))
    standard(check=True).run(b.graph)
    assert not types(b) & FUSED
