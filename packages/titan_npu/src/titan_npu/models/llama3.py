"""Llama 3 with document lengths on the host, once a forward instead of once a layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torchtitan.models.common.attention import AttentionMasksType
from torchtitan.models.common.decoder import Decoder
from torchtitan.models.llama3.model import Llama3Model

from titan_npu.overrides.packed_attention import PackedAttention, host_metadata


class PackedDocuments(Decoder):
    """Mix-in before a Decoder: builds the metadata of packed attention with its host copy."""

    def get_attention_masks(self, positions: torch.Tensor) -> AttentionMasksType | None:
        attention = self.config.first_attention
        if attention is not None and isinstance(attention.inner_attention, PackedAttention.Config):
            return host_metadata(positions)
        return super().get_attention_masks(positions)


class NpuLlama3Model(PackedDocuments, Llama3Model):
    """Llama3Model on packed attention."""

    @dataclass(kw_only=True, slots=True)
    class Config(Llama3Model.Config):
        pass
