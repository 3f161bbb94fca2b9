"""Device numbers in a partitioned program: operations that need them read the program's last argument.

One model serves all devices, so a device's number is data: ui32[2], replica and partition, which the plugin keeps on
each device and hands to every run. Constants would be cheaper to read, and cost a compilation for each device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from xla_npu.devices import Devices
from xla_npu.frontend import functions, nested

_NUMBERS = {"stablehlo.replica_id": 0, "stablehlo.partition_id": 1}
_PERMUTE = "stablehlo.collective_permute"


def number_places(module: Any, devices: Devices) -> bool:
    """Gives `main` the place as its last argument if an operation needs it, in place; whether one does.

    Calls must have been inlined.
    """
    main = functions(module)["main"]
    wanting = [op for op in nested(main.operation) if op.name in _NUMBERS or op.name == _PERMUTE]
    if not wanting:
        return False
    block = main.regions[0].blocks[0]
    with module.context, ir.Location.unknown():
        u32 = ir.IntegerType.get_unsigned(32)
        argument = block.add_argument(ir.RankedTensorType.get([2], u32), ir.Location.unknown())
        types = [value.type for value in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, main.type.results))
        if "arg_attrs" in main.attributes:
            attributes = [*main.attributes["arg_attrs"], ir.DictAttr.get({})]
            main.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        numbers = _Numbers(ir.InsertionPoint.at_block_begin(block), argument, devices)
        # All before the first is erased: it may be what `numbers` writes in front of.
        values = [
            numbers.place() if op.name == _PERMUTE else numbers.part(_NUMBERS[op.name]) for op in wanting
        ]
        for op, value in zip(wanting, values, strict=True):
            if op.name == _PERMUTE:
                _permute(op, value, devices)
            else:
                op.results[0].replace_all_uses_with(value)
                op.erase()
    return True


class _Numbers:
    """The device's numbers, made at the beginning of the program when first asked for."""

    def __init__(self, start: Any, argument: Any, devices: Devices) -> None:
        self._start = start
        self._argument = argument
        self._devices = devices
        self._parts: dict[int, Any] = {}
        self._place: Any = None

    def part(self, index: int) -> Any:
        if index not in self._parts:
            scalar = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))
            with self._start:
                row = stablehlo.slice(
                    self._argument,
                    ir.DenseI64ArrayAttr.get([index]),
                    ir.DenseI64ArrayAttr.get([index + 1]),
                    ir.DenseI64ArrayAttr.get([1]),
                )
                self._parts[index] = stablehlo.reshape(scalar, row)
        return self._parts[index]

    def place(self) -> Any:
        """The device's place, i32."""
        if self._place is None:
            partition = self.part(1)
            replica = self.part(0) if self._devices.replicas > 1 else None
            with self._start:
                if replica is not None:
                    count = ir.DenseElementsAttr.get(np.array(self._devices.partitions, np.uint32))
                    whole = stablehlo.multiply(replica, stablehlo.constant(count))
                    partition = stablehlo.add(whole, partition)
                self._place = stablehlo.convert(
                    ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)), partition
                )
        return self._place


def _permute(op: Any, place: Any, devices: Devices) -> None:
    pairs = devices.pairs_of(op)
    flat = [end for pair in pairs for end in pair]
    made = ir.Operation.create(
        "stablehlo.custom_call",
        results=[op.results[0].type],
        operands=[op.operands[0], place],
        attributes={
            "call_target_name": ir.StringAttr.get("npu.collective_permute"),
            "npu.pairs": ir.DenseI64ArrayAttr.get(flat),
        },
        ip=ir.InsertionPoint(op),
        loc=op.location,
    )
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()
