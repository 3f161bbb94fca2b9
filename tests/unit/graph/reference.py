"""What operators compute, in NumPy's float64: the independent answer that rewritten graphs are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from npu_common.graph.ir import Graph, Node
from npu_common.graph.language import native
from npu_common.graph.passes.pattern import attribute

Array = np.ndarray[Any, Any]


def run(graph: Graph, *inputs: Array, wide: bool = True) -> list[Array]:
    """`wide`: floats are computed in float64, else in their own dtype (for rewrites that keep every bit)."""
    values: dict[Any, Array | None] = {}
    for value, array in zip(graph.inputs, inputs, strict=True):
        values[value] = _widened(array, wide)
    with np.errstate(all="ignore"):
        for node in graph.order():
            if node.type == "Data":
                continue
            arguments = [None if v is None else values[v] for v in node.inputs]
            for value, result in zip(node.outputs, _results(node, arguments, wide), strict=False):
                values[value] = result
                if result is not None and value.shape is not None:
                    assert result.shape == value.shape, (
                        f"{node}: {result.shape}, inferred {value.type_text()}"
                    )
    return [values[value] for value in graph.outputs]


def _widened(array: Array, wide: bool) -> Array:
    return array.astype(np.float64) if wide and array.dtype.kind not in "iub" else array


def _results(node: Node, inputs: list[Any], wide: bool) -> list[Array | None]:
    if node.type == "Const":
        return [_widened(node.attributes["value"], wide)]
    if node.type == "Cast":
        return [
            inputs[0] if wide and node.output.dtype.kind not in "iub" else inputs[0].astype(node.output.dtype)
        ]
    result = OPERATORS[node.type](lambda name: attribute(node, name, native()), *inputs)
    results = result if isinstance(result, list) else [result]
    return results if wide else [r if r is None else np.asarray(r) for r in results]


def _axes(axes: Array) -> tuple[int, ...]:
    return tuple(int(a) for a in axes)


def _swap(x: Array, yes: bool) -> Array:
    return np.swapaxes(x, -1, -2) if yes else x


def _reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, x, axes: function(x, axis=_axes(np.atleast_1d(axes)), keepdims=a("keep_dims"))


def _softmax(x: Array, axis: Any) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _layer_norm(
    a: Any, x: Array, shape: Array, gamma: Array | None = None, beta: Array | None = None
) -> list[Any]:
    axes = tuple(range(-len(shape), 0))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + a("epsilon"))
    return [y * (1 if gamma is None else gamma) + (0 if beta is None else beta), None, None]


def _rms_norm(a: Any, x: Array, gamma: Array) -> list[Any]:
    axes = tuple(range(-gamma.ndim, 0))
    return [x / np.sqrt((x * x).mean(axes, keepdims=True) + a("epsilon")) * gamma, None]


def _gelu(a: Any, x: Array) -> Array:
    if a("approximate") == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * scipy.special.ndtr(x)


def _swiglu(a: Any, x: Array) -> Array:
    left, right = np.split(x, 2, a("dim"))
    return left * scipy.special.expit(left) * right


def _rotary(a: Any, x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin


def _attention(a: Any, q: Array, k: Array, v: Array, *rest: Array | None) -> list[Any]:
    shift, _, _, mask = [*rest, None, None, None, None][:4]
    scores, scale, shift = q @ np.swapaxes(k, -1, -2), a("scale_value"), 0 if shift is None else shift
    # aclnnFlashAttentionScoreV2, pseType: 0 multiplies and then adds, 1 adds and then multiplies.
    scores = {0: scores * scale + shift, 1: (scores + shift) * scale}[a("pse_type")]
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    return [None, None, None, _softmax(scores, -1) @ v]


def _attention_gradient(a: Any, q: Array, k: Array, v: Array, do: Array, *rest: Array | None) -> list[Any]:
    """By the chain rule on the whole matrix of scores."""
    shift, _, _, mask = [*rest, None, None, None, None][:4]
    scores, scale = q @ np.swapaxes(k, -1, -2) * a("scale_value"), a("scale_value")
    assert shift is None or a("pse_type") == 0
    scores = scores if shift is None else scores + shift
    p = _softmax(scores if mask is None else np.where(mask, -np.inf, scores), -1)
    dp = do @ np.swapaxes(v, -1, -2)
    # The Jacobian of softmax, row by row: diag(p) - p p^T.
    ds = np.einsum(
        "...ij,...i->...j",
        np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - p[..., :, None] * p[..., None, :],
        dp,
    )
    return [ds @ k * scale, np.swapaxes(ds, -1, -2) @ q * scale, np.swapaxes(p, -1, -2) @ do, *[None] * 4]


def _slice(a: Any, x: Array, offsets: Array, size: Array) -> Array:
    return x[tuple(slice(int(o), int(o + s)) for o, s in zip(offsets, size, strict=True))]


def _update(a: Any, x: Array, indices: Array, updates: Array) -> Array:
    result = x.copy()
    for place, update in zip(indices.reshape(-1), updates, strict=True):
        result[int(place)] = update
    return result


OPERATORS: dict[str, Callable[..., Any]] = {
    "Axpy": lambda a, x, y: x + y.dtype.type(a("alpha")) * y,
    "TensorScatterUpdate": _update,
    "GatherV2": lambda a, x, places, axis: np.take(x, places, int(axis.reshape(()))),
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "RealDiv": lambda a, x, y: x / y,
    "Pow": lambda a, x, y: x**y,
    "Maximum": lambda a, x, y: np.maximum(x, y),
    "Neg": lambda a, x: -x,
    "Exp": lambda a, x: np.exp(x),
    "Sqrt": lambda a, x: np.sqrt(x),
    "Rsqrt": lambda a, x: 1 / np.sqrt(x),
    "Reciprocal": lambda a, x: 1 / x,
    "Square": lambda a, x: x * x,
    "Tanh": lambda a, x: np.tanh(x),
    "Erf": lambda a, x: scipy.special.erf(x),
    "Erfc": lambda a, x: scipy.special.erfc(x),
    "Sigmoid": lambda a, x: scipy.special.expit(x),
    "Identity": lambda a, x: x,
    "LogicalNot": lambda a, x: ~x,
    "GreaterEqual": lambda a, x, y: x >= y,
    "SelectV2": lambda a, c, x, y: np.where(c, x, y),
    "ReduceSum": _reduction(np.sum),
    "ReduceMean": _reduction(np.mean),
    "ReduceMax": _reduction(np.max),
    "Reshape": lambda a, x, shape: x.reshape([int(s) for s in shape]),
    "Transpose": lambda a, x, perm: x.transpose([int(p) for p in perm]),
    "BroadcastTo": lambda a, x, shape: np.broadcast_to(x, [int(s) for s in shape]),
    "Range": lambda a, start, limit, delta: np.arange(start, limit, delta, dtype=start.dtype),
    "Slice": _slice,
    "ConcatV2": lambda a, *xs: np.concatenate(xs[:-1], int(xs[-1])),
    "SplitD": lambda a, x: list(np.split(x, a("num_split"), a("split_dim"))),
    "Split": lambda a, axis, x: list(np.split(x, a("num_split"), int(axis.reshape(())))),
    "MatMulV2": lambda a, x, y: _swap(x, a("transpose_x1")) @ _swap(y, a("transpose_x2")),
    "BatchMatMulV2": lambda a, x, y: _swap(x, a("adj_x1")) @ _swap(y, a("adj_x2")),
    # The fused ones, by their definitions.
    "SoftmaxV2": lambda a, x: _softmax(x, tuple(a("axes"))),
    "LayerNormV4": _layer_norm,
    "RmsNorm": _rms_norm,
    "GeluV2": _gelu,
    "Swish": lambda a, x: x * scipy.special.expit(a("scale") * x),
    "SwiGlu": _swiglu,
    "RotaryMul": _rotary,
    "FlashAttentionScore": _attention,
    "FlashAttentionScoreGrad": _attention_gradient,
}
