"""The models that torchair compiles: each a factory of a module and of inputs for a batch size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def silu(x: Tensor) -> Tensor:
    """Written out: torchair has no conversion of silu's derivative."""
    return x * torch.sigmoid(x)


class LlamaBlock(nn.Module):
    """Attention with rotary embedding and a causal mask, then SwiGLU; RMS norms written out."""

    def __init__(self, dim: int = 32, hidden: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.norm1, self.norm2 = nn.Parameter(torch.rand(dim) + 0.5), nn.Parameter(torch.rand(dim) + 0.5)

    def project(self, weight: nn.Linear, x: Tensor) -> Tensor:
        """On rows: torchair's conversion of matmul_backward does not sum the batches of a three-dimensional input."""
        return weight(x.flatten(0, 1)).unflatten(0, x.shape[:2])

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, dim = x.shape
        h = self.norm(x, self.norm1)
        q, k, v = (
            self.project(w, h).view(batch, length, self.heads, -1).transpose(1, 2)
            for w in (self.wq, self.wk, self.wv)
        )
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        scores = q @ k.transpose(-1, -2) / (dim // self.heads) ** 0.5
        mask = torch.triu(torch.ones(length, length, device=x.device, dtype=torch.bool), 1)
        attention = torch.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v
        x = x + self.project(self.wo, attention.transpose(1, 2).reshape(batch, length, dim))
        h = self.norm(x, self.norm2)
        return x + self.project(self.down, silu(self.project(self.gate, h)) * self.project(self.up, h))


class Cnn(nn.Module):
    """Convolutions with batch norm (its statistics are kept fixed), pooling, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm1 = nn.BatchNorm2d(8).eval()
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, groups=2, bias=False)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(16, 10)

    def train(self, mode: bool = True) -> Cnn:
        super().train(mode)
        self.norm1.eval()
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Cnn:
        """Statistics and scale stay in float32, as CANN's BNInfer has them."""
        super()._apply(fn, recurse)
        self.norm1.float()
        return self

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.norm1(self.conv1(x)))
        h = F.relu(self.pool(self.conv2(h).float()).to(h.dtype))  # CANN pools float16 and float32
        return self.head(h.mean((-2, -1)))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)
    )


def llama_inputs(batch: int) -> tuple[Tensor, ...]:
    length = 6
    angles = torch.arange(length)[:, None] * torch.rand(1, 8)
    return torch.randn(batch, length, 32), angles.cos(), angles.sin()


@dataclass(frozen=True)
class Model:
    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Tensor, ...]]


MODELS = {
    "mlp": Model(mlp, lambda batch: (torch.randn(batch, 16),)),
    "llama": Model(LlamaBlock, llama_inputs),
    "cnn": Model(Cnn, lambda batch: (torch.randn(batch, 3, 16, 16),)),
}
