"""torch_npu's fused activations against their formulas in float64."""

import pytest
import torch
import torch_npu

# Operands reach 10 and gradients are products of three: where terms of that size cancel, a float32 rounding is 6e-6.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
F = torch.nn.functional

pytestmark = pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))


def close(actual, expected, dtype):
    assert actual.dtype == dtype
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=tolerance, atol=tolerance)


def operand(dtype, *shape):
    """A transposed view, and its exact values in float64."""
    x = torch.randn(*shape[:-2], shape[-1], shape[-2]).mul(3).to(dtype)
    return x.npu().transpose(-1, -2), x.double().transpose(-1, -2)


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_swiglu_multiplies_silu_of_the_first_half_by_the_second(dtype, dim):
    x, exact = operand(dtype, 4, 6, 8)
    a, b = exact.chunk(2, dim)
    close(torch_npu.npu_swiglu(x, dim=dim), F.silu(a) * b, dtype)


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_swiglu_gradient(dtype, dim):
    x, exact = operand(dtype, 4, 6, 8)
    exact.requires_grad_()
    a, b = exact.chunk(2, dim)
    y = F.silu(a) * b
    grad = torch.randn(y.shape).to(dtype)
    (expected,) = torch.autograd.grad(y, exact, grad.double())
    x.requires_grad_()
    (actual,) = torch.autograd.grad(torch_npu.npu_swiglu(x, dim=dim), x, grad.npu())
    close(actual, expected, dtype)


@pytest.mark.parametrize("activate_left", [False, True])
@pytest.mark.parametrize("approximate", [0, 1])
@pytest.mark.parametrize("dim", [-1, 1])
def test_geglu_and_its_gradient(dtype, dim, approximate, activate_left):
    x, exact = operand(dtype, 3, 4, 6)
    exact.requires_grad_()
    left, right = exact.chunk(2, dim)
    gate, plain = (left, right) if activate_left else (right, left)
    gelu = F.gelu(gate, approximate="tanh" if approximate else "none")
    grad = torch.randn(gelu.shape).to(dtype)
    (expected,) = torch.autograd.grad(gelu * plain, exact, grad.double())
    x.requires_grad_()
    y, activated = torch_npu.npu_geglu(x, dim, approximate, activate_left)
    close(y.detach(), (gelu * plain).detach(), dtype)
    close(activated.detach(), gelu.detach(), dtype)
    (actual,) = torch.autograd.grad(y, x, grad.npu())
    close(actual, expected, dtype)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_mul(dtype, approximate):
    x, exact = operand(dtype, 5, 6)
    a, b = exact.chunk(2, -1)
    close(torch_npu.npu_gelu_mul(x, approximate=approximate), F.gelu(a, approximate=approximate) * b, dtype)


def test_fast_gelu_and_its_gradient(dtype):
    x, exact = operand(dtype, 5, 7)
    exact.requires_grad_()
    y = exact * torch.sigmoid(1.702 * exact)
    grad = torch.randn(5, 7).to(dtype)
    (expected,) = torch.autograd.grad(y, exact, grad.double())
    x.requires_grad_()
    result = torch_npu.npu_fast_gelu(x)
    close(result.detach(), y.detach(), dtype)
    (actual,) = torch.autograd.grad(result, x, grad.npu())
    close(actual, expected, dtype)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("alpha", "limit", "bias"), [(1.702, 7.0, 1.0), (0.5, 1.5, -2.0)])
def test_clipped_swiglu(dtype, interleaved, alpha, limit, bias):
    x, exact = operand(dtype, 6, 8)
    a, b = (exact[:, ::2], exact[:, 1::2]) if interleaved else exact.chunk(2, -1)
    a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    expected = a * torch.sigmoid(alpha * a) * (b + bias)
    actual = torch_npu.npu_clipped_swiglu(x, alpha=alpha, limit=limit, bias=bias, interleaved=interleaved)
    close(actual, expected, dtype)


def test_clipped_swiglu_computes_the_rows_that_the_group_index_counts(dtype):
    x, _ = operand(dtype, 6, 8)
    groups = torch.tensor([1, 3]).npu()
    whole = torch_npu.npu_clipped_swiglu(x)
    counted = torch_npu.npu_clipped_swiglu(x, group_index=groups)
    torch.testing.assert_close(counted[:4].cpu(), whole[:4].cpu(), rtol=0, atol=0)
    assert not counted[4:].any()
