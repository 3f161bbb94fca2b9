"""RMS normalisation and its relatives on npu against float64, forward and backward, in every dtype."""

import pytest
import torch
import torch_npu

TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
DTYPES = list(TOLERANCE)


def rms_norm(x, gamma, eps):
    dims = tuple(range(-gamma.dim(), 0))
    rstd = torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + eps)
    return x * rstd * gamma, rstd


def check(got, want, tolerance):
    torch.testing.assert_close(got.cpu().double(), want.detach().double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gamma_dims", [1, 2])
def test_rms_norm_and_gradient(dtype, gamma_dims):
    torch.manual_seed(0)
    x = torch.randn(6, 5, 37).to(dtype).transpose(0, 1)  # rows that are not contiguous
    gamma = torch.randn(x.shape[-gamma_dims:]).to(dtype)
    grad = torch.randn(x.shape).to(dtype)
    xd, gd = x.double().requires_grad_(), gamma.double().requires_grad_()
    want, rstd = rms_norm(xd, gd, 1e-5)
    dx, dgamma = torch.autograd.grad(want, (xd, gd), grad.double())

    y, got_rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), epsilon=1e-5)
    assert got_rstd.dtype == torch.float32 and got_rstd.shape == rstd.shape
    check(y, want, TOLERANCE[dtype])
    check(got_rstd, rstd, 1e-5)
    got_dx, got_dgamma = torch_npu.npu_rms_norm_backward(grad.npu(), x.npu(), gamma.npu(), got_rstd)
    check(got_dx, dx, TOLERANCE[dtype])
    check(got_dgamma, dgamma, 1e-4)


def test_rms_norm_of_large_values_is_carried_in_float():
    # The squares overflow float16, their mean does not overflow float.
    x = torch.full((2, 64), 3.0e4, dtype=torch.float16)
    y, _ = torch_npu.npu_rms_norm(x.npu(), torch.ones(64, dtype=torch.float16).npu(), epsilon=1e-6)
    check(y, torch.ones(2, 64), 1e-3)


def test_rms_norm_without_rows():
    y, rstd = torch_npu.npu_rms_norm(torch.empty(0, 8).npu(), torch.ones(8).npu(), epsilon=1e-6)
    assert y.shape == (0, 8) and rstd.shape == (0, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_rms_norm(dtype):
    torch.manual_seed(0)
    a, b = torch.randn(2, 4, 6, 32).to(dtype)
    gamma = torch.randn(32).to(dtype)
    total = a + b
    y, rstd, x = torch_npu.npu_add_rms_norm(a.npu(), b.npu(), gamma.npu(), 1e-6)
    want, want_rstd = rms_norm(total.double(), gamma.double(), 1e-6)
    check(x, total, 0)
    check(y, want, TOLERANCE[dtype])
    check(rstd, want_rstd, 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm_keeps_float_statistics(dtype):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3, 4, 16).to(dtype), torch.randn(16).to(dtype), torch.randn(16).to(dtype)
    y, mean, rstd = torch.native_layer_norm(x.npu(), [16], weight.npu(), bias.npu(), 1e-5)
    xd = x.double()
    assert mean.dtype == rstd.dtype == torch.float32
    check(y, torch.nn.functional.layer_norm(xd, [16], weight.double(), bias.double(), 1e-5), TOLERANCE[dtype])
    check(mean, xd.mean(-1, keepdim=True), 1e-5)
    check(rstd, torch.rsqrt(xd.var(-1, unbiased=False, keepdim=True) + 1e-5), 1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_updates_running_statistics_only_in_training(training):
    torch.manual_seed(0)
    x = torch.randn(4, 3, 5, 5)
    want = torch.nn.BatchNorm2d(3)
    with torch.no_grad():
        want.running_mean.uniform_()
    got = torch.nn.BatchNorm2d(3)
    got.load_state_dict(want.state_dict())
    got.npu()
    want.train(training)
    got.train(training)
    check(got(x.npu()), want(x), 1e-5)
    check(got.running_mean, want.running_mean, 1e-6)
    check(got.running_var, want.running_var, 1e-6)
