"""Small all-reduces that nothing keeps apart become one: each exchange costs a meeting of all devices."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from xla_npu.frontend import functions, nested
from xla_npu.lowering.combiners import kinds
from xla_npu.lowering.context import captured
from xla_npu.types import tensor_type

# Above, copying an array into a common buffer costs more than the meeting.
_LARGEST = 1 << 20
_Key = tuple[str, str, "str | None"]


def combine_all_reduces(module: Any) -> None:
    """Joins all-reduces of `main` and of its loops and branches, in place: each is asked for when its operand is there
    and waits until something needs it, with those of the same devices, element type and combiner."""
    main = functions(module)["main"].operation
    with module.context, ir.Location.unknown():
        for operation in [main, *nested(main)]:
            for region in operation.regions:
                for block in region.blocks:
                    _hoist(block)
                    _Waiting().walk(block)


def _hoist(block: Any) -> None:
    """Moves each all-reduce of the block to behind its operand."""
    operations = [each.operation for each in block.operations]
    inside = set(operations)
    for op in operations:
        if op.name == "stablehlo.all_reduce" and len(op.operands) == 1 and op.operands[0].owner in inside:
            op.move_after(op.operands[0].owner)


class _Waiting:
    """The all-reduces of a block whose results nothing has read so far."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, list[Any]] = {}
        self._key_of: dict[Any, _Key] = {}

    def walk(self, block: Any) -> None:
        for op in [each.operation for each in block.operations]:
            reads = [*op.operands, *captured(op.regions)] if self._key_of else []
            for key in {self._key_of[value] for value in reads if value in self._key_of}:
                self._join(key, op)
            own = _key(op) if op.name == "stablehlo.all_reduce" else None
            if own is not None:
                self._waiting.setdefault(own, []).append(op)
                self._key_of[op.results[0]] = own

    def _join(self, key: _Key, before: Any) -> None:
        found = self._waiting.pop(key)
        for op in found:
            del self._key_of[op.results[0]]
        if len(found) == 1:
            return
        first = found[0]
        made = ir.Operation.create(
            first.name,
            results=[op.results[0].type for op in found],
            operands=[op.operands[0] for op in found],
            attributes={name: first.attributes[name] for name in first.attributes},
            regions=1,
            loc=first.location,
            ip=ir.InsertionPoint(before),
        )
        first.regions[0].blocks[0].append_to(made.regions[0])
        for op, result in zip(found, made.results, strict=True):
            op.results[0].replace_all_uses_with(result)
            op.erase()


def _key(op: Any) -> _Key | None:
    """What all-reduces must share to be joined, None for those that are better alone."""
    if len(op.operands) != 1:
        return None
    type_ = tensor_type(op.operands[0].type)
    if type_.size * type_.element.numpy.itemsize > _LARGEST:
        return None
    how = ("use_global_device_ids" in op.attributes, "channel_handle" in op.attributes)
    [kind] = kinds(op.regions[0].blocks[0])
    groups = f"{op.attributes['replica_groups']} {how}"
    return None if kind is None else (groups, type_.element.stablehlo, kind)
