"""Computes small nodes whose inputs are constants.

Only operators whose result has one right answer in bits: integers (they wrap), comparisons, moving data, and
float32 Add, Sub, Mul, Neg, Abs, which IEEE 754 rounds exactly. A float32 operation with a subnormal operand or
result is left to the device, which may flush it to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_common.graph import dtypes
from npu_common.graph.ir import Graph, Node
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.manager import Pass

Array = np.ndarray[Any, Any]
_LIMIT = 1 << 16  # elements of a result
_REPEATED = 16  # elements of a result that repeats others
_TINY = float(np.finfo(np.float32).tiny)


def fold_constants(graph: Graph, language: GraphLanguage) -> int:
    folded = 0
    for node in graph.order():
        if len(node.outputs) != 1 or not node.output.uses or node.controls:
            continue
        result = _evaluate(node)
        if result is not None:
            node.output.replace_uses(graph.add_constant(result))
            folded += 1
    return folded


def _evaluate(node: Node) -> Array | None:
    """The node's result, or None where it is not known, not small or not sure."""
    evaluator, output = _EVALUATORS.get(node.type), node.output
    if evaluator is None or not output.is_static or int(np.prod(output.shape or (), dtype=np.int64)) > _LIMIT:
        return None
    if node.type == "Shape":
        return _shape(node)
    values = [v.constant for v in node.inputs if v is not None]
    if not values or any(v is None for v in values):
        return None
    arrays = [v for v in values if v is not None]
    if node.type in _ROUNDED and not all(_is_exact(a) for a in arrays):
        return None
    with np.errstate(all="ignore"):
        result = evaluator(node, arrays)
    if result is None or (result.dtype, result.shape) != (output.dtype, output.shape):
        return None
    return None if node.type in _ROUNDED and not _is_exact(result) else result


def _is_exact(array: Array) -> bool:
    """An integer array, or float32 without subnormals and NaNs (whose bits are not defined)."""
    if array.dtype.kind in "iu":
        return True
    if array.dtype != np.float32:
        return False
    size = np.abs(array)
    return bool(np.all((size == 0) | ((size >= _TINY) & ~np.isnan(size))))


def _shape(node: Node) -> Array | None:
    source = node.inputs[0]
    if source is None or not source.is_static:
        return None
    return np.asarray(source.shape, node.output.dtype)


def _cast(node: Node, arrays: list[Array]) -> Array | None:
    """Only where the value survives: how out-of-range values convert is the device's business."""
    source, to = arrays[0], node.output.dtype
    if not all(dtypes.is_integer(d) or dtypes.is_float(d) or d.kind == "b" for d in (source.dtype, to)):
        return None
    result: Array = source.astype(to)
    back: Array = result.astype(source.dtype)
    return result if to.kind != "b" and source.tobytes() == back.tobytes() else None


def _integer(function: Callable[..., Array]) -> Callable[[Node, list[Array]], Array | None]:
    def evaluate(node: Node, arrays: list[Array]) -> Array | None:
        return function(*arrays) if all(a.dtype.kind in "iu" for a in arrays) else None

    return evaluate


def _simple(function: Callable[..., Array]) -> Callable[[Node, list[Array]], Array | None]:
    return lambda node, arrays: np.asarray(function(*arrays))


def _target(node: Node) -> tuple[int, ...]:
    return tuple(int(d or 0) for d in node.output.shape or ())


def _pack(node: Node, arrays: list[Array]) -> Array:
    return np.stack(arrays, int(node.attributes.get("axis", 0)))


def _range(start: Array, limit: Array, delta: Array) -> Array:
    return np.arange(int(start.item()), int(limit.item()), int(delta.item()), dtype=start.dtype)


# Data movement that follows from the inferred shape alone.
def _reshaped(node: Node, arrays: list[Array]) -> Array:
    return arrays[0].reshape(_target(node))


_ROUNDED = frozenset(("Add", "AddV2", "Sub", "Mul", "Neg", "Abs"))


def _broadcast(node: Node, arrays: list[Array]) -> Array | None:
    """Where the result is small, or repeats nothing: operators broadcast by themselves."""
    result = np.broadcast_to(arrays[0], _target(node))
    return result if result.size <= max(arrays[0].size, _REPEATED) else None


_EVALUATORS: dict[str, Callable[[Node, list[Array]], Array | None]] = {
    "Add": _simple(np.add),
    "AddV2": _simple(np.add),
    "Sub": _simple(np.subtract),
    "Mul": _simple(np.multiply),
    "Neg": _simple(np.negative),
    "Abs": _simple(np.abs),
    "Maximum": _integer(np.maximum),
    "Minimum": _integer(np.minimum),
    "BitwiseAnd": _integer(np.bitwise_and),
    "BitwiseOr": _integer(np.bitwise_or),
    "BitwiseXor": _integer(np.bitwise_xor),
    "Equal": _integer(np.equal),
    "NotEqual": _integer(np.not_equal),
    "Less": _integer(np.less),
    "LessEqual": _integer(np.less_equal),
    "Greater": _integer(np.greater),
    "GreaterEqual": _integer(np.greater_equal),
    "LogicalAnd": _simple(np.logical_and),
    "LogicalOr": _simple(np.logical_or),
    "LogicalNot": _simple(np.logical_not),
    "SelectV2": _simple(np.where),
    "Identity": lambda node, arrays: arrays[0],
    "Cast": _cast,
    "Reshape": _reshaped,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    "ExpandDims": _reshaped,
    "BroadcastTo": _broadcast,
    "Fill": lambda node, arrays: np.broadcast_to(arrays[1].reshape(()), _target(node)),
    "Transpose": lambda node, arrays: arrays[0].transpose([int(i) for i in arrays[1]]),
    "ConcatV2": lambda node, arrays: np.concatenate(arrays[:-1], int(arrays[-1].item())),
    "Pack": _pack,
    "Range": _integer(_range),
    "Shape": lambda node, arrays: _shape(node),
}
CONSTANT_FOLDING = Pass("constant folding", fold_constants)


def foldable() -> list[str]:
    """The operators this pass computes."""
    return sorted(_EVALUATORS)
