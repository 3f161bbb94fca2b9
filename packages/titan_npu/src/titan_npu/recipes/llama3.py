"""Llama 3 recipes."""

from __future__ import annotations

import dataclasses

from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
from torchtitan.config import TrainingConfig
from torchtitan.config.configs import DebugConfig
from torchtitan.config.override import OverrideConfig, derive
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm, compute_ffn_hidden_dim
from torchtitan.models.common.attention import VarlenAttention
from torchtitan.models.common.config_utils import decoder_vocab_size, make_ffn_config, make_gqa_config
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.model import Llama3TransformerBlock
from torchtitan.protocols.model_spec import ModelSpec

from titan_npu.activation_checkpoint import NpuSelectiveAC
from titan_npu.checkpoint import NpuCheckpointManager
from titan_npu.data.loader import LocalTextDataLoader
from titan_npu.data.prepare import DEFAULT_VOCAB_SIZE, default_folder
from titan_npu.metrics.processor import NpuMetricsProcessor
from titan_npu.models.llama3 import NpuLlama3Model
from titan_npu.parallel.decoder import parallelize_decoder
from titan_npu.recipes.common import (
    EMBEDDING,
    NORM,
    PACKED_ATTENTION,
    PROJECTION,
    deep,
    parallelism,
    validator,
)
from titan_npu.trainer import NpuTrainer


def llama3_debug() -> NpuTrainer.Config:
    """5.8 M parameters over the corpus of ``titan-npu data prepare``: thirty steps in minutes on a laptop's
    emulator.

    Grouped key/value heads and several documents a row, so that a small run takes the same paths as a large
    one. The learning rate is constant after the warm-up, so that a run can be stopped and continued to any
    number of steps.
    """
    model_spec = _npu_model_spec("debugmodel", debug_model())
    prepared = default_folder()
    return NpuTrainer.Config(
        model_spec=model_spec,
        vocab_from_tokenizer=True,
        hf_assets_path=str(prepared / "tokenizer"),
        dataloader=LocalTextDataLoader.Config(dataset="jsonl", dataset_path=str(prepared / "train.jsonl")),
        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),
        optimizer=default_adamw(lr=3e-3),
        # A schedule of its own length: TorchTitan shortens a warm-up that is longer than training.steps, and
        # a run stopped by a small training.steps would then not be the beginning of the longer one.
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=4, total_steps=1_000_000, decay_ratio=0.0),
        training=TrainingConfig(
            local_batch_size=16,
            seq_len=512,
            steps=30,
            mixed_precision_param="float32",
            disable_cuda_graphs=True,
        ),
        parallelism=parallelism(),
        override=OverrideConfig(imports=[PACKED_ATTENTION]),
        metrics=NpuMetricsProcessor.Config(log_freq=1, enable_tensorboard=True),
        checkpoint=NpuCheckpointManager.Config(
            enable=True, interval=10, keep_latest_k=3, last_save_model_only=False
        ),
        activation_checkpoint=None,
        validator=validator(str(prepared / "validation.jsonl"), steps=4),
        debug=DebugConfig(seed=42),
    )


def llama3_8b() -> NpuTrainer.Config:
    """Llama 3 8B in bfloat16 mixed precision; give it a tokenizer (hf_assets_path) and data (data=jsonl,
    ...)."""
    model_spec = _npu_model_spec("8B")
    return NpuTrainer.Config(
        model_spec=model_spec,
        hf_assets_path="./assets/hf/Llama-3.1-8B",
        dataloader=LocalTextDataLoader.Config(dataset="jsonl"),
        loss=ChunkedLossWrapper.Config(
            loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec))
        ),
        optimizer=default_adamw(lr=3e-4),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=200),
        training=TrainingConfig(local_batch_size=1, seq_len=8192, steps=1000, disable_cuda_graphs=True),
        parallelism=parallelism(),
        override=OverrideConfig(imports=[PACKED_ATTENTION]),
        metrics=NpuMetricsProcessor.Config(log_freq=10, enable_tensorboard=True),
        checkpoint=NpuCheckpointManager.Config(enable=True, interval=500, last_save_model_only=False),
        activation_checkpoint=NpuSelectiveAC.Config(),
        validator=validator(None, steps=64),
    )


def debug_model(vocab_size: int = DEFAULT_VOCAB_SIZE) -> NpuLlama3Model.Config:
    """6 layers of width 256, 8 query heads on 4 key/value heads of 32, SwiGLU of 768."""
    dim, n_heads, n_kv_heads, n_layers = 256, 8, 4, 6
    norm = RMSNorm.Config(normalized_shape=dim, param_init=NORM)
    rope = ComplexRoPE.Config(dim=dim // n_heads, max_seq_len=131072, theta=500000, scaling="llama")

    layers = [
        Llama3TransformerBlock.Config(
            attention_norm=dataclasses.replace(norm),
            ffn_norm=dataclasses.replace(norm),
            attention=make_gqa_config(
                dim=dim,
                n_heads=n_heads,
                n_kv_heads=n_kv_heads,
                wqkv_param_init=PROJECTION,
                wo_param_init=deep(layer),
                inner_attention=VarlenAttention.Config(),
                fuse_qkv=True,
                rope=dataclasses.replace(rope),
            ),
            feed_forward=make_ffn_config(
                dim=dim,
                hidden_dim=compute_ffn_hidden_dim(dim, multiple_of=256),
                w1_param_init=PROJECTION,
                w2w3_param_init=deep(layer),
            ),
        )
        for layer in range(n_layers)
    ]
    return NpuLlama3Model.Config(
        dim=dim,
        vocab_size=vocab_size,
        tok_embeddings=Embedding.Config(
            num_embeddings=vocab_size,
            embedding_dim=dim,
            param_init=EMBEDDING,
        ),
        norm=dataclasses.replace(norm),
        # Small enough that the first prediction is nearly uniform: the first loss is ln(vocab_size).
        lm_head=Linear.Config(in_features=dim, out_features=vocab_size, param_init=PROJECTION),
        layers=layers,
    )


def _npu_model_spec(flavor: str, model: NpuLlama3Model.Config | None = None) -> ModelSpec:
    spec = model_registry(flavor, attn_backend="varlen")
    return dataclasses.replace(
        spec, model=model or derive(spec.model, NpuLlama3Model.Config), parallelize_fn=parallelize_decoder
    )
