"""libpjrt_npu.so called through ctypes, with the structs of pypjrt, which come from OpenXLA's headers by libclang."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from pypjrt._abi import pjrt_0_114 as abi

from npu_common import toolkit
from xla_npu import plugin

UNIMPLEMENTED = 12
INVALID_ARGUMENT = 3


@cache
def table() -> Any:
    """The PJRT_Api struct."""
    toolkit.activate()
    library = ctypes.CDLL(str(plugin.library_file()))
    library.GetPjrtApi.restype = ctypes.POINTER(abi.PJRT_Api)
    return library.GetPjrtApi().contents


class PjrtError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def arguments(function: str, **fields: Any) -> Any:
    """The arguments of a function: zeros but for what is given."""
    made = getattr(abi, f"{function}_Args")()
    made.struct_size = ctypes.sizeof(made)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def call(function: str, /, **fields: Any) -> Any:
    """Calls a function of the table; answers its arguments, filled in.

    Raises:
        PjrtError: what it answered.
    """
    made = arguments(function, **fields)
    address = getattr(table(), function)
    error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)(ctypes.addressof(made))
    if error and function not in ("PJRT_Error_Destroy", "PJRT_Error_Message"):
        raise _taken(error)
    return made


def _taken(error: int) -> PjrtError:
    message, code = call("PJRT_Error_Message", error=error), call("PJRT_Error_GetCode", error=error)
    text = ctypes.string_at(message.message, message.message_size).decode()
    call("PJRT_Error_Destroy", error=error)
    return PjrtError(code.code, text)
