"""Calls an aclnn operator by its name, for the operators that torch_npu has no function for."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

_DATA_TYPES = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6,
    torch.int64: 9, torch.float64: 11, torch.bool: 12, torch.complex64: 16, torch.bfloat16: 27,
}  # fmt: skip
_FORMAT_ND = 2


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libopapi.so")
    for name in (
        "aclCreateTensor",
        "aclCreateScalar",
        "aclCreateTensorList",
        "aclCreateScalarList",
        "aclCreateIntArray",
    ):
        getattr(library, name).restype = ctypes.c_void_p
    return library


def _array(kind: Any, values: Sequence[Any]) -> Any:
    return (kind * len(values))(*values)


def _tensor(library: ctypes.CDLL, x: torch.Tensor) -> ctypes.c_void_p:
    sizes, strides = _array(ctypes.c_int64, x.shape), _array(ctypes.c_int64, x.stride())
    dims = ctypes.c_uint64(x.dim())
    shape = (sizes, dims, _DATA_TYPES[x.dtype], strides, ctypes.c_int64(0), _FORMAT_ND, sizes, dims)
    return ctypes.c_void_p(library.aclCreateTensor(*shape, ctypes.c_void_p(x.data_ptr())))


class Scalar:
    """An aclScalar: int, float or bool."""

    def __init__(self, value: int | float | bool) -> None:
        self.value = value

    def create(self, library: ctypes.CDLL) -> ctypes.c_void_p:
        kinds = {bool: (ctypes.c_bool, 12), int: (ctypes.c_int64, 9), float: (ctypes.c_double, 11)}
        kind, data_type = kinds[type(self.value)]
        return ctypes.c_void_p(library.aclCreateScalar(ctypes.byref(kind(self.value)), data_type))


class Float(float):
    """A parameter of C type float, which is passed unlike a double."""


def _argument(library: ctypes.CDLL, value: Any) -> Any:
    match value:
        case None:
            return ctypes.c_void_p()
        case torch.Tensor():
            return _tensor(library, value)
        case Scalar():
            return value.create(library)
        case bool():
            return ctypes.c_bool(value)
        case int():
            return ctypes.c_int64(value)
        case Float():
            return ctypes.c_float(value)
        case float():
            return ctypes.c_double(value)
        case str():
            return ctypes.c_char_p(value.encode())
        case tuple():
            items = _array(ctypes.c_int64, value)
            return ctypes.c_void_p(library.aclCreateIntArray(items, ctypes.c_uint64(len(items))))
        case [Scalar(), *_]:
            items = _array(ctypes.c_void_p, [_argument(library, item) for item in value])
            return ctypes.c_void_p(library.aclCreateScalarList(items, ctypes.c_uint64(len(items))))
        case list():
            items = _array(ctypes.c_void_p, [_argument(library, item) for item in value])
            return ctypes.c_void_p(library.aclCreateTensorList(items, ctypes.c_uint64(len(items))))
    raise TypeError(f"no aclnn argument is made of {value!r}")


def call(name: str, *arguments: Any) -> None:
    """Runs an operator on the current stream and waits.

    Args:
        name: the operator, without aclnn where it begins so: ``call("MulNoNan", x, y, out)``, ``call("aclStft", ...)``.
        arguments: the parameters before workspaceSize: tensors on npu, lists of them, Scalar, lists of
            Scalar, int (int64_t), a tuple of int (aclIntArray), float (double), bool, str, None.

    Raises:
        RuntimeError: one of the two phases returned an error.
    """
    library = _library()
    torch.npu.synchronize()  # torch_npu's queue has nothing left that writes the operands
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    handles = [_argument(library, argument) for argument in arguments]
    name = name if name.startswith("acl") else f"aclnn{name}"
    prepare, run = getattr(library, f"{name}GetWorkspaceSize"), getattr(library, name)
    if code := prepare(*handles, ctypes.byref(size), ctypes.byref(executor)):
        raise RuntimeError(f"{name}GetWorkspaceSize returned {code}")
    stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
    if code := run(ctypes.c_void_p(), size, executor, stream):
        raise RuntimeError(f"{name} returned {code}")
    torch.npu.synchronize()
