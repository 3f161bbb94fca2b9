"""Llama 3 on packed attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchtitan.models.common.decoder import Decoder
from torchtitan.models.llama3.model import Llama3Model
from torchtitan.models.llama3.sharding import set_llama3_sharding_config

from titan_npu.models.packed import PackedDocuments
from titan_npu.parallel.decoder import keep_attention_local


class NpuLlama3Model(PackedDocuments, Llama3Model):
    """Llama3Model on packed attention."""

    @dataclass(kw_only=True, slots=True)
    class Config(Llama3Model.Config):
        def update_from_config(self, *, config: Any, **kwargs: Any) -> None:
            # Llama3Model.Config's own, less its refusal of context parallelism over document lengths.
            Decoder.Config.update_from_config(self, config=config, **kwargs)
            set_llama3_sharding_config(self, enable_sp=config.parallelism.enable_sequence_parallel)
            keep_attention_local(self)
