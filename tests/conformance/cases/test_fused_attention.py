"""torch_npu.npu_fusion_attention in every layout, mask mode and head grouping, forward and backward.

Case attention-packed-no-mask, and its kind. The reference is softmax(q k^T / sqrt(d)) v in double
precision, sequence by sequence; what may attend to what follows the operator's documentation (sparse_mode).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pytest
import torch
import torch_npu

WIDTH = 16
Sequences = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]  # (q, k, v) of each, [tokens, heads, width]
Lengths = tuple[tuple[int, int], ...]  # (queries, keys) of each sequence

FLOATS = [(torch.float32, 1e-5), (torch.float16, 3e-3), (torch.bfloat16, 2e-2)]
TYPE_NAMES = ["float32", "float16", "bfloat16"]
HEADS = [(3, 3), (4, 2), (4, 1)]  # of queries, of keys and values


@dataclass(frozen=True)
class Mask:
    """A mask mode: its number, its band (before, after), and whether the mask tensor has the shape of the
    scores.
    """

    mode: int
    before: int = 2147483647
    after: int = 2147483647
    whole: bool = False

    def keeps(self, queries: int, keys: int) -> torch.Tensor:
        """Which key each query may attend to, [queries, keys]."""
        query, key = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
        shift = keys - queries  # modes 3 and 4 count from the lower right corner
        match self.mode:
            case 0 if self.whole:
                return (key - query <= self.after) & (query - key <= self.before)
            case 1:
                return (3 * query + 5 * key) % 4 != 1  # any pattern: the mask alone decides
            case 2:
                return key <= query
            case 3:
                return key <= query + shift
            case 4:
                return (key - query - shift <= self.after) & (query + shift - key <= self.before)
        return torch.ones(queries, keys, dtype=torch.bool)

    def tensor(self, queries: int, keys: int) -> torch.Tensor | None:
        """The atten_mask that the operator wants for it (true: does not attend)."""
        if self.whole:
            return ~self.keeps(queries, keys)
        return torch.triu(torch.ones(2048, 2048, dtype=torch.bool), 1) if self.mode >= 2 else None


MASKS = {
    "no mask": Mask(0),
    "causal, whole mask": Mask(0, after=0, whole=True),
    "band, whole mask": Mask(0, before=3, after=2, whole=True),
    "any mask": Mask(1, whole=True),
    "causal from the upper left": Mask(2),
    "causal from the lower right": Mask(3),
    "band": Mask(4, before=3, after=1),
}


def _sequences(lengths: Lengths, heads: tuple[int, int], dtype: torch.dtype) -> Sequences:
    source = torch.Generator().manual_seed(11)

    def draw(tokens: int, count: int) -> torch.Tensor:
        return torch.randn(tokens, count, WIDTH, generator=source).to(dtype)

    return [(draw(q, heads[0]), draw(k, heads[1]), draw(k, heads[1])) for q, k in lengths]


def _reference(sequences: Sequences, mask: Mask) -> list[torch.Tensor]:
    results = []
    for q, k, v in sequences:
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("qnd,knd->nqk", q, k) / math.sqrt(WIDTH)
        scores = scores.masked_fill(~mask.keeps(q.shape[0], k.shape[0]), -math.inf)
        results.append(torch.einsum("nqk,knd->qnd", scores.softmax(-1), v))
    return results


def _pack(parts: list[torch.Tensor], layout: str) -> torch.Tensor:
    """Sequences, [tokens, heads, width] each, as one operand in a layout."""
    if layout == "TND":
        return torch.cat(parts)
    batch = torch.stack(parts)  # BSND
    match layout:
        case "BSH":
            return batch.flatten(2)
        case "SBH":
            return batch.flatten(2).transpose(0, 1).contiguous()
        case "BNSD":
            return batch.transpose(1, 2).contiguous()
    return batch


def _attention(
    sequences: Sequences, mask: Mask, layout: str, device: torch.device
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The operator's result, and the operands it was called with (which require gradients)."""
    operands = [_pack([s[i] for s in sequences], layout).to(device).requires_grad_() for i in range(3)]
    queries, keys = [s[0].shape[0] for s in sequences], [s[1].shape[0] for s in sequences]
    tensor = mask.tensor(max(queries), max(keys))
    packed = layout == "TND"
    result = torch_npu.npu_fusion_attention(
        *operands,
        sequences[0][0].shape[1],
        layout,
        atten_mask=None if tensor is None else tensor.to(device),
        scale=1 / math.sqrt(WIDTH),
        pre_tockens=mask.before,
        next_tockens=mask.after,
        actual_seq_qlen=list(accumulate(queries)) if packed else None,
        actual_seq_kvlen=list(accumulate(keys)) if packed else None,
        sparse_mode=mask.mode,
    )
    return result[0], operands


def _check(sequences: Sequences, mask: Mask, layout: str, device: torch.device, tolerance: float) -> None:
    """Result and gradients against the reference."""
    double = [
        (q.double().requires_grad_(), k.double().requires_grad_(), v.double().requires_grad_())
        for q, k, v in sequences
    ]
    expected = _reference(double, mask)
    upstream = [torch.linspace(-1, 1, e.numel()).reshape(e.shape).to(sequences[0][0].dtype) for e in expected]
    result, operands = _attention(sequences, mask, layout, device)
    torch.testing.assert_close(
        result.cpu().double(), _pack([e.detach() for e in expected], layout), rtol=tolerance, atol=tolerance
    )
    leaves = [t for s in double for t in s]
    reference = torch.autograd.grad(expected, leaves, [u.double() for u in upstream])
    gradients = torch.autograd.grad(result, operands, _pack(upstream, layout).to(device))
    for i, gradient in enumerate(gradients):
        wanted = _pack(list(reference[i::3]), layout)
        scale = wanted.abs().max().clamp(min=1.0).item()
        torch.testing.assert_close(
            gradient.cpu().double(), wanted, rtol=4 * tolerance, atol=4 * tolerance * scale
        )


@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS, ids=TYPE_NAMES)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD", "TND"])
def test_batches_of_equal_lengths(
    npu: torch.device, layout: str, name: str, heads: tuple[int, int], dtype: torch.dtype, tolerance: float
) -> None:
    for lengths in ((9, 9), (7, 9)):
        _check(_sequences((lengths, lengths), heads, dtype), MASKS[name], layout, npu, tolerance)


PACKED: dict[str, Lengths] = {
    "the case itself": ((5, 5), (7, 7)),
    "one token": ((1, 1), (4, 4), (1, 1)),
    "fewer queries than keys": ((3, 6), (5, 9)),
    "a sequence without tokens": ((4, 4), (0, 0), (3, 3)),
    "beyond a tile": ((130, 130), (3, 3), (257, 257)),
}


@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS, ids=TYPE_NAMES)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize(
    "name", ["no mask", "causal from the lower right", "causal from the upper left", "band"]
)
@pytest.mark.parametrize("lengths", PACKED)
def test_packed_sequences(
    npu: torch.device, lengths: str, name: str, heads: tuple[int, int], dtype: torch.dtype, tolerance: float
) -> None:
    _check(_sequences(PACKED[lengths], heads, dtype), MASKS[name], "TND", npu, tolerance)


def test_it_is_not_a_uniform_average(npu: torch.device) -> None:
    sequences = _sequences(PACKED["the case itself"], (3, 3), torch.float32)
    result, _ = _attention(sequences, MASKS["no mask"], "TND", npu)
    uniform = torch.cat([v.mean(0).expand(q.shape[0], -1, -1) for q, _, v in sequences])
    assert (result.cpu() - uniform).abs().max() > 0.1


def test_no_token_attends_across_sequences(npu: torch.device) -> None:
    lengths = ((5, 5), (7, 7), (4, 4))
    sequences = _sequences(lengths, (4, 2), torch.float32)
    causal = MASKS["causal from the lower right"]
    before, _ = _attention(sequences, causal, "TND", npu)
    bounds = [0, *accumulate(q for q, _ in lengths)]
    for changed, (q, k, v) in enumerate(sequences):
        other = [(q + 3, k + 3, v + 3) if i == changed else s for i, s in enumerate(sequences)]
        after, _ = _attention(other, causal, "TND", npu)
        for i, (start, end) in enumerate(pairwise(bounds)):
            same = torch.equal(before[start:end].cpu(), after[start:end].cpu())
            assert same == (i != changed), f"sequence {i} after a change of sequence {changed}"


@pytest.mark.parametrize("shape", ["SS", "11SS", "B1SS", "BNSS"])
@pytest.mark.parametrize("kind", [torch.bool, torch.uint8], ids=str)
def test_shapes_and_types_of_a_whole_mask(npu: torch.device, shape: str, kind: torch.dtype) -> None:
    sequences = _sequences(((6, 8), (6, 8)), (3, 3), torch.float32)
    mask = MASKS["any mask"]
    q, k, v = (_pack([s[i] for s in sequences], "BNSD").to(npu) for i in range(3))
    hidden = ~mask.keeps(6, 8)
    if shape != "SS":
        hidden = hidden.expand(1 if shape == "11SS" else 2, 3 if shape == "BNSS" else 1, 6, 8)
    hidden = hidden.to(kind).contiguous().to(npu)
    result = torch_npu.npu_fusion_attention(
        q, k, v, 3, "BNSD", atten_mask=hidden, scale=1 / math.sqrt(WIDTH), sparse_mode=1
    )[0]
    expected = _pack(_reference(sequences, mask), "BNSD")
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-5)
