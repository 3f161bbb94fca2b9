"""Data types: NumPy's (and ml_dtypes') names and numbers on one side, the graph engine's two numberings on the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

DType = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    ge: int  # ge::DataType and aclDataType: what attributes such as Cast's dst_type hold
    proto: int  # the model protobuf's own DataType: what tensor descriptors hold
    numpy: Any


# Sources: facts/enums.json (aclDataType), facts/ge_ir_proto.json (DataType). Types without a NumPy form
# (hifloat8, complex32, packed int4, quantised types) are left out: a graph that holds one is refused.
_ROWS = (
    _Row("float32", 0, 1, np.float32),
    _Row("float16", 1, 2, np.float16),
    _Row("int8", 2, 3, np.int8),
    _Row("int32", 3, 7, np.int32),
    _Row("uint8", 4, 4, np.uint8),
    _Row("int16", 6, 5, np.int16),
    _Row("uint16", 7, 6, np.uint16),
    _Row("uint32", 8, 9, np.uint32),
    _Row("int64", 9, 8, np.int64),
    _Row("uint64", 10, 10, np.uint64),
    _Row("float64", 11, 12, np.float64),
    _Row("bool", 12, 11, np.bool_),
    _Row("complex64", 16, 16, np.complex64),
    _Row("complex128", 17, 17, np.complex128),
    _Row("bfloat16", 27, 27, ml_dtypes.bfloat16),
    _Row("float8_e5m2", 35, 34, ml_dtypes.float8_e5m2),
    _Row("float8_e4m3fn", 36, 35, ml_dtypes.float8_e4m3fn),
    _Row("float8_e8m0fnu", 37, 36, ml_dtypes.float8_e8m0fnu),
)
_BY_NAME = {row.name: row for row in _ROWS}
# The graph language's C++ side calls it by CANN's name.
_ALIASES = {"float8_e8m0": "float8_e8m0fnu", "double": "float64", "float": "float32", "half": "float16"}

ABSENT = "undefined"  # the graph language's dtype of an optional input that is not given


@cache
def dtype(like: Any) -> DType:
    """The dtype of a name ("bfloat16"), a NumPy or ml_dtypes type, or a dtype.

    Raises:
        TypeError: the graph engine has no such type, or it has no NumPy form.
    """
    if isinstance(like, str):
        row = _BY_NAME.get(_ALIASES.get(like, like))
        if row is not None:
            return np.dtype(row.numpy)
    else:
        try:
            found = np.dtype(like)
        except TypeError:
            found = None
        if found is not None and found.name in _BY_NAME:
            return found
    raise TypeError(f"{like!r} is not a data type of a graph; those are {', '.join(_BY_NAME)}")


def language_name(like: DType) -> str:
    """The name the graph language's C++ side knows."""
    return "float8_e8m0" if like.name == "float8_e8m0fnu" else like.name


def ge_number(like: Any) -> int:
    return _BY_NAME[dtype(like).name].ge


def proto_number(like: Any) -> int:
    return _BY_NAME[dtype(like).name].proto


_BY_GE = {row.ge: row for row in _ROWS}
_BY_PROTO = {row.proto: row for row in _ROWS}


def from_ge(number: int) -> DType:
    """Raises TypeError for a number of ge::DataType without a NumPy form."""
    if number not in _BY_GE:
        raise TypeError(f"ge::DataType {number} has no NumPy form")
    return np.dtype(_BY_GE[number].numpy)


def from_proto(number: int) -> DType:
    """Raises TypeError for a number of the model protobuf's DataType without a NumPy form."""
    if number not in _BY_PROTO:
        raise TypeError(f"data type {number} of the model protobuf has no NumPy form")
    return np.dtype(_BY_PROTO[number].numpy)


def is_float(like: DType) -> bool:
    return like.name.startswith(("float", "bfloat"))


def is_integer(like: DType) -> bool:
    return like.name.startswith(("int", "uint"))
