"""Element types in their four names: StableHLO's, PJRT's, NumPy's and the graph engine's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from xla_npu.errors import Unsupported

DType = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Element:
    """`numpy`: how the host sees an element. `graph`: as what it travels through a graph; types that the graph
    engine has not are bytes there."""

    stablehlo: str
    pjrt: int
    numpy: DType
    graph: DType

    @property
    def is_storage(self) -> bool:
        """Held and moved, never computed with: convert first."""
        return self.numpy != self.graph


def _row(stablehlo: str, pjrt: int, numpy: Any, graph: Any = None) -> Element:
    return Element(stablehlo, pjrt, np.dtype(numpy), np.dtype(numpy if graph is None else graph))


# Numbers: PJRT_Buffer_Type (pjrt_c_api.h).
_ROWS = (
    _row("i1", 1, np.bool_),
    _row("i8", 2, np.int8),
    _row("i16", 3, np.int16),
    _row("i32", 4, np.int32),
    _row("i64", 5, np.int64),
    _row("ui8", 6, np.uint8),
    _row("ui16", 7, np.uint16),
    _row("ui32", 8, np.uint32),
    _row("ui64", 9, np.uint64),
    _row("f16", 10, np.float16),
    _row("f32", 11, np.float32),
    _row("f64", 12, np.float64),
    _row("bf16", 13, ml_dtypes.bfloat16),
    _row("complex<f32>", 14, np.complex64),
    _row("complex<f64>", 15, np.complex128),
    _row("f8E5M2", 16, ml_dtypes.float8_e5m2, np.uint8),
    _row("f8E4M3FN", 17, ml_dtypes.float8_e4m3fn, np.uint8),
    _row("f8E4M3B11FNUZ", 18, ml_dtypes.float8_e4m3b11fnuz, np.uint8),
    _row("f8E5M2FNUZ", 19, ml_dtypes.float8_e5m2fnuz, np.uint8),
    _row("f8E4M3FNUZ", 20, ml_dtypes.float8_e4m3fnuz, np.uint8),
    _row("i4", 21, ml_dtypes.int4, np.uint8),
    _row("ui4", 22, ml_dtypes.uint4, np.uint8),
    _row("i2", 24, ml_dtypes.int2, np.uint8),
    _row("ui2", 25, ml_dtypes.uint2, np.uint8),
    _row("f8E4M3", 26, ml_dtypes.float8_e4m3, np.uint8),
    _row("f8E3M4", 27, ml_dtypes.float8_e3m4, np.uint8),
    _row("f8E8M0FNU", 28, ml_dtypes.float8_e8m0fnu, np.uint8),
    _row("f4E2M1FN", 29, ml_dtypes.float4_e2m1fn, np.uint8),
)
_BY_STABLEHLO = {row.stablehlo: row for row in _ROWS}
TOKEN = 23


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of an array: its element and its sizes."""

    element: Element
    shape: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """The element as graphs hold it."""
        return self.element.graph

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@cache
def element_named(name: str) -> Element:
    """Raises Unsupported for an element type that PJRT buffers cannot hold."""
    if name not in _BY_STABLEHLO:
        raise Unsupported(
            f"arrays of {name} are not supported on npu; cast to one of {', '.join(_BY_STABLEHLO)}"
        )
    return _BY_STABLEHLO[name]


def tensor_type(type: Any) -> TensorType:
    """The type of an MLIR value.

    Raises:
        Unsupported: sizes that are not known when compiling, or an element type without a form here.
    """
    if not isinstance(type, ir.RankedTensorType):
        raise Unsupported(f"a value of type {type} is not supported on npu")
    if not type.has_static_shape:
        raise Unsupported(
            f"{type} has sizes that are not known when compiling: give the program fixed shapes"
        )
    return TensorType(element_named(str(type.element_type)), tuple(type.shape))


def is_token(type: Any) -> bool:
    """Whether values of the type only order effects."""
    return str(type) == "!stablehlo.token"


_BY_PJRT = {row.pjrt: row for row in _ROWS}


def by_pjrt(number: int) -> Element:
    """The element of a PJRT_Buffer_Type. Raises KeyError for one that holds no arrays."""
    return _BY_PJRT[number]
