"""Arrays that are filled part by part at known places, and read so, are parts beside each other.

A scan that was written out leaves a chain of TensorScatterUpdate where it stacked its results, and GatherV2 where it
took its operands apart: the chain is one ConcatV2, and a read of what one part holds is that part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_common.graph.builder import Builder
from npu_common.graph.ir import Graph, Node, Value
from npu_common.graph.language import GraphLanguage
from npu_common.graph.passes.manager import Pass
from npu_common.graph.passes.pattern import integers


def take_stacks_apart(graph: Graph, language: GraphLanguage) -> int:
    builder = Builder(graph.name, language)
    builder.graph = graph
    changes = 0
    for node in graph.order():
        rule = _RULES.get(node.type)
        if rule is None or node.controls or len(node.outputs) != 1 or not node.output.uses:
            continue
        if not all(value is not None and value.is_static for value in (*node.inputs, node.output)):
            continue
        new = rule(node, builder)
        if new is not None and (new.dtype, new.shape) == (node.output.dtype, node.output.shape):
            changes += node.output.replace_uses(new) > 0
    return changes


def _sizes(value: Value) -> list[int]:
    return [size or 0 for size in value.shape or ()]


def _updated_rows(node: Node) -> range | None:
    """The rows that a TensorScatterUpdate writes, if they are known and follow each other."""
    indices = node.inputs[1]
    if indices is None or len(_sizes(indices)) != 2 or _sizes(indices)[1] != 1:
        return None
    rows = integers(indices)
    if not rows or rows != list(range(rows[0], rows[0] + len(rows))):
        return None
    return range(rows[0], rows[-1] + 1)


def _filled(node: Node, builder: Builder) -> Value | None:
    """A chain of updates that writes every row once."""
    parts: dict[int, tuple[int, Value]] = {}  # by first row: the row after its last
    missing = _sizes(node.output)[0]
    each = node
    while missing > 0:
        if each.type != "TensorScatterUpdate" or each.controls:
            return None
        rows = _updated_rows(each)
        base, _, part = each.inputs
        if rows is None or base is None or part is None or rows.start in parts:
            return None
        parts[rows.start] = (rows.stop, part)
        missing -= len(rows)
        each = base.node
    ordered = sorted(parts.items())
    stops = [0, *(stop for _, (stop, _) in ordered)]
    if any(start != stop for (start, _), stop in zip(ordered, stops, strict=False)):
        return None  # some rows are written twice, others never
    return _beside(builder, [part for _, (_, part) in ordered])


def _beside(builder: Builder, parts: Sequence[Value]) -> Value:
    return parts[0] if len(parts) == 1 else builder.add("ConcatV2", list(parts), 0, N=len(parts))


def _taken(node: Node, builder: Builder) -> Value | None:
    """GatherV2 of one known place is a Slice."""
    source, indices, axes = node.inputs
    places, axis = integers(indices), integers(axes)
    if source is None or places is None or len(places) != 1 or axis is None or len(axis) != 1:
        return None
    if node.attributes.get("batch_dims", 0) != 0:
        return None
    shape, along = _sizes(source), axis[0] % max(len(_sizes(source)), 1)
    if not shape or not 0 <= places[0] < shape[along]:
        return None
    begin = [places[0] if dim == along else 0 for dim in range(len(shape))]
    size = [1 if dim == along else n for dim, n in enumerate(shape)]
    return builder.add("Reshape", builder.add("Slice", source, begin, size), _sizes(node.output))


def _part(node: Node, builder: Builder) -> Value | None:
    """Slice of a ConcatV2 within one of its parts."""
    source, begin = node.inputs[0], integers(node.inputs[1])
    if source is None or begin is None or source.node.type != "ConcatV2":
        return None
    *parts, axes = source.node.inputs
    axis = integers(axes)
    if axis is None or len(axis) != 1:
        return None
    along, size = axis[0] % len(begin), _sizes(node.output)
    at = begin[along]
    for part in parts:
        if part is None:
            return None
        length = _sizes(part)[along]
        if at >= 0 and at + size[along] <= length:
            if _sizes(part) == size:
                return part
            return builder.add("Slice", part, [*begin[:along], at, *begin[along + 1 :]], size)
        at -= length
    return None


_RULES: dict[str, Callable[[Node, Builder], Value | None]] = {
    "TensorScatterUpdate": _filled,
    "GatherV2": _taken,
    "Slice": _part,
}
STACKS = Pass("stacks taken apart", take_stacks_apart)
