"""GE's attention, rotary embeddings and gated activations, against torch in float64."""

import math

import pytest
import torch
from torch.nn import functional as F

from .rows import FLOATS, Case, attribute, check, equal, grads, ints, leaf, sample


def attention(q, k, v, scale, mask=None):
    group = q.shape[1] // k.shape[1]
    k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * scale
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    return scores.softmax(-1) @ v, scores


def test_training_attention_and_its_gradient(door):
    q, k, v = (torch.randn(2, heads, 6, 8) for heads in (4, 2, 2))
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    leaves = [leaf(x) for x in (q, k, v)]
    y, scores = attention(*leaves, 0.3, mask)
    top = scores.max(-1).values.detach()
    total = (scores - top.unsqueeze(-1)).exp().sum(-1)
    lanes = [x.detach().float().unsqueeze(-1).expand(2, 4, 6, 8).contiguous() for x in (top, total)]
    options = {"scale_value": 0.3, "keep_prob": 1.0, "head_num": 4, "input_layout": "BNSD", "sparse_mode": 0,
               "pre_tockens": 2147483647, "next_tockens": 2147483647, "inner_precise": 0}  # fmt: skip
    zero = ints(0)
    absent = [None] * 3
    inputs = [q, k, v, *absent, mask, None, None, None, zero, zero]
    out = y.detach().float()
    check(door, Case("FlashAttentionScore", inputs, [*lanes, torch.zeros(0), out], options))
    dy = torch.randn_like(out)
    dq, dk, dv = grads(y, dy, *leaves)
    inputs = [q, k, v, dy, *absent, mask, *lanes, None, out]
    nothing = torch.zeros(0)
    check(
        door,
        Case(
            "FlashAttentionScoreGrad", inputs, [dq, dk, dv, nothing, nothing, nothing, nothing], options, 1e-4
        ),
    )


LAYOUTS = {
    "BNSD": lambda x: x,
    "BSND": lambda x: x.transpose(1, 2).contiguous(),
    "BSH": lambda x: x.transpose(1, 2).flatten(2).contiguous(),
}


@pytest.mark.parametrize("layout", [*LAYOUTS, "BNSD_BSND"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_inference_attention(door, layout, dtype):
    q, k, v = (sample((2, heads, 5, 8), -1, 1, dtype) for heads in (4, 2, 2))
    options = {"num_heads": 4, "scale_value": 0.3, "pre_tokens": 2147483647, "next_tokens": 2147483647,
               "input_layout": layout, "num_key_value_heads": 2, "sparse_mode": 0, "inner_precise": 1}  # fmt: skip
    before, _, after = layout.partition("_")
    turn, back = LAYOUTS[before], LAYOUTS[after or before]
    inputs = [turn(x) for x in (q, k, v)]
    want, _ = attention(q, k, v, 0.3)
    check(door, Case("PromptFlashAttention", inputs, [back(want).to(dtype)], options))
    mask = torch.rand(2, 1, 5, 5) < 0.4
    mask[..., 0] = False
    want, _ = attention(q, k, v, 0.3, mask)
    check(door, Case("PromptFlashAttention", [*inputs, None, mask], [back(want).to(dtype)], options))
    # The second entry has three queries and two keys; the rest of it is 0.
    first, _ = attention(q[:1], k[:1], v[:1], 0.3)
    second, _ = attention(q[1:, :, :3], k[1:, :, :2], v[1:, :, :2], 0.3)
    want = torch.cat([first, F.pad(second, [0, 0, 0, 2])])
    lengths = [None, None, ints(5, 3), ints(5, 2)]
    check(door, Case("PromptFlashAttention", [*inputs, *lengths], [back(want).to(dtype)], options))


def padded_to(count, *inputs):
    return [*inputs, *[None] * (count - len(inputs))]


FUSED = {"num_heads": 4, "scale": 0.3, "pre_tokens": 2147483647, "next_tokens": 2147483647,
         "num_key_value_heads": 2, "sparse_mode": 0, "inner_precise": 0, "block_size": 0,
         "antiquant_mode": 0, "softmax_lse_flag": False, "key_antiquant_mode": 0, "value_antiquant_mode": 0,
         "query_quant_mode": 0, "pse_type": 0, "out_dtype": 0}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_against_a_cache(door, layout):
    q, k, v = torch.randn(2, 4, 1, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    turn = LAYOUTS[layout]
    inputs = [turn(x) for x in (q, k, v)]
    lengths = ints(6, 3)
    parts = [
        attention(q[i : i + 1], k[i : i + 1, :, :n], v[i : i + 1, :, :n], 0.3) for i, n in enumerate((6, 3))
    ]
    want = turn(torch.cat([part[0] for part in parts])).float()
    lse = torch.cat([scores.logsumexp(-1, keepdim=True) for _, scores in parts]).float()
    options = {**FUSED, "input_layout": layout}
    fused = padded_to(31, *inputs, None, None, None, lengths)
    check(door, Case("FusedInferAttentionScore", fused, [want, lse], {**options, "softmax_lse_flag": True}))
    check(door, Case("FusedInferAttentionScore", fused, [want, torch.zeros(1)], options))
    step = {"num_heads": 4, "scale_value": 0.3, "input_layout": layout, "num_key_value_heads": 2,
            "block_size": 0, "inner_precise": 1}  # fmt: skip
    check(door, Case("IncreFlashAttention", padded_to(15, *inputs, None, None, lengths), [want], step))
    mask = torch.arange(6) >= lengths.view(2, 1)
    masked = padded_to(15, *inputs, None, mask)
    check(door, Case("IncreFlashAttention", masked, [want], step))


def test_a_causal_prompt_by_the_compressed_mask(door):
    q, k, v = (torch.randn(1, heads, 5, 8) for heads in (4, 2, 2))
    triangle = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    want, _ = attention(q, k, v, 0.3, torch.ones(5, 5, dtype=torch.bool).triu(1))
    inputs = padded_to(31, q, k, v, None, triangle)
    options = {**FUSED, "input_layout": "BNSD", "sparse_mode": 3}
    check(door, Case("FusedInferAttentionScore", inputs, [want.float(), torch.zeros(1)], options))


@pytest.mark.parametrize("dims", [3, 4])
def test_a_cache_in_pages(door, dims):
    q, k, v = torch.randn(2, 4, 1, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    table, lengths = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32), ints(6, 3)

    def pages(x):  # (pages, heads, 4 tokens, size), or without the heads' dimension
        out = torch.zeros(4, 2, 4, 8)
        for entry, row in enumerate(table.tolist()):
            for number, page in enumerate(row):
                tokens = x[entry, :, 4 * number : 4 * number + 4]
                out[page, :, : tokens.shape[1]] = tokens
        return out if dims == 4 else out.transpose(1, 2).flatten(2).contiguous()

    parts = [
        attention(q[i : i + 1], k[i : i + 1, :, :n], v[i : i + 1, :, :n], 0.3)[0]
        for i, n in enumerate((6, 3))
    ]
    inputs = [q, pages(k), pages(v), *[None] * 3, lengths, *[None] * 7, table]
    options = {**FUSED, "input_layout": "BNSD", "block_size": 4}
    want = torch.cat(parts).float()
    check(door, Case("FusedInferAttentionScore", padded_to(31, *inputs), [want, torch.zeros(1)], options))


# --- rotary embeddings and gated activations ---


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rotary_embeddings(door, dtype):
    x, cos, sin = (
        sample((2, 3, 4, 8), -1, 1, dtype),
        sample((1, 1, 4, 8), -1, 1, dtype),
        sample((1, 1, 4, 8), -1, 1, dtype),
    )
    dy = sample((2, 3, 4, 8), -1, 1, dtype)
    a, c, s = leaf(x), leaf(cos), leaf(sin)
    y = rotate(a, c, s)
    out = y.detach().to(dtype)
    check(door, Case("RotaryMul", [x, cos, sin], [out]))
    check(door, Case("RotaryPositionEmbedding", [x, cos, sin], [out], {"mode": 0}))
    want = [g.to(dtype) for g in grads(y, dy, a, c, s)]
    check(door, Case("RotaryMulGrad", [x, cos, sin, dy], want))
    check(door, Case("RotaryPositionEmbeddingGrad", [dy, cos, sin, x], want, {"mode": 0}))


def test_rotary_embeddings_of_query_and_key_are_in_place(door):
    q, k, cos, sin = (
        torch.randn(2, 4, 3, 8),
        torch.randn(2, 4, 1, 8),
        torch.randn(2, 4, 1, 8),
        torch.randn(2, 4, 1, 8),
    )
    device = [t.npu() for t in (q, k, cos, sin)]
    options = [attribute("layout", 1), attribute("rotary_mode", "half")]
    assert door("ApplyRotaryPosEmb", device, device[:2], options) == 0
    equal(device[0].cpu(), rotate(q.double(), cos, sin).float())
    equal(device[1].cpu(), rotate(k.double(), cos, sin).float())


def test_gated_activations(door):
    x, dy = torch.randn(3, 8), torch.randn(3, 4)
    first, second = x.double().chunk(2, -1)
    gelu = F.gelu(second, approximate="tanh")
    options = {"dim": -1, "approximate": 1, "activate_left": False}
    check(door, Case("GeGluV2", [x], [(first * gelu).float(), gelu.float()], options))
    a = leaf(x)
    check(door, Case("GLUGrad", [dy, x], grads(F.glu(a), dy, a), {"dim": -1}))
    a = leaf(x)
    left, right = a.chunk(2, -1)
    y = F.silu(left) * right
    check(door, Case("SwiGlu", [x], [y.detach().float()], {"dim": -1}))
    check(door, Case("SwiGluGrad", [dy, x], grads(y, dy, a), {"dim": -1}))
