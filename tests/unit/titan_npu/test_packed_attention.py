"""Packed attention on the NPU: within documents only, and right."""

from __future__ import annotations

import itertools

import pytest
import torch
from torchtitan.models.common.attention import VarlenAttention

from titan_npu.overrides.packed_attention import (
    PackedAttention,
    document_ends,
    fused_packed_attention,
    host_metadata,
    packed_attention,
)

ROWS, LENGTH, HEADS, KV_HEADS, HEAD_DIM = 2, 96, 4, 2, 16
STARTS = ((0, 1, 37, 40), (0, 64))  # documents of 1, 36, 3, 56 and of 64, 32 tokens


def positions() -> torch.Tensor:
    """int64 [ROWS, LENGTH], 0 where a document starts."""
    rows = []
    for starts in STARTS:
        ends = (*starts[1:], LENGTH)
        rows.append(torch.cat([torch.arange(end - start) for start, end in zip(starts, ends, strict=True)]))
    return torch.stack(rows)


def documents() -> torch.Tensor:
    """int64 [ROWS * LENGTH]: the number of each token's document."""
    return (positions().flatten() == 0).cumsum(0)


def projections(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(ROWS, LENGTH, heads, HEAD_DIM) for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS)]
    return tuple(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **settings: object) -> torch.Tensor:
    return PackedAttention.Config(**settings).build()(
        q, k, v, attention_masks=host_metadata(positions().to(q.device))
    )


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """The same by PyTorch on the CPU: all tokens in one row under the mask ``allowed`` [T, T]."""
    q, k, v = (x.reshape(1, ROWS * LENGTH, -1, HEAD_DIM).transpose(1, 2) for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=True)
    return out.transpose(1, 2).reshape(ROWS, LENGTH, HEADS, HEAD_DIM)


def block_causal(left: int | None = None) -> torch.Tensor:
    token = torch.arange(ROWS * LENGTH)
    allowed = (documents()[:, None] == documents()) & (token[:, None] >= token)
    return allowed if left is None else allowed & (token[:, None] - token <= left)


@pytest.mark.parametrize("left", [None, 5])
def test_values_and_gradients_against_float64(left: int | None, npu: torch.device) -> None:
    q, k, v, g = projections()
    expected_in = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = sdpa(*expected_in, block_causal(left))
    expected.backward(g)
    actual_in = [x.float().to(npu).requires_grad_() for x in (q, k, v)]
    actual = forward(*actual_in, **({} if left is None else {"window_size": (left, 0)}))
    actual.backward(g.float().to(npu))
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(actual_in, expected_in, strict=True):
        torch.testing.assert_close(ours.grad.cpu().double(), theirs.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("changed", range(1, sum(map(len, STARTS)) + 1))
def test_no_token_attends_across_a_document(changed: int, dtype: torch.dtype, npu: torch.device) -> None:
    """Another text in one document leaves the outputs and gradients of all others as they are, to the bit."""
    inside = (documents() == changed).view(ROWS, LENGTH)

    def run(disturb: bool) -> list[torch.Tensor]:
        q, k, v, g = projections(dtype)
        if disturb:
            for x in (q, k, v, g):
                x[inside] = -3 * x[inside] + 1
        inputs = [x.to(npu).requires_grad_() for x in (q, k, v)]
        out = forward(*inputs)
        out.backward(g.to(npu))
        return [out.detach().cpu(), *(x.grad.cpu() for x in inputs)]

    undisturbed, disturbed = run(False), run(True)
    for before, after in zip(undisturbed, disturbed, strict=True):
        assert torch.equal(before[~inside], after[~inside])
    assert not torch.equal(undisturbed[0][inside], disturbed[0][inside])


def test_dtype_is_kept(npu: torch.device) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        q, k, v, _ = (x.to(npu) for x in projections(dtype))
        assert forward(q, k, v).dtype == dtype


class TestMetadata:
    def test_rows_start_documents(self) -> None:
        metadata = host_metadata(positions())
        offsets = [0, 1, 37, 40, 96, 160, 192]
        assert list(metadata.cu_seq_q_host) == metadata.cu_seq_q.tolist() == offsets
        assert metadata.max_q == max(end - start for start, end in itertools.pairwise(offsets))
        cut = positions()
        cut[1] += 5  # a row that begins inside a document
        assert host_metadata(cut).cu_seq_q_host[4] == 96

    def test_lengths_that_do_not_cover_the_batch(self) -> None:
        with pytest.raises(ValueError, match="tokens 0 to 192 of a batch of 200"):
            document_ends(host_metadata(positions()), 200)

    def test_without_a_host_copy(self) -> None:
        metadata = host_metadata(positions())._replace(cu_seq_q_host=None)
        assert document_ends(metadata, 192) == [1, 37, 40, 96, 160, 192]


class TestRefusals:
    def test_no_document_lengths(self) -> None:
        q, k, v, _ = projections(torch.float32)
        with pytest.raises(TypeError, match="attend across documents"):
            PackedAttention.Config().build()(q, k, v, attention_masks=None)

    def test_dtypes(self) -> None:
        q, k, v, _ = projections()
        with pytest.raises(TypeError, match="float64"):
            forward(q, k, v)
        with pytest.raises(TypeError, match="one dtype"):
            forward(q.float(), k.half(), v.half())

    def test_out_transform(self) -> None:
        q, k, v, _ = projections(torch.float32)
        with pytest.raises(NotImplementedError, match="out_transform"):
            PackedAttention.Config().build()(
                q, k, v, attention_masks=host_metadata(positions()), out_transform=lambda out, lse: out
            )


def test_override_keeps_the_config() -> None:
    made = packed_attention(VarlenAttention.Config(window_size=(7, 0)))
    assert isinstance(made, PackedAttention.Config) and made.window_size == (7, 0)


def test_no_mask_at_all_sees_everything_in_the_document(npu: torch.device) -> None:
    q, k, v, _ = projections()
    flat = [x.flatten(0, 1).float().to(npu) for x in (q, k, v)]
    ends = [1, 37, 40, 96, 160, 192]
    out = fused_packed_attention(*flat, ends, scale=HEAD_DIM**-0.5, window_size=(-1, -1))
    expected = sdpa(q, k, v, documents()[:, None] == documents())
    torch.testing.assert_close(out.cpu().double().view_as(expected), expected, rtol=1e-5, atol=1e-5)
