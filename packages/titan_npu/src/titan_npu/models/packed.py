"""What our decoders share: document lengths on the host, once a forward, and attention that stays local."""

from __future__ import annotations

import torch
from torchtitan.models.common.attention import AttentionMasksType
from torchtitan.models.common.decoder import Decoder

from titan_npu.overrides.packed_attention import PackedAttention, host_metadata


class PackedDocuments(Decoder):
    """Mix-in before a Decoder: builds the metadata of packed attention with its host copy."""

    def get_attention_masks(self, positions: torch.Tensor) -> AttentionMasksType | None:
        attention = self.config.first_attention
        if attention is not None and isinstance(attention.inner_attention, PackedAttention.Config):
            return host_metadata(positions)
        return super().get_attention_masks(positions)
