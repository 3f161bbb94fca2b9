"""Matrix products, norms, attention, losses, vision."""

from __future__ import annotations

import math

import numpy as np

from tests.conformance.ge_ops.case import FLOATS, Op, X
from tests.conformance.ge_ops.indexing import ids
from tests.conformance.ge_ops.movement import op
from tests.conformance.ge_ops.pointwise import gelu, gelu_tanh, sigmoid

MATS = [((2, 3), (3, 4)), ((1, 5), (5, 1)), ((4, 1), (1, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]
BATCHES = [
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (1, 5, 4, 2)),
    ((1, 2, 3), (4, 3, 2)),
    ((0, 2, 3), (0, 3, 2)),
]


CONV = {"data_format": "NCHW", "dilations": [1, 1, 1, 1]}
HEADS = (2, 2, 8, 16)  # batch, heads, length, size
FLASH = {"head_num": 2, "input_layout": "BNSD", "scale_value": 0.5}
CAUSAL = np.triu(np.ones((8, 8), bool), 1)


def turned(shape):
    return (*shape[:-2], shape[-1], shape[-2])


def swap(x):
    return np.swapaxes(x, -1, -2)


def products(type, shapes, first, second, bias=False):
    rows = []
    for a, b in shapes:
        for ta, tb in ((False, False), (False, True), (True, False), (True, True)):
            inputs = [X(turned(a) if ta else a), X(turned(b) if tb else b)]
            rows.append(
                (
                    inputs,
                    lambda x, y, ta=ta, tb=tb: (swap(x) if ta else x) @ (swap(y) if tb else y),
                    {first: ta, second: tb},
                )
            )
    if bias:
        rows += [([X(a), X(b), X((b[1],))], lambda x, y, c: x @ y + c) for a, b in shapes if 0 not in a]
    return op(type, FLOATS, *rows, loose=4)


def layer_norm(x, gamma, beta, axes, eps=1e-5):
    mean = x.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(x.var(axes, keepdims=True) + eps)
    return [(x - mean) * rstd * gamma + beta, mean, rstd]


def rms_norm(x, gamma, eps=1e-6):
    rstd = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return [x * rstd * gamma, rstd]


def rms_norm_grad(dy, x, rstd, gamma):
    n, g = x * rstd, dy * gamma
    return [rstd * (g - n * (g * n).mean(-1, keepdims=True)), (dy * n).reshape(-1, x.shape[-1]).sum(0)]


def layer_norm_grad(dy, x, rstd, mean, gamma):
    n, g = (x - mean) * rstd, dy * gamma
    dx = rstd * (g - g.mean(-1, keepdims=True) - n * (g * n).mean(-1, keepdims=True))
    return [dx, (dy * n).reshape(-1, x.shape[-1]).sum(0), dy.reshape(-1, x.shape[-1]).sum(0)]


def halves(x, axis=-1):
    return np.split(x, 2, axis)


def rotate(x, r1, r2):
    a, b = halves(x)
    return x * r1 + np.concatenate([-b, a], -1) * r2


def rotate_grad(x, r1, r2, dy):
    a, b = halves(dy * r2)
    xa, xb = halves(x)
    over = tuple(i for i in range(4) if r1.shape[i] != x.shape[i])
    return [
        dy * r1 + np.concatenate([b, -a], -1),
        (dy * x).sum(over, keepdims=True),
        (dy * np.concatenate([-xb, xa], -1)).sum(over, keepdims=True),
    ]


def swiglu(x, axis=-1):
    a, b = halves(x, axis)
    return a * sigmoid(a) * b


def swiglu_grad(g, x, axis=-1):
    a, b = halves(x, axis)
    s = sigmoid(a)
    return np.concatenate([g * b * s * (1 + a * (1 - s)), g * a * s], axis)


def geglu(x, approximate):
    a, b = halves(x)
    activated = (gelu_tanh if approximate else gelu)(b)
    return [a * activated, activated]


def attention(q, k, v, scale, mask=None):
    scores = q @ swap(k) * scale
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def flash(q, k, v, scale=0.5, mask=None):
    return [None, None, None, attention(q, k, v, scale, mask)]


def flash_backward() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """q, k, v, dy, the softmax's maxima and sums (eight times each, as CANN keeps them), the output; dq, dk, dv."""
    random, scale = np.random.default_rng(3), 0.5
    q, k, v, dy = (random.standard_normal(HEADS) for _ in range(4))
    scores = q @ swap(k) * scale
    top = scores.max(-1, keepdims=True)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    p = np.exp(scores - top) / total
    dp = dy @ swap(v)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    given = [q, k, v, dy, np.repeat(top, 8, -1), np.repeat(total, 8, -1), p @ v]
    return [g.astype(np.float32) for g in given], [ds @ k * scale, swap(ds) @ q * scale, swap(p) @ dy]


def nll(x, target, weight, reduction):
    w = weight[target]
    loss = -x[np.arange(len(target)), target] * w
    if reduction == "none":
        return [loss, None]
    return [loss.sum() / (w.sum() if reduction == "mean" else 1), w.sum()]


def nll_grad(x, dy, target, weight, total):
    out = np.zeros_like(x)
    out[np.arange(len(target)), target] = -weight[target] * dy / total
    return out


def conv(x, w, bias=None, stride=1, pad=0):
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    view = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    out = np.einsum("nchwij,ocij->nohw", view, w)
    return out if bias is None else out + bias[:, None, None]


def pool(x, size):
    rows = [
        (math.floor(i * x.shape[-2] / size[0]), math.ceil((i + 1) * x.shape[-2] / size[0]))
        for i in range(size[0])
    ]
    columns = [
        (math.floor(i * x.shape[-1] / size[1]), math.ceil((i + 1) * x.shape[-1] / size[1]))
        for i in range(size[1])
    ]
    return np.stack(
        [np.stack([x[..., a:b, c:d].mean((-1, -2)) for c, d in columns], -1) for a, b in rows], -2
    )


def definite(x):
    return x @ swap(x) + 4 * np.eye(x.shape[-1])


PRODUCTS = [
    *(
        products(name, MATS, "transpose_x1", "transpose_x2", bias=True)
        for name in ("MatMul", "MatMulV2", "MatMulV3")
    ),
    *(
        products(name, BATCHES, "adj_x1", "adj_x2")
        for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
    ),
    op(
        "Einsum",
        "f4 f2",
        ([[X((2, 3)), X((3, 4))]], lambda a: a[0] @ a[1], {"equation": "ij,jk->ik", "N": 2}),
        ([[X((2, 3, 4)), X((2, 5, 4))]], lambda a: a[0] @ swap(a[1]), {"equation": "bik,bjk->bij", "N": 2}),
        loose=4,
        compiled=True,
    ),
    op(
        "MatrixInverse",
        "f4",
        (
            [lambda t: (definite(np.arange(9.0).reshape(3, 3) / 9)).astype(t)],
            lambda: np.linalg.inv(definite(np.arange(9.0).reshape(3, 3) / 9)),
        ),
        loose=10,
    ),
    op(
        "Cholesky",
        "f4",
        (
            [lambda t: (definite(np.arange(9.0).reshape(3, 3) / 9)).astype(t)],
            lambda: np.linalg.cholesky(definite(np.arange(9.0).reshape(3, 3) / 9)),
        ),
        loose=10,
    ),
]

NORMS = [
    op(
        "LayerNormV3",
        FLOATS,
        *(
            (
                [X(s), X(s[-1:]), X(s[-1:])],
                lambda x, g, b: layer_norm(x, g, b, -1),
                {"begin_norm_axis": -1, "begin_params_axis": -1},
            )
            for s in ((3, 8), (2, 3, 8), (1, 4))
        ),
        loose=8,
    ),
    op(
        "LayerNormV4",
        FLOATS,
        *(
            ([X(s), [s[-1]], X(s[-1:]), X(s[-1:])], lambda x, g, b: layer_norm(x, g, b, -1))
            for s in ((3, 8), (2, 3, 8), (1, 4))
        ),
        loose=8,
    ),
    op(
        "LayerNormGradV3",
        "f4",
        *(
            ([X(s), X(s), X((*s[:-1], 1), "positive"), X((*s[:-1], 1)), X(s[-1:])], layer_norm_grad)
            for s in ((3, 8), (2, 3, 8))
        ),
        loose=20,
    ),
    op("RmsNorm", FLOATS, *(([X(s), X(s[-1:])], rms_norm) for s in ((3, 8), (2, 3, 8), (1, 4))), loose=8),
    op(
        "RmsNormGrad",
        "f4",
        *(
            ([X(s), X(s), X((*s[:-1], 1), "positive", "f4"), X(s[-1:])], rms_norm_grad)
            for s in ((3, 8), (2, 3, 8))
        ),
        loose=20,
    ),
    op(
        "AddRmsNorm",
        "f4",
        *(
            ([X(s), X(s), X(s[-1:])], lambda a, b, g: [*rms_norm(a + b, g), a + b])
            for s in ((3, 8), (2, 3, 8))
        ),
        loose=8,
    ),
    # rstd is float32, but of a sum that was rounded.
    op(
        "AddRmsNorm",
        "f2 b2",
        *(
            ([X(s), X(s), X(s[-1:])], lambda a, b, g: [rms_norm(a + b, g)[0], None, a + b])
            for s in ((3, 8), (2, 3, 8))
        ),
        loose=8,
    ),
    op("RotaryMul", FLOATS, *(([X((2, 4, 3, 8)), X((1, 4, 1, 8)), X((1, 4, 1, 8))], rotate),), loose=2),
    op(
        "RotaryMulGrad",
        "f4",
        *(([X((2, 4, 3, 8)), X((1, 4, 1, 8)), X((1, 4, 1, 8)), X((2, 4, 3, 8))], rotate_grad),),
        loose=8,
    ),
    op(
        "SwiGlu",
        FLOATS,
        *(([X(s)], swiglu) for s in ((3, 8), (2, 3, 4), (1, 2), (0, 4))),
        ([X((4, 3))], lambda x: swiglu(x, 0), {"dim": 0}),
        loose=2,
    ),
    op("SwiGluGrad", FLOATS, *(([X((3, 4)), X((3, 8))], swiglu_grad),), loose=4),
    op(
        "GeGluV2",
        FLOATS,
        *(([X((3, 8))], lambda x, a=a: geglu(x, a), {"approximate": a}) for a in (0, 1)),
        loose=4,
    ),
]

BACKWARD, GRADIENTS = flash_backward()
Q, K, V, DY, TOP, TOTAL, OUT = BACKWARD

REST = [
    op(
        "FlashAttentionScoreGrad",
        "f4",
        (
            [Q, K, V, DY, None, None, None, None, TOP, TOTAL, None, OUT],
            lambda: [*GRADIENTS, *[None] * 4],
            FLASH,
        ),
        loose=20,
    ),
    op("FlashAttentionScore", FLOATS, ([X(HEADS), X(HEADS), X(HEADS)], flash, FLASH), loose=4),
    op(
        "FlashAttentionScore",
        "f4",
        (
            [X(HEADS), X(HEADS), X(HEADS), None, None, None, CAUSAL],
            lambda q, k, v: flash(q, k, v, mask=CAUSAL),
            FLASH,
        ),
        loose=4,
    ),
    op(
        "PromptFlashAttention",
        "f2 b2",
        (
            [X(HEADS), X(HEADS), X(HEADS)],
            lambda q, k, v: attention(q, k, v, 0.5),
            {"num_heads": 2, "input_layout": "BNSD", "scale_value": 0.5, "next_tokens": 2147483647},
        ),
        loose=4,
        compiled=True,
    ),
    op(
        "IncreFlashAttention",
        "f2 b2",
        (
            [X((2, 2, 1, 16)), [X(HEADS)], [X(HEADS)]],
            lambda q, k, v: attention(q, k[0], v[0], 0.5),
            {"num_heads": 2, "input_layout": "BNSD", "scale_value": 0.5, "num_key_value_heads": 2},
        ),
        loose=4,
        compiled=True,
    ),
    op(
        "NLLLoss",
        FLOATS,
        *(
            (
                [X((4, 5)), ids(5, 4), X((5,), "positive")],
                lambda x, t, w, r=r: nll(x, t, w, r),
                {"reduction": r},
            )
            for r in ("mean", "sum", "none")
        ),
        loose=4,
    ),
    op(
        "NLLLossGrad",
        "f4",
        (
            [X((4, 5)), X(()), ids(5, 4), X((5,), "positive"), X((), "positive")],
            nll_grad,
            {"reduction": "mean"},
        ),
        loose=4,
    ),
    op(
        "Conv2D",
        "f4 f2",
        ([X((1, 2, 5, 5)), X((3, 2, 3, 3))], conv, {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], **CONV}),
        (
            [X((2, 2, 6, 6)), X((3, 2, 3, 3)), X((3,))],
            lambda x, w, b: conv(x, w, b, 2, 1),
            {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], **CONV},
        ),
        loose=8,
    ),
    op(
        "AdaptiveAvgPool2d",
        "f4 f2",
        *(
            ([X((1, 2, 5, 6))], lambda x, s=s: pool(x, s), {"output_size": list(s)})
            for s in ((1, 1), (2, 3), (5, 6))
        ),
        loose=2,
    ),
]

OPS: list[Op] = [*PRODUCTS, *NORMS, *REST]
