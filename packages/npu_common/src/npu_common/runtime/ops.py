"""aclnn operators by name.

    ops.call("aclnnAdd", x, y, 1.0, out)
    ops.call("aclnnSoftmax", x, dim=-1, out=out)
    ops.signature("aclnnSoftmax")        # 'aclnnSoftmax(self: tensor, dim: integer, out: tensor, written)'

Arguments are those of the operator's GetWorkspaceSize, in order or by CANN's names. Tensors are DeviceArrays or NPU
tensors of another framework; None stands for an optional one. A Python number for a scalar is a bool, int64, float64
or complex128, as torch_npu passes them; `ops.scalar(value, dtype)` or a NumPy scalar says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common import _cann
from npu_common.runtime._library import ready
from npu_common.runtime.dtypes import acl_code, dtype_of
from npu_common.runtime.stream import Stream, current_stream

_KINDS = {
    "T": "tensor",
    "S": "scalar",
    "I": "integers",
    "B": "booleans",
    "F": "floats",
    "L": "tensors",
    "l": "scalars",
    "s": "string",
    "d": "float",
    "f": "float",
    "b": "bool",
    "t": "dtype",
}


def scalar(value: Any, dtype: Any) -> _cann.TypedScalar:
    """A number as an aclScalar of that dtype."""
    return _cann.TypedScalar(np.asarray(value).astype(dtype_of(dtype)).tobytes(), acl_code(dtype))


def exists(name: str) -> bool:
    """Whether the CANN that is loaded has the operator."""
    ready()
    return _cann.operator_exists(name)


def names() -> list[str]:
    """Every operator whose prototype is known here; this CANN may lack some (`exists`)."""
    return _cann.operator_names()


def signature(name: str) -> str:
    """The operator's parameters, for a reader.

    Raises:
        ValueError: CANN has no such operator; the message has the nearest name.
    """
    ready()
    op = _cann.Operator.of(name)
    parts = [
        f"{parameter}: {_KINDS.get(letter, 'integer')}{', written' if op.written >> i & 1 else ''}"
        for i, (parameter, letter) in enumerate(zip(op.parameters, op.letters, strict=True))
    ]
    return f"{name}({', '.join(parts)})"


def call(name: str, *arguments: Any, stream: Stream | None = None, **named: Any) -> None:
    """Puts an operator on a stream: the given one, else the current one of the first tensor's device.

    Does not wait. Nothing of a call is kept for the next one.

    Raises:
        ValueError: no such operator, or a value out of range, or tensors on different devices.
        TypeError: an argument is missing, too many, or of another kind than the parameter.
        CannError: the operator refused (shapes, dtypes), with CANN's sentence.
    """
    op = _operators.get(name) or _bind(name)
    if named:
        arguments = _in_order(op, arguments, named)
    for each in arguments:
        if type(each) not in _AS_THEY_ARE:
            arguments = tuple(_native(op, i, each) for i, each in enumerate(arguments))
            break
    op.run(arguments, stream._native if stream is not None else _stream_of(arguments))


_operators: dict[str, _cann.Operator] = {}
_AS_THEY_ARE: set[type] = {type(None), bool, int, float}  # DeviceArray adds itself, see _native


def _bind(name: str) -> _cann.Operator:
    ready()
    op = _operators[name] = _cann.Operator.of(name)
    return op


def _in_order(op: _cann.Operator, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    unknown = set(named) - set(op.parameters)
    if unknown:
        raise TypeError(
            f"{op.name} has no parameter {', '.join(sorted(unknown))}; it has {', '.join(op.parameters)}"
        )
    twice = set(named) & set(op.parameters[: len(given)])
    if twice:
        raise TypeError(f"{op.name} was given {', '.join(sorted(twice))} twice")
    rest = op.parameters[len(given) :]
    missing = [each for each in rest if each not in named and "ptional" not in each]
    if missing:
        raise TypeError(f"{op.name} also needs {', '.join(missing)}: {signature(op.name)}")
    return (*given, *(named.get(each) for each in rest))


def _stream_of(arguments: tuple[Any, ...]) -> _cann.Stream:
    for each in arguments:
        if isinstance(each, _cann.Array):
            return current_stream(each.device_id)._native
        if isinstance(each, (list, tuple)) and each and isinstance(each[0], _cann.Array):
            return current_stream(each[0].device_id)._native
    return current_stream(0)._native


def _native(op: _cann.Operator, index: int, value: Any) -> Any:
    """An argument as the native module takes it: arrays from tensors, scalars from NumPy's, codes from dtypes."""
    letter = op.letters[index] if index < len(op.letters) else ""
    if isinstance(value, _cann.Array):
        return value
    if letter == "T" and hasattr(value, "__dlpack__"):
        return _array(value)
    if letter == "L" and isinstance(value, (list, tuple)):
        return [_array(each) if hasattr(each, "__dlpack__") else each for each in value]
    if letter == "t" and value is not None:
        return value if isinstance(value, int) else acl_code(value)
    if isinstance(value, np.generic):
        return scalar(value, value.dtype) if letter in ("S", "l") else value.item()
    if isinstance(value, np.ndarray) and letter in ("I", "B", "F"):
        return value.tolist()
    return value


def _array(value: Any) -> _cann.Array:
    # They compute with this module.
    from npu_common.runtime.array import DeviceArray
    from npu_common.runtime.creation import from_dlpack

    if isinstance(value, DeviceArray):
        return value
    if isinstance(value, np.ndarray):
        raise TypeError("a NumPy array is in host memory: runtime.asarray copies it to the device")
    return from_dlpack(value)
