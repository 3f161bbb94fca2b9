"""Fused modules accept what the unfused ones accept (case rmsnorm-without-weight)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

EPSILON = 1e-6
Array = np.ndarray[Any, np.dtype[np.float64]]


def _double(*shape: int, seed: int = 0) -> Array:
    drawn: Array = np.random.default_rng(seed).standard_normal(shape)
    return drawn


def _rms(x: Array) -> Array:
    normalised: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    return normalised


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)]
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(2, 16, 64), (1, 1), (3, 65), (5, 2, 2, 127)])
def test_rms_norm(
    npu: torch.device, shape: tuple[int, ...], weighted: bool, dtype: torch.dtype, tolerance: float
) -> None:
    x = torch.from_numpy(_double(*shape)).to(dtype)
    weight = torch.from_numpy(_double(shape[-1], seed=1)).to(dtype) if weighted else None
    expected = _rms(x.double().numpy()) * (weight.double().numpy() if weight is not None else 1.0)
    actual = F.rms_norm(x.to(npu), [shape[-1]], weight.to(npu) if weight is not None else None, EPSILON)
    assert actual.dtype == dtype
    np.testing.assert_allclose(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("affine", [False, True])
def test_rms_norm_module_and_its_gradients(npu: torch.device, affine: bool) -> None:
    module = torch.nn.RMSNorm(64, eps=EPSILON, elementwise_affine=affine)
    x, upstream = (
        torch.from_numpy(_double(2, 16, 64)).float(),
        torch.from_numpy(_double(2, 16, 64, seed=2)).float(),
    )
    expected = torch.nn.RMSNorm(64, eps=EPSILON, elementwise_affine=affine, dtype=torch.float64)
    inputs = [x.double().requires_grad_(), *expected.parameters()]
    reference = torch.autograd.grad(expected(inputs[0]), inputs, upstream.double())
    module.to(npu)
    inputs = [x.to(npu).requires_grad_(), *module.parameters()]
    actual = torch.autograd.grad(module(inputs[0]), inputs, upstream.to(npu))
    for a, e in zip(actual, reference, strict=True):
        torch.testing.assert_close(a.cpu().double(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("affine", [False, True])
def test_layer_norm_without_weight(npu: torch.device, affine: bool) -> None:
    x = _double(2, 16, 64)
    weight, bias = _double(64, seed=1), _double(64, seed=2)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    expected = expected * weight + bias if affine else expected
    scale = [torch.from_numpy(p).float().to(npu) for p in (weight, bias)] if affine else [None, None]
    actual = F.layer_norm(torch.from_numpy(x).float().to(npu), [64], scale[0], scale[1], EPSILON)
    np.testing.assert_allclose(actual.cpu(), expected, rtol=1e-5, atol=1e-5)


def _attention(q: Array, k: Array, v: Array, bias: Array) -> Array:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = weights / weights.sum(-1, keepdims=True) @ v
    return result


@pytest.mark.parametrize("kind", ["keep", "add"])
@pytest.mark.parametrize("shape", [(2, 3, 1, 9), (2, 1, 1, 9), (2, 3, 7, 9), (1, 1, 7, 9), (7, 9)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_attention_masks_broadcast(
    npu: torch.device, shape: tuple[int, ...], kind: str, dtype: torch.dtype, tolerance: float
) -> None:
    q, k, v = (torch.from_numpy(_double(2, 3, n, 16, seed=n)).to(dtype) for n in (7, 9, 9))
    if kind == "keep":
        mask = torch.from_numpy(_double(*shape, seed=5) > -0.5)
        mask[..., 0] = True  # every query keeps a key
        bias = np.where(mask.numpy(), 0.0, -np.inf)
    else:
        mask = torch.from_numpy(_double(*shape, seed=5)).to(dtype)
        bias = mask.double().numpy()
    actual = F.scaled_dot_product_attention(q.to(npu), k.to(npu), v.to(npu), attn_mask=mask.to(npu))
    expected = _attention(q.double().numpy(), k.double().numpy(), v.double().numpy(), bias)
    np.testing.assert_allclose(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)
