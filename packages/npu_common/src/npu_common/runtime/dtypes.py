"""NumPy's dtypes and CANN's: one table, the one of native/cann/dtype.cpp."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from npu_common import _cann


def _numpy(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


_CODES = {_numpy(name): code for name, code, _ in _cann.DTYPES}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_HCCL = {code: hccl for _, code, hccl in _cann.DTYPES}
_HCCL_RESERVED = 255


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype of a dtype, its name ("bfloat16" among them) or a scalar type."""
    if isinstance(dtype, str) and hasattr(ml_dtypes, dtype):
        dtype = getattr(ml_dtypes, dtype)
    return np.dtype(dtype)


def acl_code(dtype: Any) -> int:
    """The aclDataType of a NumPy dtype.

    Raises:
        TypeError: arrays in device memory cannot have it.
    """
    found = dtype_of(dtype)
    code = _CODES.get(found)
    if code is None:
        known = ", ".join(str(each) for each in _CODES)
        raise TypeError(f"no array on an NPU has dtype {found}; there are {known}")
    return code


def numpy_dtype(code: int) -> np.dtype[Any]:
    """The NumPy dtype of an aclDataType that arrays have."""
    return _DTYPES[code]


def hccl_code(code: int) -> int:
    """The HcclDataType of an aclDataType.

    Raises:
        TypeError: HCCL does not carry it.
    """
    hccl = _HCCL[code]
    if hccl == _HCCL_RESERVED:
        raise TypeError(
            f"HCCL carries no {_DTYPES[code]}; view it as a type of the same size (uint8 for bool)"
        )
    return hccl
