"""Constants, and reading elements attributes of every type: jaxlib gives arrays only for those NumPy itself knows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from npu_common.graph import Value
from xla_npu.errors import CompileError
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import broadcast_to
from xla_npu.lowering.registry import lowers
from xla_npu.types import TensorType

_SMALL = (
    64  # elements of a constant that is one number over and over: above, the number alone is in the model
)
_PLAIN = ("i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "f32", "f64")
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|true|false|[-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?")
_PAYLOAD = re.compile(r"dense<(.*?)>\s*:\s*tensor", re.DOTALL)


@lowers("stablehlo.constant")
def constant(ctx: Context, op: Any) -> Value:
    type_ = ctx.result_type(op)
    array = as_graph(elements(op, "value", type_), type_)
    if array.size > _SMALL and array.tobytes() == array.reshape(-1)[:1].tobytes() * array.size:
        return broadcast_to(ctx, ctx.constant(array.reshape(-1)[0]), type_.shape)
    return ctx.constant(array)


def elements(op: Any, name: str, type_: TensorType) -> np.ndarray[Any, Any]:
    """The elements attribute of that name as an array of `type_.element.numpy`.

    Raises:
        CompileError: the attribute's text has another count of numbers than its type.
    """
    if type_.size == 0:
        return np.zeros(type_.shape, type_.element.numpy)
    if type_.element.numpy.kind == "c":  # jaxlib has no class for such attributes: reading one raises
        return from_text(str(op), type_)
    return dense_elements(op.attributes[name], type_)


def dense_elements(attribute: Any, type_: TensorType) -> np.ndarray[Any, Any]:
    """As `elements`, of an attribute that is not empty."""
    if type_.element.stablehlo in _PLAIN:
        return np.array(attribute)
    return from_text(str(attribute), type_)


def from_text(text: str, type_: TensorType) -> np.ndarray[Any, Any]:
    """The array in MLIR's text form of an elements attribute: numbers, bit patterns (0x7FC0), or a hex blob."""
    found = _PAYLOAD.search(text)
    payload = found[1] if found else ""
    dtype = type_.element.numpy
    if payload.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(payload[3:-1]), dtype).reshape(type_.shape).copy()
    complex_ = dtype.kind == "c"
    part = np.dtype(f"f{dtype.itemsize // 2}") if complex_ else dtype
    numbers = np.array([_number(token, part) for token in _NUMBER.findall(payload)], part)
    flat = numbers.view(dtype) if complex_ else numbers
    if flat.size not in (1, type_.size):
        raise CompileError(
            f"a constant of {type_.element.stablehlo} has {flat.size} numbers, not {type_.size}: {text}"
        )
    return np.broadcast_to(flat if flat.size > 1 else flat[0], (type_.size,)).reshape(type_.shape).copy()


def _number(token: str, dtype: np.dtype[Any]) -> Any:
    if token in ("true", "false"):
        return token == "true"
    if token.startswith("0x"):
        return np.array(int(token, 16), f"u{dtype.itemsize}").view(dtype)[()]
    return dtype.type(int(token)) if dtype.name.startswith(("int", "uint")) else dtype.type(float(token))


def as_graph(array: np.ndarray[Any, Any], type_: TensorType) -> np.ndarray[Any, Any]:
    """The array as graphs hold it: storage types as their bytes."""
    return array.view(type_.dtype) if type_.element.is_storage else array
