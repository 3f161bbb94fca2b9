"""A batch from the loader made into a rank's model inputs: document boundaries, context and DTensors."""

from __future__ import annotations

from typing import Any

import torch
from torchtitan.config import ParallelismConfig
from torchtitan.distributed import ParallelDims, full_dtensor
from torchtitan.distributed.spmd_types import annotate_input_spmd_types

from titan_npu.overrides.packed_attention import host_metadata
from titan_npu.parallel.context import Method, local_tokens, shard_documents


def shard_context(
    batch: dict[str, torch.Tensor],
    labels: torch.Tensor,
    parallel_dims: ParallelDims,
    parallelism: ParallelismConfig,
    method: Method,
) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """The part of ``batch`` that a rank of the cp axis works on, for packed attention.

    Args:
        batch: "input" and "positions", int64 [B, L]; labels int64 [B, L].

    Returns:
        inputs, labels [B, L/cp] and the model's keyword arguments positions and attention_masks; DTensors where
        the backend wants them.
    """
    mesh = parallel_dims.get_mesh("cp")
    rank, size = mesh.get_local_rank(), mesh.size()
    balanced = method == "all_gather" and parallelism.context_parallel_load_balancer is not None
    positions = batch["positions"]
    masks = (
        host_metadata(positions) if method == "ulysses" else shard_documents(positions, rank, size, balanced)
    )
    keywords: dict[str, Any] = {
        name: local_tokens(value, rank, size, balanced) for name, value in batch.items() if name != "input"
    }
    keywords["attention_masks"] = masks
    inputs = local_tokens(batch["input"], rank, size, balanced)
    labels = local_tokens(labels, rank, size, balanced)
    if parallelism.spmd_backend == "full_dtensor":
        return full_dtensor.parallelize_inputs(parallel_dims, inputs, labels, keywords)
    if parallelism.spmd_backend == "spmd_types":
        return annotate_input_spmd_types(parallel_dims, inputs, labels, keywords)
    return inputs, labels, keywords
