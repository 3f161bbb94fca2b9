"""RmsNorm and LayerNormV4 from their expansions (torch's decompositions, JAX's and Flax's formulas)."""

from __future__ import annotations

import numpy as np

from npu_common.graph.ir import Shape, Value
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import (
    Match,
    Pattern,
    Rewrite,
    any_of,
    ints,
    number,
    op,
    rewrite,
    var,
)

_FLOATS = ("float32", "float16", "bfloat16")


def _mean(x: Pattern, key: str) -> Pattern:
    """The mean with kept dimensions, also as a sum over or times a number (which the builder checks)."""
    axes = ints(f"{key}axes")
    total = op("ReduceSum", x, axes, keep_dims=True)
    return any_of(
        op("ReduceMean", x, axes, keep_dims=True),
        op("RealDiv", total, number(f"{key}count")),
        op("Mul", total, number(f"{key}share")),
    )


def _square(x: Pattern) -> Pattern:
    return any_of(op("Mul", x, x), op("Square", x), op("Pow", x, number("two", 2.0, 0.0)))


def _over_root(x: Pattern, variance: Pattern) -> Pattern:
    """x / sqrt(variance + eps)"""
    shifted = op("Add", variance, number("eps"))
    return any_of(op("Mul", x, op("Rsqrt", shifted)), op("RealDiv", x, op("Sqrt", shifted)))


_x, _gamma, _beta = var("x"), var("gamma"), var("beta")
_rms = op("Mul", _over_root(_x, _mean(_square(_x), "")), _gamma)

# Inside a Cast to float32 and back, as Llama does it in half precision. RmsNorm computes in float32 itself, and
# rounds once, after gamma, where this rounds twice: at most one unit in the last place of the result apart.
_wide = op("Cast", _x)
_rms_half = op("Mul", op("Cast", _over_root(_wide, _mean(_square(_wide), ""))), _gamma)

_centred = op("Sub", _x, _mean(_x, "m"))
_layer = op("Add", op("Mul", _over_root(_centred, _mean(_square(_centred), "")), _gamma), _beta)
_layer_plain = _over_root(_centred, _mean(_square(_centred), ""))


def _normalised(found: Match) -> tuple[int, ...] | None:
    """The sizes of the trailing dimensions that all means run over, None where they are others."""
    x = found["x"]
    if x.shape is None or x.dtype.name not in _FLOATS:
        return None
    rank = len(x.shape)
    for key in ("", "m"):
        if f"{key}axes" not in found.values:
            continue
        axes = sorted(axis % rank for axis in found.ints(f"{key}axes"))
        if not axes or axes != list(range(rank - len(axes), rank)) or len(axes) == rank:
            return None
        sizes = x.shape[axes[0] :]
        if None in sizes or not _is_mean(found, key, int(np.prod([s or 0 for s in sizes]))):
            return None
    return tuple(s or 0 for s in x.shape[rank - len(found.ints("axes")) :])


def _is_mean(found: Match, key: str, count: int) -> bool:
    for name, wanted in ((f"{key}count", float(count)), (f"{key}share", 1.0 / count)):
        if name in found.values and abs(found.scalar(name) - wanted) > 1e-3 * wanted:
            return False
    return count > 0


def _is_vector(value: Value, like: Value, shape: tuple[int, ...]) -> bool:
    """Whether gamma or beta has the normalised shape, but for ones in front."""
    own = value.shape or ()
    return value.dtype == like.dtype and own[-len(shape) :] == shape and set(own[: -len(shape)]) <= {1}


def _as_vector(found: Match, name: str, shape: tuple[int, ...]) -> Value | None:
    value = found.values.get(name)
    return (
        value if value is None or value.shape == shape else found.builder().add("Reshape", value, list(shape))
    )


def _reduced(x: Value, count: int) -> Shape:
    shape = x.shape or ()
    return (*shape[: len(shape) - count], *(1,) * count)


def _build_rms(found: Match) -> Value | None:
    sizes, x = _normalised(found), found["x"]
    if sizes is None or not _is_vector(found["gamma"], x, sizes) or found.root.dtype != x.dtype:
        return None
    if found.scalar("eps") < 0 or found.root.shape != x.shape:
        return None
    gamma = _as_vector(found, "gamma", sizes)
    types = [(x.dtype, x.shape), (np.float32, _reduced(x, len(sizes)))]
    return found.builder().add_many("RmsNorm", x, gamma, outputs=types, epsilon=found.scalar("eps"))[0]


def _build_layer(found: Match) -> Value | None:
    sizes, x = _normalised(found), found["x"]
    affine = [found[name] for name in ("gamma", "beta") if name in found.values]
    if sizes is None or not all(_is_vector(value, x, sizes) for value in affine):
        return None
    if found.ints("maxes") != found.ints("axes") or found.root.shape != x.shape:
        return None
    # mean and rstd are float32 whatever x is.
    statistics = (np.float32, _reduced(x, len(sizes)))
    types = [(x.dtype, x.shape), statistics, statistics]
    given = [_as_vector(found, name, sizes) for name in ("gamma", "beta")]
    epsilon = found.scalar("eps")
    return found.builder().add_many("LayerNormV4", x, list(sizes), *given, outputs=types, epsilon=epsilon)[0]


def _build_rms_half(found: Match) -> Value | None:
    # The inner Cast must widen to float32: found by its type, because x is what goes into it.
    wide = [v for v in (node.output for node in found.inner if node.type == "Cast") if v.dtype == np.float32]
    return _build_rms(found) if len(wide) == 1 and found["x"].dtype.name in ("float16", "bfloat16") else None


FUSE_NORM = Pass(
    "fuse norm",
    rewrite(
        (
            Rewrite("RmsNorm", _rms, _build_rms),
            Rewrite("RmsNorm of half precision", _rms_half, _build_rms_half),
            Rewrite("LayerNorm", _layer, _build_layer),
            Rewrite("LayerNorm without affine", _layer_plain, _build_layer),
        )
    ),
)
