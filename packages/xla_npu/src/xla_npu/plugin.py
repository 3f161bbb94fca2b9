"""The platform npu for JAX: loads libpjrt_npu.so over the toolkit that npu_common finds, and hands it the compiler.

The library knows no Python. It calls back through two functions that are set here; both are called with the
interpreter's lock taken by ctypes, from whichever thread compiles or executes. JAX asks for an array's address under
that lock, so the library is told how to let go of it while it waits.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

import npu_common
from npu_common import toolkit
from xla_npu import errors
from xla_npu.types import by_pjrt

PLATFORM = "npu"
_LIBRARY = "lib/libpjrt_npu.so"
_OK = 0


class HostArray(ctypes.Structure):
    """NpuHostArray of native/pjrt/callbacks.h: a dense array in host memory."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


_Compiler = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
)
_HostCall = ctypes.CFUNCTYPE(
    None,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.POINTER(HostArray),
    ctypes.c_int,
    ctypes.POINTER(HostArray),
    ctypes.c_void_p,
)

_Version = ctypes.c_int64 * 3  # major, minor, patch

_lock = threading.Lock()
_registered: _Plugin | None = None


class _Plugin:
    """The loaded library. Holds the callbacks, which must live as long as the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # RTLD_LOCAL: JAX opens the same file again and gets the same library.
        self.library = ctypes.CDLL(str(path))
        self._reply = self.library.npu_pjrt_reply
        self._reply.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
        self._reply.restype = None
        self._callbacks = (_Compiler(self._compile), _HostCall(self._host_call))
        self.library.npu_pjrt_set_compiler(self._callbacks[0])
        self.library.npu_pjrt_set_host_call(self._callbacks[1])
        python = ctypes.pythonapi
        self.library.npu_pjrt_set_caller_lock(
            python.PyGILState_Check, python.PyEval_SaveThread, python.PyEval_RestoreThread
        )
        atexit.register(self.library.npu_pjrt_set_caller_lock, None, None, None)
        current, oldest = (
            _Version(*map(int, text.split(".")))
            for text in (stablehlo.get_current_version(), stablehlo.get_minimum_version())
        )
        self.library.npu_pjrt_set_stablehlo_versions(current, oldest)

    def _compile(self, program: int, size: int, options: int, options_size: int, reply: int) -> None:
        try:
            from xla_npu.compile import compile_program

            answer = compile_program(_bytes(program, size), _bytes(options, options_size))
            self._reply(reply, _OK, answer, len(answer))
        except errors.CompileError as error:
            self._refuse(reply, error.code, str(error))
        except BaseException as error:  # nothing may pass through the C++ frames above
            self._refuse(reply, errors.INTERNAL, _unexpected("the compiler", error))

    def _host_call(
        self,
        target: bytes,
        attributes: int,
        size: int,
        input_count: int,
        inputs: Any,
        output_count: int,
        outputs: Any,
        reply: int,
    ) -> None:
        try:
            from xla_npu import host

            given = [_array(inputs[i]) for i in range(input_count)]
            wanted = [_array(outputs[i]) for i in range(output_count)]
            host.run(target.decode(), _bytes(attributes, size), given, wanted)
            self._reply(reply, _OK, b"", 0)
        except BaseException as error:  # as above; a KeyboardInterrupt in a callback ends its program
            self._refuse(reply, errors.INTERNAL, _unexpected(f"the host function {target.decode()}", error))

    def _refuse(self, reply: int, code: int, sentence: str) -> None:
        text = sentence.encode()
        self._reply(reply, code, text, len(text))


def register() -> None:
    """Registers the platform with JAX; a second call does nothing.

    Raises:
        toolkit.ToolkitError: there is neither CANN nor the emulator, and what to do.
        FileNotFoundError: npu_common was installed without libpjrt_npu.so.
    """
    global _registered
    from jax._src import xla_bridge  # jax_plugins' own documentation registers by this function

    from xla_npu import callbacks, ffi, jax_lists, linalg, placement

    with _lock:
        if _registered is not None:
            return
        toolkit.activate()
        _registered = _Plugin(library_file())
        jax_lists.extend()
        xla_bridge.register_plugin(PLATFORM, priority=500, library_path=str(_registered.path), options=None)
        for rules in (linalg, callbacks, placement):
            rules.register()
        ffi.register(_registered.library)


def library_file() -> Path:
    """libpjrt_npu.so of the installed npu_common, or the one that NPU_PJRT_LIBRARY names.

    Raises:
        FileNotFoundError: there is none, and what to do.
    """
    named = os.environ.get("NPU_PJRT_LIBRARY", "").strip()
    places = [Path(named)] if named else [Path(folder, _LIBRARY) for folder in npu_common.__path__]
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(
        f"{named or _LIBRARY} is missing: install npu_common again (make setup), or name the file by NPU_PJRT_LIBRARY"
    )


def _bytes(address: int | None, size: int) -> bytes:
    return ctypes.string_at(address, size) if address and size else b""


def _array(raw: HostArray) -> np.ndarray[Any, Any]:
    shape = tuple(raw.dims[i] for i in range(raw.rank))
    dtype = by_pjrt(raw.type).numpy
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.zeros(shape, dtype)
    memory = (ctypes.c_char * size).from_address(raw.data)
    return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)


def _unexpected(what: str, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    return f"{what} failed: {type(error).__name__}: {error}{place}"
