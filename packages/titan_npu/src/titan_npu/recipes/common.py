"""What recipes share: overrides by name, initial values, validation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from torchtitan.config import ParallelismConfig
from torchtitan.models.common.param_init import depth_scaled_std

from titan_npu.data.loader import LocalTextDataLoader
from titan_npu.validator import NpuValidator

PACKED_ATTENTION = "titan_npu.overrides.packed_attention.packed_attention"
EXPERTS = "titan_npu.overrides.experts.grouped_experts"

Init = dict[str, Callable[..., Any]]

PROJECTION: Init = {"weight": partial(nn.init.trunc_normal_, std=0.02), "bias": nn.init.zeros_}
NORM: Init = {"weight": nn.init.ones_}
EMBEDDING: Init = {"weight": partial(nn.init.normal_, std=1.0)}


def deep(layer: int) -> Init:
    """Initial values of a projection into the residual stream, smaller the deeper the layer."""
    return {
        "weight": partial(nn.init.trunc_normal_, std=depth_scaled_std(0.02, layer)),
        "bias": nn.init.zeros_,
    }


def parallelism() -> ParallelismConfig:
    """One rank unless more are asked for; parameters are DTensors over the axes that split a model.

    TorchTitan's default backend, spmd_types, needs an FSDP2 that takes annotated plain parameters, and torch
    2.13's takes DTensors.
    """
    return ParallelismConfig(spmd_backend="partial_dtensor")


def validator(path: str | None, steps: int) -> NpuValidator.Config:
    """``steps`` batches of the documents at ``path`` every ten steps (off unless validator.enable)."""
    return NpuValidator.Config(
        freq=10,
        steps=steps,
        dataloader=LocalTextDataLoader.Config(dataset="jsonl", dataset_path=path, infinite=False),
    )
