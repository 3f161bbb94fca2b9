"""DeepSeek-V3 recipes: latent attention, and a mixture of experts in all layers but the first."""

from __future__ import annotations

import dataclasses

from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
from torchtitan.config import TrainingConfig
from torchtitan.config.configs import DebugConfig
from torchtitan.config.override import OverrideConfig
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.deepseek_v3 import build_mla_moe_layers, model_registry
from torchtitan.protocols.model_spec import ModelSpec

from titan_npu.checkpoint import NpuCheckpointManager
from titan_npu.data.loader import LocalTextDataLoader
from titan_npu.data.prepare import DEFAULT_VOCAB_SIZE, default_folder
from titan_npu.metrics.processor import NpuMetricsProcessor
from titan_npu.models.deepseek_v3 import NpuDeepSeekV3Model
from titan_npu.parallel.decoder import parallelize_decoder
from titan_npu.recipes.common import (
    EMBEDDING,
    EXPERTS,
    NORM,
    PACKED_ATTENTION,
    PROJECTION,
    deep,
    parallelism,
    validator,
)
from titan_npu.trainer import NpuTrainer


def deepseek_v3_debug() -> NpuTrainer.Config:
    """2.6 M parameters, 8 experts of which each token takes 3, over the corpus of ``titan-npu data prepare``."""
    model_spec = _npu_model_spec("debugmodel", debug_model())
    prepared = default_folder()
    return NpuTrainer.Config(
        model_spec=model_spec,
        vocab_from_tokenizer=True,
        hf_assets_path=str(prepared / "tokenizer"),
        dataloader=LocalTextDataLoader.Config(dataset="jsonl", dataset_path=str(prepared / "train.jsonl")),
        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),
        optimizer=default_adamw(lr=2e-3),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=4, total_steps=1_000_000, decay_ratio=0.0),
        training=TrainingConfig(
            local_batch_size=8,
            seq_len=256,
            steps=30,
            mixed_precision_param="float32",
            disable_cuda_graphs=True,
        ),
        parallelism=parallelism(),
        override=OverrideConfig(imports=[PACKED_ATTENTION, EXPERTS]),
        metrics=NpuMetricsProcessor.Config(log_freq=1, enable_tensorboard=True),
        checkpoint=NpuCheckpointManager.Config(
            enable=True, interval=10, keep_latest_k=3, last_save_model_only=False
        ),
        activation_checkpoint=None,
        validator=validator(str(prepared / "validation.jsonl"), steps=4),
        debug=DebugConfig(seed=42),
    )


def debug_model(vocab_size: int = DEFAULT_VOCAB_SIZE) -> NpuDeepSeekV3Model.Config:
    """4 layers of width 128, 8 heads of 32 + 16 (rotary) and values of 32 over a latent of 64; a dense first
    layer, then 8 experts of 128 (3 a token) and 1 shared."""
    dim, n_layers, rope_dim = 128, 4, 16
    layers = build_mla_moe_layers(
        n_layers=n_layers,
        n_dense_layers=1,
        dim=dim,
        n_heads=8,
        q_lora_rank=0,
        kv_lora_rank=64,
        qk_nope_head_dim=32,
        qk_rope_head_dim=rope_dim,
        v_head_dim=32,
        mscale=0.70,
        dense_hidden_dim=512,
        moe_hidden_dim=128,
        num_experts=8,
        num_shared_experts=1,
        router_top_k=3,
        router_score_func="sigmoid",
        router_route_norm=True,
        attn_backend="varlen",
        moe_comm_backend="standard",
        non_blocking_capacity_factor=None,
        linear_init=PROJECTION,
        norm_init=NORM,
        depth_init=deep,
        depth_experts_init=lambda layer: {
            "w1_EFD": PROJECTION["weight"],
            "w2_EDF": deep(layer)["weight"],
            "w3_EFD": deep(layer)["weight"],
        },
        rope=ComplexRoPE.Config(
            dim=rope_dim,
            max_seq_len=4096 * 4,
            theta=10000.0,
            scaling="yarn",
            rope_factor=40.0,
            beta_fast=32.0,
            beta_slow=1.0,
            original_seq_len=4096,
        ),
    )
    for layer in layers:  # as in DeepSeek's own code, whatever the eps of the other norms
        layer.attention.kv_norm = dataclasses.replace(layer.attention.kv_norm, eps=1e-6)
    return NpuDeepSeekV3Model.Config(
        vocab_size=vocab_size,
        dim=dim,
        tok_embeddings=Embedding.Config(num_embeddings=vocab_size, embedding_dim=dim, param_init=EMBEDDING),
        norm=RMSNorm.Config(normalized_shape=dim, param_init=NORM),
        lm_head=Linear.Config(in_features=dim, out_features=vocab_size, param_init=PROJECTION),
        layers=layers,
    )


def _npu_model_spec(flavor: str, model: NpuDeepSeekV3Model.Config) -> ModelSpec:
    spec = model_registry(flavor, attn_backend="varlen")
    return dataclasses.replace(spec, model=model, parallelize_fn=parallelize_decoder)
