"""Context parallelism of packed documents: who attends to what, and the same numbers as on one rank."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch

from titan_npu.overrides.packed_attention import PackedAttention, host_metadata
from titan_npu.parallel.context import (
    ContextParallel,
    ShardedDocuments,
    local_chunks,
    local_tokens,
    shard_documents,
)

ROWS, LENGTH, HEADS, KV_HEADS, HEAD_DIM = 2, 96, 8, 4, 16
STARTS = ((0, 1, 37, 40), (0, 50))  # documents that straddle the edges of 2, 3, 4 and 6 shards


def positions() -> torch.Tensor:
    """int64 [ROWS, LENGTH], 0 where a document starts."""
    rows = []
    for starts in STARTS:
        ends = (*starts[1:], LENGTH)
        rows.append(torch.cat([torch.arange(end - start) for start, end in zip(starts, ends, strict=True)]))
    return torch.stack(rows)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_token_is_on_one_rank(size: int, balanced: bool) -> None:
    row = torch.arange(LENGTH)[None]
    shares = [local_tokens(row, rank, size, balanced)[0] for rank in range(size)]
    assert {len(share) for share in shares} == {LENGTH // size}
    assert torch.equal(torch.cat(shares).sort().values, row[0])
    if balanced:  # causal work of a token grows with its place: the same sum on every rank
        assert len({int(share.sum()) for share in shares}) == 1


def test_a_length_that_does_not_divide_is_named() -> None:
    with pytest.raises(ValueError, match="A row of 96 tokens cannot be dealt in 10 equal parts to 5 ranks"):
        local_chunks(0, 5, LENGTH, balanced=True)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_each_query_attends_to_its_document_up_to_itself(size: int, balanced: bool) -> None:
    tokens = torch.arange(ROWS * LENGTH).view(ROWS, LENGTH)
    document = (positions().flatten() == 0).cumsum(0)
    shares = [local_tokens(tokens, rank, size, balanced) for rank in range(size)]
    gathered = torch.stack(shares).flatten()
    seen: dict[int, set[int]] = {}
    for rank in range(size):
        pieces = shard_documents(positions(), rank, size, balanced)
        queries, keys = shares[rank].flatten(), gathered[pieces.keys]
        edges = zip(
            itertools.pairwise((0, *pieces.query_ends)),
            itertools.pairwise((0, *pieces.key_ends)),
            strict=True,
        )
        for (first, last), (key_first, key_last) in edges:
            for back, query in enumerate(reversed(queries[first:last].tolist())):
                assert query not in seen
                seen[query] = set(keys[key_first : key_last - back].tolist())  # aligned at the lower right
        assert pieces.query_ends[-1] == queries.numel() and pieces.key_ends[-1] == keys.numel()
    for token in range(ROWS * LENGTH):
        allowed = {k for k in range(token + 1) if document[k] == document[token]}
        assert seen[token] == allowed, token


@dataclass(frozen=True)
class Together(ContextParallel):
    """All ranks in one process: a gather puts their shares together."""

    def gather(self, x_BLNH: torch.Tensor) -> torch.Tensor:
        return x_BLNH.view(self.size, -1, *x_BLNH.shape[1:])


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_the_parts_of_attention_are_the_whole(size: int, balanced: bool) -> None:
    q, k, v, out_gradient = (
        torch.randn(ROWS, LENGTH, heads, HEAD_DIM, device="npu")
        for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS)
    )
    whole = [x.clone().requires_grad_() for x in (q, k, v)]
    attention = PackedAttention.Config().build()
    masks = host_metadata(positions().to("npu"))
    expected = attention(*whole, attention_masks=masks)
    expected.backward(out_gradient)

    parts = [x.clone().requires_grad_() for x in (q, k, v)]
    attention.context = Together(None, size, "all_gather")  # type: ignore[arg-type]
    for rank in range(size):
        documents = shard_documents(positions().to("npu"), rank, size, balanced)
        # What the ranks gather: [n, B, L/n, ...], here as [n * B, L/n, ...].
        keys, values = (
            torch.cat([local_tokens(x, peer, size, balanced) for peer in range(size)]) for x in parts[1:]
        )
        out = attention(local_tokens(parts[0], rank, size, balanced), keys, values, attention_masks=documents)
        torch.testing.assert_close(
            out, local_tokens(expected.detach(), rank, size, balanced), rtol=1e-5, atol=1e-5
        )
        out.backward(local_tokens(out_gradient, rank, size, balanced))
    for part, one in zip(parts, whole, strict=True):
        torch.testing.assert_close(part.grad, one.grad, rtol=1e-5, atol=1e-5)


def test_masks_of_the_other_kind_are_refused() -> None:
    attention = PackedAttention.Config().build()
    attention.context = Together(None, 2, "all_gather")  # type: ignore[arg-type]
    q = torch.zeros(ROWS, LENGTH, HEADS, HEAD_DIM, device="npu")
    with pytest.raises(
        TypeError, match=r"needs the documents' lengths \(ShardedDocuments\), not VarlenMetadata"
    ):
        attention(q, q, q, attention_masks=host_metadata(positions().to("npu")))
    attention.context = None
    documents = ShardedDocuments((1,), (1,), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"\(VarlenMetadata\), not ShardedDocuments"):
        attention(q, q, q, attention_masks=documents)


def test_heads_that_do_not_divide_are_named() -> None:
    x = torch.zeros(1, 4, 4, 2)
    with pytest.raises(
        ValueError, match="gives each of its 3 ranks the same number of heads and a rank has 4"
    ):
        ContextParallel(None, 3, "ulysses").heads_for_tokens(x)  # type: ignore[arg-type]
