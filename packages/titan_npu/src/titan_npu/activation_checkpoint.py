"""Selective activation checkpointing that knows the NPU's fused attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torchtitan.distributed.activation_checkpoint import SelectiveAC


class NpuSelectiveAC(SelectiveAC):
    """SelectiveAC that keeps the fused attention's outputs too, which would be computed twice otherwise."""

    @dataclass(kw_only=True, slots=True)
    class Config(SelectiveAC.Config):
        pass

    def get_save_ops(self) -> set[torch._ops.OpOverload]:
        return {*super().get_save_ops(), torch.ops.npu.npu_fusion_attention.default}
