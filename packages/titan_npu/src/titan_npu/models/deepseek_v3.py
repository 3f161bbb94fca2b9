"""DeepSeek-V3 (latent attention, mixture of experts) on packed attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchtitan.models.deepseek_v3.model import DeepSeekV3Model

from titan_npu.models.packed import PackedDocuments
from titan_npu.parallel.decoder import keep_attention_local


class NpuDeepSeekV3Model(PackedDocuments, DeepSeekV3Model):
    """DeepSeekV3Model on packed attention."""

    @dataclass(kw_only=True, slots=True)
    class Config(DeepSeekV3Model.Config):
        def update_from_config(self, *, config: Any, **kwargs: Any) -> None:
            DeepSeekV3Model.Config.update_from_config(self, config=config, **kwargs)
            keep_attention_local(self)
