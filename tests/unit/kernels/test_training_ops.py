"""What a training step leans on: products, embeddings, losses, pooling with indices, the fused optimizers."""

import pytest
import torch
import torch_npu  # noqa: F401
from torch.nn import functional

TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def close(got, want, tolerance):
    torch.testing.assert_close(
        got.detach().cpu().double(), want.detach().double(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_matmul_of_a_transposed_batch(dtype):
    torch.manual_seed(0)
    x, w = torch.randn(5, 3, 7).to(dtype), torch.randn(4, 7).to(dtype)
    got = torch.matmul(x.npu().transpose(0, 1), w.npu().t())
    close(got, x.transpose(0, 1).double() @ w.t().double(), TOLERANCE[dtype])


def test_matmul_without_inner_dimension_is_zero():
    assert torch.equal(
        torch.matmul(torch.empty(2, 3, 0).npu(), torch.empty(0, 4).npu()).cpu(), torch.zeros(2, 3, 4)
    )


def test_addmm_honours_beta_and_alpha():
    torch.manual_seed(0)
    base, a, b = torch.randn(4), torch.randn(3, 5), torch.randn(5, 4)
    got = torch.addmm(base.npu(), a.npu(), b.npu(), beta=0.5, alpha=-2)
    close(got, 0.5 * base.double() - 2 * (a.double() @ b.double()), 1e-5)


def test_embedding_gradient_sums_repeated_rows_and_skips_padding():
    index = torch.tensor([[1, 1, 2], [0, 1, 3]])
    weight = torch.randn(5, 8)
    grad = torch.randn(2, 3, 8)
    want = weight.double().requires_grad_()
    functional.embedding(index, want, padding_idx=0).backward(grad.double())
    got = weight.npu().requires_grad_()
    functional.embedding(index.npu(), got, padding_idx=0).backward(grad.npu())
    close(got.grad, want.grad, 1e-6)


def test_embedding_gradient_is_carried_in_float():
    # 4096 ones: bfloat16 alone would stop counting at 256.
    weight = torch.zeros(2, 4, dtype=torch.bfloat16).npu().requires_grad_()
    functional.embedding(torch.zeros(4096, dtype=torch.long).npu(), weight).sum().backward()
    assert weight.grad[0, 0].item() == 4096


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_cross_entropy(dtype, reduction):
    torch.manual_seed(0)
    logits, target, weight = torch.randn(6, 9).to(dtype), torch.randint(0, 9, (6,)), torch.rand(9).to(dtype)
    target[0] = 4
    want = logits.double().requires_grad_()
    loss = functional.cross_entropy(want, target, weight.double(), ignore_index=4, reduction=reduction)
    loss.sum().backward()
    got = logits.npu().requires_grad_()
    result = functional.cross_entropy(got, target.npu(), weight.npu(), ignore_index=4, reduction=reduction)
    result.sum().backward()
    close(result, loss, 2 * TOLERANCE[dtype])
    close(got.grad, want.grad, 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("kernel,stride,padding,dilation", [(2, 2, 0, 1), (3, 1, 1, 2), (3, 2, 1, 1)])
def test_max_pool_hands_its_winners_to_the_gradient(kernel, stride, padding, dilation):
    torch.manual_seed(0)
    x = torch.randint(0, 3, (2, 3, 9, 8)).float()  # many ties: the first of equal values wins
    want = x.double().requires_grad_()
    y = functional.max_pool2d(want, kernel, stride, padding, dilation, ceil_mode=True)
    grad = torch.randn(y.shape)
    y.backward(grad.double())
    got = x.npu().requires_grad_()
    result = functional.max_pool2d(got, kernel, stride, padding, dilation, ceil_mode=True)
    result.backward(grad.npu())
    close(result, y, 0)
    close(got.grad, want.grad, 1e-6)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_fused_adamw_follows_the_plain_one(amsgrad, maximize):
    torch.manual_seed(0)
    start = torch.randn(33, 7)
    options = {"lr": 0.05, "betas": (0.9, 0.97), "eps": 1e-7, "weight_decay": 0.1}
    plain = torch.nn.Parameter(start.double())
    fused = torch.nn.Parameter(start.npu())
    reference = torch.optim.AdamW([plain], foreach=False, amsgrad=amsgrad, maximize=maximize, **options)
    optimizer = torch.optim.AdamW([fused], fused=True, amsgrad=amsgrad, maximize=maximize, **options)
    for _ in range(4):
        grad = torch.randn(33, 7)
        plain.grad, fused.grad = grad.double(), grad.npu()
        reference.step()
        optimizer.step()
    close(fused, plain, 1e-5)


def test_ctc_loss_without_an_alignment_has_no_gradient():
    log_probs = torch.randn(3, 1, 4).log_softmax(-1)
    got = log_probs.npu().requires_grad_()
    loss = functional.ctc_loss(got, torch.tensor([[1, 1, 1]]).npu(), [3], [3], zero_infinity=True)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(got.grad.cpu(), torch.zeros(3, 1, 4))
