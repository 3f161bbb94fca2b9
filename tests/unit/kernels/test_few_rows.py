"""Kernels with a path of their own for small or float32 operands: products of few rows, where, exp, sums at rows."""

from __future__ import annotations

import pytest
import torch


def _close(ours: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(ours.cpu().double(), wanted.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [0, 1, 15, 33, 128])
@pytest.mark.parametrize("n", [1, 16, 127, 130, 300])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_few_rows(rows: int, k: int, n: int, transposed: bool) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(rows, k), torch.randn(n, k).T if transposed else torch.randn(k, n)
    device = w.T.npu().T if transposed else w.npu()
    _close(x.npu() @ device, x.double() @ w.double())


@pytest.mark.parametrize("shape", [(2, 3), (1, 4), ()])
def test_a_batch_of_vectors(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, keys = torch.randn(*shape, 1, 32), torch.randn(*shape, 40, 32)
    device = keys.npu()
    _close(x.npu() @ device.mT, x.double() @ keys.double().mT)
    _close(device @ x.npu().mT, keys.double() @ x.double().mT)  # a matrix times one column
    heads = torch.randn(40, *shape, 32)  # cached keys: the batch is not outermost in memory
    _close(x.npu() @ heads.npu().movedim(0, -2).mT, x.double() @ heads.double().movedim(0, -2).mT)


def test_a_product_does_not_touch_what_lies_beside() -> None:
    x, w = torch.ones(1, 8), torch.ones(8, 24)
    out = torch.zeros(3, 24).npu()
    torch.mm(x.npu(), w.npu(), out=out[1:2])
    assert out.cpu().sum(1).tolist() == [0, 8 * 24, 0]


@pytest.mark.parametrize("sides", [("all", "all"), ("one", "all"), ("all", "one"), ("one", "one")])
def test_where_keeps_bits(sides: tuple[str, str]) -> None:
    torch.manual_seed(0)
    mask = torch.rand(5, 7) > 0.5
    values = [torch.randn(5, 7), torch.randn(5, 7)]
    values[0][0, :3] = torch.tensor([float("nan"), -0.0, float("inf")])
    given = [v if side == "all" else v[1, 1] for v, side in zip(values, sides, strict=True)]
    ours = torch.where(mask.npu(), given[0].npu(), given[1].npu()).cpu()
    assert torch.equal(ours.view(torch.int32), torch.where(mask, *given).view(torch.int32))


def test_exp_over_its_whole_range() -> None:
    x = torch.cat(
        [torch.linspace(-110, 90, 4001), torch.tensor([float("inf"), -float("inf"), -3e38, float("nan")])]
    )
    wanted = torch.exp(x.double()).float()
    ours = torch.exp(x.npu()).cpu()
    torch.testing.assert_close(ours, wanted, rtol=1e-6, atol=1e-37, equal_nan=True)


def test_gradients_of_an_embedding_add_up() -> None:
    index = torch.tensor([3, 0, 3, 3])
    weight = torch.zeros(4, 5).npu().requires_grad_()
    torch.nn.functional.embedding(index.npu(), weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.cpu().sum(1).tolist() == [5, 0, 0, 15]
