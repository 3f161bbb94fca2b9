"""The parallelize function of our decoders: TorchTitan's steps, with context parallelism of packed attention.

TorchTitan's own functions (models/llama3/parallelize.py, models/deepseek_v3/parallelize.py) refuse context
parallelism for attention over document lengths in every backend; the rest of their work is in the same
functions of TorchTitan that are called here.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.fsdp import DataParallelMeshDims
from torchtitan.config import TORCH_DTYPE_MAP, CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.activation_checkpoint import ActivationCheckpointingConfig
from torchtitan.distributed.compile import apply_compile
from torchtitan.distributed.fsdp import apply_fsdp_to_decoder
from torchtitan.distributed.full_dtensor import resolve_fsdp_mesh, resolve_sparse_fsdp_mesh
from torchtitan.models.common.decoder import Decoder
from torchtitan.models.common.decoder_sharding import dense_activation_placement
from torchtitan.models.deepseek_v3.mtp import MTPDecoder, apply_fsdp_to_mtp_decoder
from torchtitan.protocols.sharding import LocalMapConfig, ShardingConfig

from titan_npu.overrides.packed_attention import PackedAttention
from titan_npu.parallel.context import ContextParallel, Method


def parallelize_decoder(
    model: Decoder,
    *,
    parallel_dims: ParallelDims,
    training: TrainingConfig,
    parallelism: ParallelismConfig,
    compile_config: CompileConfig,
    ac_config: ActivationCheckpointingConfig,
    dump_folder: str,
    context_parallel: Method = "all_gather",
) -> Decoder:
    """Context, tensor and expert parallelism, activation checkpointing, compilation and FSDP, in this order.

    ``model`` is on the meta device; it is changed and returned.

    Raises:
        NotImplementedError: context parallelism for another attention than PackedAttention.
    """
    if parallel_dims.cp_enabled:
        share_context(model, ContextParallel.over(parallel_dims.get_mesh("cp"), context_parallel))
    whole_mesh = parallelism.spmd_backend != "partial_dtensor"
    if whole_mesh or parallel_dims.tp_enabled or parallel_dims.ep_enabled:
        model.parallelize(parallel_dims)
    if ac_config is not None:
        ac_config.build(dump_folder=dump_folder).apply(model)
    if compile_config.enable and "model" in compile_config.components:
        apply_compile(model, compile_config=compile_config, parallel_dims=parallel_dims)
    settings: dict[str, Any] = {
        "param_dtype": TORCH_DTYPE_MAP[training.mixed_precision_param],
        "reduce_dtype": TORCH_DTYPE_MAP[training.mixed_precision_reduce],
        "pp_enabled": parallel_dims.pp_enabled,
        "cpu_offload": training.enable_cpu_offload,
        "reshard_after_forward_policy": parallelism.fsdp_reshard_after_forward,
        "ep_degree": parallel_dims.ep,
        "enable_symm_mem": parallelism.enable_fsdp_symm_mem,
        **fsdp_meshes(parallel_dims, whole_mesh),
    }
    if isinstance(model, MTPDecoder):
        apply_fsdp_to_mtp_decoder(model, **settings)
    else:
        apply_fsdp_to_decoder(model, **settings)
    return model


def fsdp_meshes(parallel_dims: ParallelDims, whole_mesh: bool) -> dict[str, Any]:
    """The meshes (and, where parameters live on the whole mesh, its data-parallel axes) of dense parameters and
    of experts."""
    dims: DataParallelMeshDims | None = None
    expert_dims: DataParallelMeshDims | None = None
    if whole_mesh:
        mesh, dims = resolve_fsdp_mesh(parallel_dims)
        expert_mesh, expert_dims = resolve_sparse_fsdp_mesh(parallel_dims)
    else:
        replicate = ["dp_replicate"] if parallel_dims.dp_replicate_enabled else []
        mesh = parallel_dims.get_mesh([*replicate, "fsdp"])
        expert_mesh = (
            parallel_dims.get_optional_mesh([*replicate, "efsdp"]) if parallel_dims.ep_enabled else None
        )
    return {
        "dp_mesh": mesh,
        "dp_mesh_dims": dims,
        "edp_mesh": expert_mesh,
        "edp_mesh_dims": expert_dims,
    }


def share_context(model: nn.Module, context: ContextParallel) -> None:
    """Tell every attention of ``model`` which ranks share its sequence."""
    blocks = [block for block in model.modules() if hasattr(block, "inner_attention")]
    for block in blocks:
        attention = block.inner_attention
        if not isinstance(attention, PackedAttention):
            raise NotImplementedError(
                f"Context parallelism is for packed attention on the NPU, and {type(attention).__name__} is not: "
                "take a recipe with the override titan_npu.overrides.packed_attention.packed_attention, or "
                "parallelism.context_parallel_degree=1."
            )
        attention.context = context


def keep_attention_local(config: Decoder.Config) -> None:
    """Declare the inner attention's inputs and output sharded over tokens (cp) and heads (tp) on both sides.

    TorchTitan's declaration gathers keys and values over cp before the kernel; PackedAttention exchanges them
    itself, in the same way under every backend.
    """
    import spmd_types as spmd

    local = dense_activation_placement(tp=spmd.S(2))
    for layer in [*config.layers, *getattr(config, "mtp_layers", [])]:
        names = ("q_BLNH", "k_BLNH", "v_BLNH")
        layer.attention.inner_attention.sharding_config = ShardingConfig(
            in_src_shardings=dict.fromkeys(names, local),
            in_dst_shardings=dict.fromkeys(names, local),
            out_src_shardings=local,
            local_map=LocalMapConfig(in_grad_placements=(local,) * 3),
        )
