"""Routed experts on the NPU's grouped matmul, against one matmul a group in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torchtitan.models.common.moe import GroupedExperts

from titan_npu.overrides.experts import NpuGroupedExperts, grouped_experts, grouped_matmul

SIZES = (5, 0, 17, 1)  # an expert without a token among them
WIDTH, HIDDEN = 24, 40
BOUND = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.mark.parametrize("dtype", BOUND)
def test_grouped_matmul_and_its_gradients(dtype: torch.dtype) -> None:
    x, gradient = torch.randn(sum(SIZES), WIDTH), torch.randn(sum(SIZES), HIDDEN)
    weight = torch.randn(len(SIZES), WIDTH, HIDDEN)
    ours = [t.to("npu", dtype).requires_grad_() for t in (x, weight)]
    theirs = [t.to(dtype).double().requires_grad_() for t in (x, weight)]
    ends = torch.tensor(SIZES).cumsum(0)
    product = grouped_matmul(*ours, ends.to("npu"))
    expected = torch.cat(
        [rows @ theirs[1][expert] for expert, rows in enumerate(theirs[0].split(list(SIZES)))]
    )
    product.backward(gradient.to("npu", dtype))
    expected.backward(gradient.to(dtype).double())
    assert product.dtype == dtype
    for actual, reference in zip(
        (product, *(t.grad for t in ours)), (expected, *(t.grad for t in theirs)), strict=True
    ):
        torch.testing.assert_close(
            actual.cpu().double(),
            reference,
            rtol=BOUND[dtype],
            atol=BOUND[dtype] * reference.abs().max().item(),
        )


def test_experts_keep_the_precision_of_their_tokens() -> None:
    experts = NpuGroupedExperts(
        NpuGroupedExperts.Config(dim=WIDTH, hidden_dim=HIDDEN, num_experts=len(SIZES))
    )
    for weight in experts.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    x = torch.randn(sum(SIZES), WIDTH)
    pieces = []
    for expert, rows in enumerate(x.double().split(list(SIZES))):
        gate, up = (rows @ w[expert].double().t() for w in (experts.w1_EFD, experts.w3_EFD))
        pieces.append((F.silu(gate) * up) @ experts.w2_EDF[expert].double().t())
    expected = torch.cat(pieces)
    actual = experts.to("npu")(x.to("npu"), torch.tensor(SIZES, device="npu"))
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-5, atol=1e-6)


def test_the_override_is_for_torchtitans_experts() -> None:
    config = GroupedExperts.Config(dim=WIDTH, hidden_dim=HIDDEN, num_experts=2)
    swapped = grouped_experts(config)
    assert type(swapped) is NpuGroupedExperts.Config
    assert (swapped.dim, swapped.hidden_dim, swapped.num_experts) == (WIDTH, HIDDEN, 2)
