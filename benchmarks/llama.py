"""The debug Llama 3 on one device, its modules run directly: for comparing the NPU with plain CPU torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torchtitan.config.override import derive
from torchtitan.models.common.attention import VarlenAttention, VarlenMetadata

from titan_npu.overrides.packed_attention import PackedAttention
from titan_npu.recipes.llama3 import debug_model

VOCABULARY = 2048


class MaskedAttention(VarlenAttention):
    """CPU torch's scaled_dot_product_attention with a dense document mask: what packed attention has to equal."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(VarlenAttention.Config):
        pass

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, attention_masks: Any, **_: Any
    ) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attention_masks, enable_gqa=True).transpose(
            1, 2
        )


def document_mask(positions: torch.Tensor) -> torch.Tensor:
    """Bool [B, 1, L, L], true where a query may attend: same document, not later. positions: int64 [B, L]."""
    document = (positions == 0).cumsum(1)
    same = document[:, None, :, None] == document[:, None, None, :]
    return same & torch.ones_like(same[0, 0]).tril()


@dataclasses.dataclass(frozen=True)
class Batch:
    """Tokens, labels and positions within the document, each int64 [B, L]."""

    tokens: torch.Tensor
    labels: torch.Tensor
    positions: torch.Tensor


def batches(count: int, rows: int, length: int, seed: int = 0) -> list[Batch]:
    """Random tokens in documents of random lengths, the same on every call."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        tokens = torch.randint(VOCABULARY, (rows, length + 1), generator=generator)
        starts = torch.rand(rows, length, generator=generator) < 4 / length
        starts[:, 0] = True
        index = torch.arange(length).expand(rows, length)
        positions = index - torch.where(starts, index, 0).cummax(1).values
        made.append(Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), positions))
    return made


class Twin:
    """The debug Llama with fixed weights on one device, and its AdamW training step in float32."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        config = debug_model(VOCABULARY)
        attention = MaskedAttention.Config if self.device.type == "cpu" else PackedAttention.Config
        for layer in config.layers:
            layer.attention.inner_attention = derive(layer.attention.inner_attention, attention)
        torch.manual_seed(1)  # weights are drawn on the CPU, then moved: the same on every device
        self.model = config.build()
        self.model.init_weights(buffer_device=torch.device("cpu"))
        self.model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, foreach=True)

    def masks(self, positions: torch.Tensor) -> torch.Tensor | VarlenMetadata:
        """The attention masks of this device's attention."""
        if self.device.type == "cpu":
            return document_mask(positions)
        return self.model.get_attention_masks(positions)

    def step(self, batch: Batch) -> torch.Tensor:
        """One training step (forward, backward, clipping, AdamW); returns the loss, still on the device."""
        tokens, labels, positions = (x.to(self.device) for x in (batch.tokens, batch.labels, batch.positions))
        logits = self.model(tokens, positions=positions, attention_masks=self.masks(positions))
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def timed_step(device: str) -> Callable[[], None]:
    """A function that does one training step of 4 x 512 tokens and waits for it."""
    twin, (batch,) = Twin(device), batches(1, rows=4, length=512)

    def work() -> None:
        twin.step(batch).item()

    return work
