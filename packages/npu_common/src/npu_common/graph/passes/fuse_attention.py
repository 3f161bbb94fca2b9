"""FlashAttentionScore from softmax(q k^T scale + mask) v over batches of heads (layout BNSD).

Runs after SoftmaxV2 and the transposes of the products have been found. An added mask becomes `real_shift` with
pse_type 0, scale q k^T + shift (the default, 1, is scale (q k^T + shift): aclnnFlashAttentionScoreV2's description).
A selected mask becomes `atten_mask` only where it is a constant that leaves every row at least one position: rows
without any are NaN in one formula and 0 in the fused one.

The gradient is in fuse_attention_gradient.py, which runs before: it needs the softmax that this pass takes away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npu_common.graph.ir import Value
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import (
    Match,
    Pattern,
    Rewrite,
    any_of,
    attribute,
    number,
    op,
    rewrite,
    var,
)

_q, _k, _v = var("q"), var("k"), var("v")
_PRODUCTS = "BatchMatMul BatchMatMulV2"
_logits = op(_PRODUCTS, _q, _k, adj_x1=False, adj_x2=True)
_scaled = any_of(
    op("Mul", _logits, number("scale")),
    op("RealDiv", _logits, number("divisor")),
    op(_PRODUCTS, op("Mul", _q, number("scale")), _k, adj_x1=False, adj_x2=True),
    _logits,
)
_masked = any_of(
    op("SelectV2", var("keep"), _scaled, number("low")),
    op("Add", _scaled, var("bias")),
    _scaled,
)


SCORES, PRODUCTS = _masked, _PRODUCTS


def _attention(scores: Pattern) -> Pattern:
    return op(_PRODUCTS, op("SoftmaxV2", scores), _v, adj_x1=False, adj_x2=False)


# v^T times the weights transposed is the result transposed: how JAX writes einsum("bnts,bsnh->btnh").
_TURNED = [0, 1, 3, 2]


def _attention_turned(scores: Pattern) -> Pattern:
    return op(_PRODUCTS, var("vt"), op("SoftmaxV2", scores), adj_x1=False, adj_x2=True)


def _build_turned(found: Match) -> Value | None:
    if len(found["vt"].shape or ()) != 4:
        return None
    v = found.builder().add("Transpose", found["vt"], _TURNED)
    result = _build(replace(found, values=found.values | {"v": v}))
    if result is None:
        found.graph.remove(v.node)
        return None
    return found.builder().add("Transpose", result, _TURNED)


def _build(found: Match) -> Value | None:
    return None if (options := options_of(found)) is None else add_forward(found, options)[3]


@dataclass(frozen=True, slots=True)
class Options:
    """What FlashAttentionScore and its gradient take beside q, k, v."""

    scale: float
    shift: Value | None = None  # added to the scaled scores
    dropped: Value | None = None  # True: left out

    def attributes(self, q: Value) -> dict[str, object]:
        shape = q.shape or ()
        pse_type = {} if self.shift is None else {"pse_type": 0}
        return {"scale_value": self.scale, "head_num": shape[1], "input_layout": "BNSD", **pse_type}


def options_of(found: Match) -> Options | None:
    """None: q, k, v, the mask or the softmax are not what the fused operators compute."""
    q, k, v = found["q"], found["k"], found["v"]
    if not _are_heads(q, k, v) or not _over_last_dimension(found):
        return None
    scale = factor(found, "scale", "divisor")
    if not np.isfinite(scale):
        return None
    if "bias" in found.values:
        return Options(scale, shift=found["bias"]) if _is_shift(found["bias"], q, k) else None
    if "keep" in found.values:
        mask = _dropped(found, q, k)
        return None if mask is None else Options(scale, dropped=mask)
    return Options(scale)


def factor(found: Match, scale: str, divisor: str) -> float:
    """What the numbers bound to these names multiply by; 1 without any, infinite or NaN for a division by 0."""
    by = found.scalar(scale) if scale in found.values else 1.0
    if divisor not in found.values:
        return by
    with np.errstate(all="ignore"):
        return float(np.divide(by, found.scalar(divisor)))


def add_forward(found: Match, options: Options) -> list[Value]:
    """softmax_max, softmax_sum, softmax_out (empty), attention_out."""
    q, v = found["q"], found["v"]
    batch, heads, rows, _ = q.shape or ()
    # softmax_max and softmax_sum hold each number eight times (the layout the gradient reads).
    statistics = (np.float32, (batch, heads, rows, 8))
    result = (q.dtype, (batch, heads, rows, (v.shape or ())[3]))
    return found.builder().add_many(
        "FlashAttentionScore",
        q,
        found["k"],
        v,
        real_shift=options.shift,
        atten_mask=options.dropped,
        outputs=[statistics, statistics, (q.dtype, (0,)), result],
        **options.attributes(q),
    )


def _are_heads(q: Value, k: Value, v: Value) -> bool:
    if not all(x.is_static and len(x.shape or ()) == 4 and x.dtype == q.dtype for x in (q, k, v)):
        return False
    (b, n, _, d), (kb, kn, s, kd) = q.shape or (), k.shape or ()
    # One head size for all three, and as many key heads as query heads (the products do not broadcast here).
    return (
        q.dtype.name in ("float32", "float16", "bfloat16")
        and (kb, kn, kd) == (b, n, d)
        and v.shape == (b, n, s, d)
    )


def _over_last_dimension(found: Match) -> bool:
    softmax = next(node for node in found.inner if node.type == "SoftmaxV2")
    axes = attribute(softmax, "axes", found.language)
    return list(axes) in ([-1], [3]) and not attribute(softmax, "half_to_float", found.language)


def _is_shift(bias: Value, q: Value, k: Value) -> bool:
    (b, n, rows, _), columns = q.shape or (), (k.shape or ())[2]
    return bias.dtype == q.dtype and bias.shape in ((b, n, rows, columns), (1, n, rows, columns))


def _dropped(found: Match, q: Value, k: Value) -> Value | None:
    """atten_mask (True: left out) of a constant that says what is kept."""
    keep, low = found["keep"].constant, found.scalar("low")
    (_, _, rows, _), columns = q.shape or (), (k.shape or ())[2]
    if keep is None or keep.dtype != np.bool_ or not low <= -1e4:
        return None
    if keep.ndim < 2 or keep.shape[-2:] != (rows, columns) or keep.size != int(rows or 0) * int(columns or 0):
        return None
    plain = keep.reshape(keep.shape[-2:])
    return found.builder().constant(~plain) if bool(plain.any(axis=1).all()) else None


FUSE_ATTENTION = Pass(
    "fuse attention",
    rewrite(
        (
            Rewrite("FlashAttentionScore", _attention(_masked), _build),
            Rewrite("FlashAttentionScore, turned", _attention_turned(_masked), _build_turned),
        )
    ),
)
