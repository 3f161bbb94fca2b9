"""Rotary position embedding on npu against float64, forward and backward, in both ways of pairing."""

import pytest
import torch
import torch_npu

TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def turn(x, mode):
    if mode == "half":
        first, second = x.chunk(2, -1)
        return torch.cat([-second, first], -1)
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_mul_and_gradient(dtype, mode):
    torch.manual_seed(0)
    x = torch.randn(2, 5, 3, 8).to(dtype)
    cos, sin = torch.randn(2, 1, 5, 1, 8).to(dtype)
    inputs = [t.double().requires_grad_() for t in (x, cos, sin)]
    want = inputs[0] * inputs[1] + turn(inputs[0], mode) * inputs[2]
    grad = torch.randn(x.shape).to(dtype)
    gradients = torch.autograd.grad(want, inputs, grad.double())

    device = [t.npu().requires_grad_() for t in (x, cos, sin)]
    got = torch_npu.npu_rotary_mul(*device, mode)
    got.backward(grad.npu())
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(got.cpu().double(), want.detach(), rtol=tolerance, atol=tolerance)
    for tensor, expected in zip(device, gradients, strict=True):
        torch.testing.assert_close(
            tensor.grad.cpu().double(), expected, rtol=2 * tolerance, atol=2 * tolerance
        )
