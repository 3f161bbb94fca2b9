"""RotaryMul: x * cos + rotate_half(x) * sin, rotate_half(x) = (-x2, x1) of the halves (x1, x2) of the last dimension."""

from __future__ import annotations

from npu_common.graph.ir import Value
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import Match, Rewrite, integers, number, op, rewrite, var

_x, _cos, _sin = var("x"), var("cos"), var("sin")
_rotated = op("ConcatV2", op("Neg", var("upper")), var("lower"), number("axis"))
_rotary = op("Add", op("Mul", _x, _cos), op("Mul", _rotated, _sin))


def _build(found: Match) -> Value | None:
    x, lower, upper = found["x"], found["lower"], found["upper"]
    rank = len(x.shape or ())
    if rank != 4 or not x.is_static or int(found.scalar("axis")) % rank != rank - 1:
        return None
    if not (_is_half(lower, x, 0) and _is_half(upper, x, 1)):
        return None
    for table in (found["cos"], found["sin"]):
        # RotaryMul broadcasts its tables over batch, heads or positions, never over the rotated dimension.
        shape = table.shape
        if shape is None or len(shape) != 4 or shape[-1] != (x.shape or ())[-1] or table.dtype != x.dtype:
            return None
    types = [(x.dtype, x.shape)]
    return found.builder().add("RotaryMul", x, found["cos"], found["sin"], outputs=types)


def _is_half(part: Value, whole: Value, which: int) -> bool:
    shape = whole.shape or ()
    size = shape[-1] or 0
    node = part.node
    if size % 2 or part.shape != (*shape[:-1], size // 2) or not node.inputs:
        return False
    if node.type == "Slice":
        return node.inputs[0] is whole and integers(node.inputs[1]) == [0] * (len(shape) - 1) + [
            which * size // 2
        ]
    if node.type == "SplitD":
        axis: int | None = node.attributes["split_dim"]
    else:
        axes = integers(node.input("split_dim")) if node.type in ("Split", "SplitV") else None
        axis = axes[0] if axes else None
    return (
        axis is not None
        and node.input("x") is whole
        and part.index == which
        and axis % len(shape) == len(shape) - 1
    )


FUSE_ROTARY = Pass("fuse rotary", rewrite((Rewrite("RotaryMul", _rotary, _build),)))
