"""Selective activation checkpointing: the fused attention runs once a step and layer, not twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC

from titan_npu.activation_checkpoint import NpuSelectiveAC
from titan_npu.overrides.packed_attention import PackedAttention, host_metadata


class Block(torch.nn.Module):
    """A layer whose only expensive operation is the attention."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.attention = PackedAttention.Config().build()

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        q = x * self.scale
        return self.attention(q, q, q, attention_masks=host_metadata(positions)).sin()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict({"0": Block(), "1": Block()})


class Counter(TorchDispatchMode):
    """Counts the fused attention's forward kernels, recomputed ones included."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.npu.npu_fusion_attention.default
        return func(*args, **(kwargs or {}))


def step(config: SelectiveAC.Config | FullAC.Config | None, npu: torch.device) -> tuple[int, torch.Tensor]:
    """Forward kernels of the attention in a step of two layers, and the gradient of the input."""
    model = Model().to(npu)
    if config is not None:
        config.build(dump_folder="").apply(model)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 16, 2, 8, generator=generator).to(npu).requires_grad_()
    positions = torch.cat([torch.arange(5), torch.arange(11)]).unsqueeze(0).to(npu)
    with Counter() as counter:
        out = x
        for layer in model.layers.values():
            out = layer(out, positions)
        out.sum().backward()
    assert x.grad is not None
    return counter.count, x.grad.cpu()


@pytest.mark.parametrize(
    ("config", "kernels"),
    [
        (None, 2),
        (NpuSelectiveAC.Config(), 2),
        (SelectiveAC.Config(), 4),  # TorchTitan's own list does not know the operator
        (FullAC.Config(), 4),
    ],
    ids=["none", "ours", "torchtitan's", "full"],
)
def test_attention_kernels_a_step(
    config: SelectiveAC.Config | FullAC.Config | None, kernels: int, npu: torch.device
) -> None:
    expected = step(None, npu)[1]
    count, gradient = step(config, npu)
    assert count == kernels
    torch.testing.assert_close(gradient, expected, rtol=0, atol=0)
