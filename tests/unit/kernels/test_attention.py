"""torch_npu.npu_fusion_attention against softmax attention worked out in float64, in every layout and sparse mode."""

import math

import pytest
import torch
import torch_npu

TOLERANCE = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
DTYPES = list(TOLERANCE)


def reference(q, k, v, visible, scale, pse=None):
    """Attention of [B, N, Sq, D] on [B, Nkv, Skv, D] in float64; `visible` is bool, broadcast to [B, N, Sq, Skv]."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2)
    scores = scale * (scores if pse is None else scores + pse)
    scores = scores.masked_fill(~visible, -math.inf)
    probabilities = torch.softmax(scores, dim=-1).nan_to_num(0.0)  # a row that sees nothing gives zeros
    return probabilities @ v


def to_layout(x, layout):
    if layout == "BNSD":
        return x
    x = x.transpose(1, 2)
    if layout == "BSND":
        return x
    x = x.flatten(2)
    return x if layout == "BSH" else x.transpose(0, 1)


def from_layout(x, layout, heads):
    if layout == "BNSD":
        return x
    if layout == "SBH":
        x = x.transpose(0, 1)
    if layout in ("BSH", "SBH"):
        x = x.unflatten(2, (heads, -1))
    return x.transpose(1, 2)


def triangle():
    return torch.triu(torch.ones(2048, 2048, dtype=torch.bool), diagonal=1).npu()


def visibility(mode, sq, skv, pre=1 << 30, following=1 << 30, prefix=0):
    row, column = torch.arange(sq)[:, None], torch.arange(skv)[None, :]
    right_down = row + skv - sq
    return {
        "full": torch.ones(sq, skv, dtype=torch.bool),
        2: column <= row,
        3: column <= right_down,
        4: (column >= right_down - pre) & (column <= right_down + following),
        6: (column <= right_down) | (column < prefix),
    }[mode]


def random_qkv(batch, heads, kv_heads, sq, skv, d, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, heads, sq, d), (batch, kv_heads, skv, d), (batch, kv_heads, skv, d)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def check(actual, expected, dtype):
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def run_and_check(q, k, v, layout, visible, dtype, **options):
    """Forward and backward on the NPU in `layout`, against the float64 reference on the same (rounded) inputs."""
    heads, kv_heads, scale = q.shape[1], k.shape[1], options.setdefault("scale", 0.2)
    pse = options.get("pse")
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    expected = reference(*wide, visible, scale, None if pse is None else pse.double())
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9)).to(dtype)
    expected.backward(grad.double())
    if pse is not None:
        options["pse"] = pse.npu()
    inputs = [to_layout(x, layout).npu().requires_grad_() for x in (q, k, v)]
    out = torch_npu.npu_fusion_attention(*inputs, heads, layout, **options)[0]
    out.backward(to_layout(grad, layout).npu())
    check(from_layout(out.detach(), layout, heads), expected.detach(), dtype)
    for got, want, count in zip(inputs, wide, (heads, kv_heads, kv_heads), strict=True):
        check(from_layout(got.grad, layout, count), want.grad, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_full_attention(layout, kv_heads, dtype):
    q, k, v = random_qkv(2, 4, kv_heads, 7, 9, 16, dtype)
    run_and_check(q, k, v, layout, visibility("full", 7, 9), dtype)


@pytest.mark.parametrize("sq, skv", [(9, 9), (5, 12), (130, 130), (140, 600)])
@pytest.mark.parametrize("mode", [2, 3, 4, 6])
def test_compressed_sparse_modes(mode, sq, skv):
    q, k, v = random_qkv(1, 4, 2, sq, skv, 16, torch.float32)
    visible = visibility(mode, sq, skv, pre=3, following=1, prefix=8)
    options = {"pre_tockens": 3, "next_tockens": 1} if mode == 4 else {}
    mask = triangle()
    if mode == 6:
        options["prefix"] = [8]
        mask = torch.cat([mask, torch.ones(1024, 2048, dtype=torch.bool, device="npu")])
    run_and_check(q, k, v, "BNSD", visible, torch.float32, sparse_mode=mode, atten_mask=mask, **options)


@pytest.mark.parametrize(
    "shape", [(6, 8), (1, 1, 6, 8), (2, 1, 6, 8), (2, 4, 6, 8), (2, 4, 1, 8), (2, 1, 1, 8)]
)
@pytest.mark.parametrize("mode", [0, 1])
def test_masks_broadcast_as_in_sdpa(mode, shape):
    q, k, v = random_qkv(2, 4, 4, 6, 8, 16, torch.float32)
    hidden = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.4
    hidden[..., 0] = False
    visible = ~hidden.expand(2, 4, 6, 8)
    run_and_check(q, k, v, "BNSD", visible, torch.float32, sparse_mode=mode, atten_mask=hidden.npu())


def test_a_row_that_sees_nothing_gives_zeros_and_no_gradient():
    q, k, v = random_qkv(1, 2, 2, 4, 4, 16, torch.float32)
    hidden = torch.zeros(4, 4, dtype=torch.bool)
    hidden[2] = True
    run_and_check(q, k, v, "BNSD", ~hidden, torch.float32, sparse_mode=1, atten_mask=hidden.npu())


def test_position_shift_is_added_before_scaling():
    q, k, v = random_qkv(2, 2, 2, 5, 6, 16, torch.float32)
    pse = torch.randn(2, 2, 5, 6, generator=torch.Generator().manual_seed(5))
    run_and_check(q, k, v, "BNSD", visibility("full", 5, 6), torch.float32, pse=pse)


def packed_reference(q, k, v, lengths, visible_of, scale):
    """Attention of [T, N, D] tensors, each sequence on its own."""
    parts = []
    for piece in zip(*(x.split(lengths) for x in (q, k, v)), strict=True):
        piece = [x.transpose(0, 1).unsqueeze(0) for x in piece]
        size = piece[0].shape[2]
        parts.append(reference(*piece, visible_of(size), scale)[0].transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(5, 7), (1, 130, 1, 300), (3, 0, 4)])
@pytest.mark.parametrize("kv_heads", [3, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_attend_within_themselves(causal, kv_heads, lengths, dtype):
    total, scale = sum(lengths), 0.25
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(total, n, 16, generator=generator).to(dtype) for n in (3, kv_heads, kv_heads))
    ends = torch.tensor(lengths).cumsum(0).tolist()
    options = {"sparse_mode": 3, "atten_mask": triangle()} if causal else {}
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    expected = packed_reference(*wide, lengths, lambda n: visibility(3 if causal else "full", n, n), scale)
    grad = torch.randn(expected.shape, generator=generator).to(dtype)
    expected.backward(grad.double())
    inputs = [x.npu().requires_grad_() for x in (q, k, v)]
    out = torch_npu.npu_fusion_attention(
        *inputs, 3, "TND", scale=scale, actual_seq_qlen=ends, actual_seq_kvlen=ends, **options
    )[0]
    out.backward(grad.npu())
    check(out.detach(), expected.detach(), dtype)
    for got, want in zip(inputs, wide, strict=True):
        check(got.grad, want.grad, dtype)


def test_softmax_statistics_are_the_rows_max_and_sum():
    q, k, v = random_qkv(2, 3, 3, 4, 600, 16, torch.float32)
    _, row_max, row_sum, *_ = torch_npu.npu_fusion_attention(
        *(x.npu() for x in (q, k, v)), 3, "BNSD", scale=0.3
    )
    scores = 0.3 * q.double() @ k.double().transpose(-1, -2)
    highest = scores.amax(-1, keepdim=True)
    check(row_max, highest.expand(2, 3, 4, 8), torch.float32)
    check(row_sum, (scores - highest).exp().sum(-1, keepdim=True).expand(2, 3, 4, 8), torch.float32)


def test_dropout_keeps_the_expected_share_and_scales_it():
    q, k, v = random_qkv(1, 4, 4, 64, 256, 16, torch.float32)
    v = torch.ones_like(v)  # then the output is the sum of the kept, scaled probabilities: 1 on average
    torch.npu.manual_seed(0)
    out = torch_npu.npu_fusion_attention(*(x.npu() for x in (0 * q, k, v)), 4, "BNSD", keep_prob=0.75)[
        0
    ].cpu()
    kept = out[..., 0] * 0.75 * 256  # uniform probabilities of 1/256, scaled by 1/0.75
    assert torch.allclose(kept, kept.round(), atol=1e-2)
    assert abs(kept.mean().item() - 192) < 1.5  # binomial: sd of the mean over 256 rows is 0.43


@pytest.mark.parametrize(
    "options, names",
    [
        ({"sparse_mode": 2, "atten_mask": torch.ones(8, 8, dtype=torch.bool)}, "2048"),
        ({"sparse_mode": 3, "atten_mask": torch.tril(torch.ones(2048, 2048, dtype=torch.bool))}, "triu"),
    ],
)
@pytest.mark.usefixtures("device_that_fails")
def test_a_wrong_mask_is_refused(options, names):
    q, k, v = (x.npu() for x in random_qkv(1, 2, 2, 8, 8, 16, torch.float32))
    options = {name: value.npu() if torch.is_tensor(value) else value for name, value in options.items()}
    with pytest.raises(RuntimeError, match=names):
        torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", **options)
        torch.npu.synchronize()


def test_the_process_default_dtype_does_not_reach_the_kernel():
    q, k, v = torch.randn(3, 1, 2, 40, 8)
    hidden = torch.triu(torch.ones(2048, 2048, dtype=torch.bool), 1)
    visible = torch.ones(40, 40, dtype=torch.bool).tril()
    expected = reference(q.double(), k.double(), v.double(), visible, 0.5)
    on_npu = [x.npu() for x in (q, k, v, hidden)]
    torch.set_default_dtype(torch.bfloat16)
    try:
        out = torch_npu.npu_fusion_attention(
            *on_npu[:3], 2, "BNSD", atten_mask=on_npu[3], scale=0.5, sparse_mode=2
        )[0]
        torch.npu.synchronize()
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(out.cpu().double(), expected, atol=1e-5, rtol=1e-5)
