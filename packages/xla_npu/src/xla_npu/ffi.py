"""The user's custom calls (`jax.ffi`): handlers registered for npu, which programs call on the device's stream.

`jax.ffi.register_ffi_target(name, capsule, platform="npu")` comes here through jaxlib's own hook for platforms; the
handlers live in libpjrt_npu.so. What a program holds of a call is in host/ffi.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from jaxlib import xla_client

from xla_npu import host

PLATFORM = "npu"
_TYPED = 1  # jax.ffi's api_version of handlers written with xla/ffi/api/ffi.h
_EXECUTE = "execute"
_ERROR_BYTES = 4096


def register(library: ctypes.CDLL) -> None:
    """Tells jaxlib who takes the handlers and types for npu; those that were registered before come at once."""
    add_target = _entry(library.npu_pjrt_register_ffi_target, ctypes.c_char_p, ctypes.c_void_p)
    add_type = _entry(library.npu_pjrt_register_ffi_type, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))

    def target(name: str | bytes, handler: Any, platform: str, api_version: int, traits: Any) -> None:
        del platform, traits  # traits are hints for backends that record commands
        text = name.decode() if isinstance(name, bytes) else name
        if api_version != _TYPED:
            raise NotImplementedError(
                f"the custom call '{text}' has the untyped interface (api_version {api_version}); npu has the typed FFI"
            )
        add_target(text.encode(), _address(_execute_stage(text, handler)))
        host.hosted(f"custom_call:{text}")(_request)

    def type_id(name: str, given: Any) -> None:
        capsule = given["type_id"] if isinstance(given, dict) else given
        add_type(name.encode(), ctypes.cast(_address(capsule), ctypes.POINTER(ctypes.c_int64)))

    xla_client.register_custom_call_handler(PLATFORM, target)
    xla_client.register_custom_type_handler(PLATFORM, type_id)


def _request(operation: Any) -> host.Request:
    from xla_npu.host import ffi  # as late as this: most processes have no such call

    return ffi.request(operation)


def _entry(function: Any, *arguments: Any) -> Callable[..., None]:
    """An exported function of the library that answers a PJRT_Error_Code, as one that raises."""
    function.argtypes = (*arguments, ctypes.c_char_p, ctypes.c_size_t)
    function.restype = ctypes.c_int

    def call(*given: Any) -> None:
        message = ctypes.create_string_buffer(_ERROR_BYTES)
        if function(*given, message, _ERROR_BYTES) != 0:
            raise RuntimeError(message.value.decode(errors="replace"))

    return call


def _execute_stage(target: str, handler: Any) -> Any:
    if not isinstance(handler, dict):
        return handler
    others = sorted(stage for stage, each in handler.items() if stage != _EXECUTE and each is not None)
    if others or handler.get(_EXECUTE) is None:
        raise NotImplementedError(
            f"the FFI target '{target}' has the stages {others or sorted(handler)}; npu runs the stage execute only"
        )
    return handler[_EXECUTE]


def _address(capsule: Any) -> int:
    """What a PyCapsule of any name points to."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(pointer_of(capsule, name_of(capsule)))
