"""Context parallelism for packed documents: a sequence over several ranks, attention within each document.

Two ways to bring queries and keys together:

* ``all_gather``: each rank keeps its queries and gathers keys and values. Rows are dealt head and tail (rank r
  of n has the chunks r and 2n-1-r of 2n), so that causal attention costs every rank the same.
* ``ulysses``: each rank gives its tokens of most heads for all tokens of its share of the heads, by one
  all-to-all before and one after (DeepSpeed-Ulysses, arXiv:2309.14509). Heads must be divisible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import (
    all_gather_tensor_autograd,
    all_to_all_single_autograd,
    wait_tensor,
)
from torch.distributed.device_mesh import DeviceMesh

Method = Literal["all_gather", "ulysses"]
METHODS: tuple[Method, ...] = ("all_gather", "ulysses")


@dataclass(frozen=True)
class ContextParallel:
    """The ranks that share a sequence and how they exchange it."""

    group: dist.ProcessGroup
    size: int
    method: Method

    @staticmethod
    def over(mesh: DeviceMesh, method: Method) -> ContextParallel:
        """``mesh`` is the one-dimensional mesh of the axis cp."""
        return ContextParallel(mesh.get_group(), mesh.size(), method)

    def gather(self, x_BLNH: torch.Tensor) -> torch.Tensor:
        """[B, L/n, N, H] of every rank -> [n, B, L/n, N, H]; differentiable."""
        return wait_tensor(all_gather_tensor_autograd(x_BLNH.contiguous()[None], 0, self.group))

    def heads_for_tokens(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """[B, L/n, N, H] -> [B, L, N/n, H] each, all in one all-to-all; differentiable.

        Raises:
            ValueError: a number of heads that n does not divide.
        """
        parts = []
        for x in tensors:
            batch, length, heads, width = x.shape
            if heads % self.size:
                raise ValueError(
                    f"Ulysses context parallelism gives each of its {self.size} ranks the same number of heads "
                    f"and a rank has {heads} (of queries, keys or values): take a context_parallel_degree that "
                    "divides them, or context_parallel=all_gather."
                )
            parts.append(x.view(batch, length, self.size, heads // self.size, width).movedim(2, 0).flatten(1))
        received = self._exchange(torch.cat(parts, dim=1))
        exchanged = []
        for x, part in zip(tensors, received.split([p.shape[1] for p in parts], dim=1), strict=True):
            batch, length, heads, width = x.shape
            blocks = part.view(self.size, batch, length, heads // self.size, width)
            exchanged.append(blocks.movedim(0, 1).reshape(batch, self.size * length, -1, width))
        return exchanged

    def tokens_for_heads(self, x_BLNH: torch.Tensor) -> torch.Tensor:
        """[B, L, N/n, H] -> [B, L/n, N, H], the way back; differentiable."""
        batch, length, heads, width = x_BLNH.shape
        blocks = x_BLNH.view(batch, self.size, length // self.size, heads, width).movedim(1, 0)
        received = self._exchange(blocks.flatten(1)).view(blocks.shape)
        return received.movedim(0, 2).reshape(batch, length // self.size, self.size * heads, width)

    def _exchange(self, rows: torch.Tensor) -> torch.Tensor:
        """Row i of [n, ...] to rank i."""
        return wait_tensor(all_to_all_single_autograd(rows.contiguous(), None, None, self.group))


@dataclass(frozen=True)
class ShardedDocuments:
    """Documents of packed rows as one rank sees them that has a part of each row's queries.

    Every piece of a document among the rank's queries attends to that document's tokens up to the piece's end:
    the fused kernel's causal mask, aligned to the lower right corner, is then the right one.
    """

    query_ends: tuple[int, ...]
    """Where each piece ends among the rank's B * L/n tokens."""
    key_ends: tuple[int, ...]
    """Where the keys of each piece end among the chosen ones."""
    keys: torch.Tensor
    """int64: the tokens to attend to, piece by piece, as numbers in the gathered [n, B, L/n]."""


def local_chunks(rank: int, size: int, length: int, balanced: bool) -> list[tuple[int, int]]:
    """(start, end) of the parts of a row of ``length`` tokens that rank ``rank`` of ``size`` has, in its order.

    Raises:
        ValueError: a length that does not divide.
    """
    pieces = 2 * size if balanced else size
    if length % pieces:
        raise ValueError(
            f"A row of {length} tokens cannot be dealt in {pieces} equal parts to {size} ranks of context "
            f"parallelism: take a training.seq_len that {pieces} divides."
        )
    step = length // pieces
    numbers = (rank, 2 * size - 1 - rank) if balanced else (rank,)
    return [(number * step, (number + 1) * step) for number in numbers]


def local_tokens(x: torch.Tensor, rank: int, size: int, balanced: bool) -> torch.Tensor:
    """The columns of [B, L, ...] that a rank has: [B, L/n, ...]."""
    chunks = local_chunks(rank, size, x.shape[1], balanced)
    return torch.cat([x[:, start:end] for start, end in chunks], dim=1)


def shard_documents(positions: torch.Tensor, rank: int, size: int, balanced: bool) -> ShardedDocuments:
    """What ``rank`` attends to.

    Args:
        positions: int64 [B, L] of whole rows, 0 at each document's first token (a row always starts one).
    """
    on_host = positions.cpu()
    batch, length = on_host.shape
    share = length // size
    # Where a token of a row lies in [n, B, L/n]: rank and place; the row is added below.
    gathered = torch.empty(length, dtype=torch.int64)
    for owner in range(size):
        place = owner * batch * share
        for start, end in local_chunks(owner, size, length, balanced):
            gathered[start:end] = torch.arange(place, place + end - start)
            place += end - start
    query_ends, key_ends, keys = [], [], []
    queries = chosen = 0
    for row in range(batch):
        starts = (on_host[row] == 0).nonzero().flatten().tolist()
        starts = sorted({0, *starts})
        documents = list(zip(starts, [*starts[1:], length], strict=True))
        for start, end in local_chunks(rank, size, length, balanced):
            for first, last in documents:
                begin, stop = max(first, start), min(last, end)
                if begin >= stop:
                    continue
                queries += stop - begin
                chosen += stop - first
                query_ends.append(queries)
                key_ends.append(chosen)
                keys.append(gathered[first:stop] + row * share)
    return ShardedDocuments(
        tuple(query_ends), tuple(key_ends), torch.cat(keys).to(positions.device, non_blocking=True)
    )
