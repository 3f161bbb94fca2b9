"""Regions that combine two values, as far as CANN's scattering operators reduce by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import bitcast, is_float, signed

DType = np.dtype[Any]
_NUMBERS = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
# Of bool: what each is on the bytes 0 and 1.
_FLAGS = {"add": "max", "or": "max", "maximum": "max", "and": "min", "multiply": "min", "minimum": "min"}


@dataclass(frozen=True, slots=True)
class Reduction:
    """`name` as ScatterElements has it, on values of `dtype` carried as `carrier`."""

    name: str
    dtype: DType
    carrier: DType
    flips: bool = False  # unsigned order as signed order: the highest bit the other way round

    def carried(self, ctx: Context, value: Value) -> Value:
        return self._flipped(ctx, bitcast(ctx, value, self.carrier))

    def back(self, ctx: Context, value: Value) -> Value:
        return bitcast(ctx, self._flipped(ctx, value), self.dtype)

    def _flipped(self, ctx: Context, value: Value) -> Value:
        if not self.flips:
            return value
        return ctx.add("BitwiseXor", value, np.array(np.iinfo(self.carrier).min, self.carrier))


def reduction_of(block: Any, dtype: DType) -> Reduction | None:
    """The reduction that a block of two scalars of the dtype is, None if it is another computation."""
    operations = [op.operation for op in block.operations]
    if len(operations) != 2 or len(operations[0].results) != 1:
        return None
    combine, end = operations
    if list(end.operands) != [combine.results[0]] or set(combine.operands) != set(block.arguments):
        return None
    name = (_FLAGS if dtype == np.bool_ else _NUMBERS).get(combine.name.removeprefix("stablehlo."))
    if name is None or (dtype.kind == "c" and name in ("max", "min")):
        return None
    if dtype == np.bool_:
        return Reduction(name, dtype, np.dtype(np.uint8))
    if dtype.kind == "u" and dtype.itemsize > 1:
        return Reduction(name, dtype, signed(dtype), name in ("max", "min"))
    return Reduction(name, dtype, dtype)


def returned_arguments(block: Any) -> tuple[int, ...] | None:
    """The numbers of the arguments that a block returns without computing, None if it computes."""
    returned = list(list(block.operations)[-1].operands)
    arguments = list(block.arguments)
    if not all(value in arguments for value in returned):
        return None
    return tuple(arguments.index(value) for value in returned)


def neutral(name: str, dtype: DType) -> np.ndarray[Any, Any]:
    """The number that a reduction does not feel, to the sign of zero."""
    if name in ("add", "mul"):
        number: Any = 1 if name == "mul" else 0 if dtype.kind in "iu" else -0.0
        return np.array(
            complex(number, number if name == "add" else 0) if dtype.kind == "c" else number, dtype
        )
    if is_float(dtype):
        return np.array(-np.inf if name == "max" else np.inf, dtype)
    return np.array(np.iinfo(dtype).min if name == "max" else np.iinfo(dtype).max, dtype)
