"""Routed experts on torch_npu's grouped matmul, in the dtype of their tokens.

TorchTitan's (models/common/moe.py) cast tokens and weights to bfloat16 whatever the run's precision, because
CUDA's grouped matmul takes nothing else, and call ``torch._grouped_mm``, whose backward torch_npu does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import torch_npu
from torch.distributed.tensor import DTensor
from torchtitan.config.override import derive, override
from torchtitan.models.common.moe import GroupedExperts

ROWS, CONTRACTED = 0, 2
"""group_type of aclnnGroupedMatmul: groups are rows of x, or parts of the contracted dimension."""


class NpuGroupedExperts(GroupedExperts):
    """SwiGLU experts over tokens sorted by expert.

    forward takes x [R, D] and how many rows each expert has, [E]; it returns [R, D] of x's dtype.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(GroupedExperts.Config):
        pass

    def forward(self, x_RD: torch.Tensor, num_tokens_per_expert_E: torch.Tensor) -> torch.Tensor:
        ends_E = torch.cumsum(num_tokens_per_expert_E, dim=0, dtype=torch.int64)
        w1_EFD, w2_EDF, w3_EFD = (self._weight(w, x_RD) for w in (self.w1_EFD, self.w2_EDF, self.w3_EFD))
        gate_RF = grouped_matmul(x_RD, w1_EFD.transpose(-2, -1), ends_E)
        up_RF = grouped_matmul(x_RD, w3_EFD.transpose(-2, -1), ends_E)
        return grouped_matmul(F.silu(gate_RF) * up_RF, w2_EDF.transpose(-2, -1), ends_E)

    @staticmethod
    def _weight(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (weight.to_local() if isinstance(weight, DTensor) else weight).to(x.dtype)


def grouped_matmul(x_RK: torch.Tensor, weight_EKN: torch.Tensor, ends_E: torch.Tensor) -> torch.Tensor:
    """Rows of x times the weight of their group: [R, N], differentiable in both.

    Args:
        x_RK: [R, K]; weight_EKN: [E, K, N], of one dtype (float32, float16, bfloat16).
        ends_E: int64 [E], the row after each group's last one.
    """
    return _GroupedMatmul.apply(x_RK, weight_EKN, ends_E)


class _GroupedMatmul(torch.autograd.Function):
    """``npu_grouped_matmul`` gives no gradients of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight, ends)
        return _grouped(x, weight, ends, ROWS)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        x, weight, ends = ctx.saved_tensors
        of_x = _grouped(gradient, weight.transpose(-2, -1), ends, ROWS) if ctx.needs_input_grad[0] else None
        of_weight = _grouped(x.t(), gradient, ends, CONTRACTED) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, None


def _grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor, group_type: int) -> torch.Tensor:
    product: torch.Tensor = torch_npu.npu_grouped_matmul(
        [x], [weight], group_list=ends, split_item=3, group_type=group_type
    )[0]
    return product


@override(target=GroupedExperts.Config, description="torch_npu's grouped matmul, any dtype", exact=True)
def grouped_experts(config: GroupedExperts.Config) -> NpuGroupedExperts.Config:
    """Swap TorchTitan's bfloat16 experts for the NPU's."""
    return derive(config, NpuGroupedExperts.Config)
