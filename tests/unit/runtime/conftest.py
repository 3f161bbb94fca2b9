"""A small binding of the runtime: calls by name, checked, with the library's own sentence in the failure."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
H2D, D2H, D2D = 1, 2, 3  # aclrtMemcpyKind
HBM = 1  # aclrtMemAttr
MiB = 1 << 20


class AclError(Exception):
    def __init__(self, call: str, code: int, sentence: str) -> None:
        super().__init__(f"{call} answered {code}: {sentence}")
        self.code = code
        self.sentence = sentence


class Acl:
    """`acl.call("aclrtSetDevice", 0)` raises AclError unless the function answers 0."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.CDLL(str(folder / "lib64" / "libascendcl.so"))
        self.library.aclGetRecentErrMsg.restype = ctypes.c_char_p

    def code(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        code = self.code(name, *arguments)
        if code != 0:
            raise AclError(name, code, self.sentence())

    def sentence(self) -> str:
        return (self.library.aclGetRecentErrMsg() or b"").decode()

    def stream(self) -> c_void_p:
        stream = c_void_p()
        self.call("aclrtCreateStream", byref(stream))
        return stream

    def event(self, flags: int = 8) -> c_void_p:
        event = c_void_p()
        self.call("aclrtCreateEventExWithFlag", byref(event), c_uint32(flags))
        return event

    def malloc(self, size: int) -> c_void_p:
        address = c_void_p()
        self.call("aclrtMalloc", byref(address), c_size_t(size), 0)
        return address

    def free_bytes(self) -> int:
        free, total = c_size_t(), c_size_t()
        self.call("aclrtGetMemInfo", HBM, byref(free), byref(total))
        return free.value

    def upload(self, data: bytes) -> c_void_p:
        address = self.malloc(len(data))
        self.call("aclrtMemcpy", address, c_size_t(len(data)), data, c_size_t(len(data)), H2D)
        return address

    def download(self, address: c_void_p | int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        address = c_void_p(address) if isinstance(address, int) else address
        self.call("aclrtMemcpy", buffer, c_size_t(size), address, c_size_t(size), D2H)
        return buffer.raw

    def recorded(self, event: c_void_p) -> bool:
        status = c_int32()
        self.call("aclrtQueryEventStatus", event, byref(status))
        return status.value == 1

    def value_wait(self, stream: c_void_p, address: c_void_p, value: int) -> None:
        """Holds the stream until the 64 bits at the address are `value`."""
        self.call("aclrtValueWait", address, c_uint64(value), c_uint32(1), stream)

    def poke(self, address: c_void_p, value: int) -> None:
        self.call("aclrtMemcpy", address, c_size_t(8), byref(c_uint64(value)), c_size_t(8), H2D)


@pytest.fixture(scope="session")
def _library(toolkit_folder: Path) -> Acl:
    acl = Acl(toolkit_folder)
    acl.code("aclInit", None)  # torch_npu may have done it in this process
    return acl


@pytest.fixture
def acl(_library: Acl) -> Iterator[Acl]:
    """The runtime, on device 0; whatever a test left behind there is dropped."""
    _library.call("aclrtSetDevice", 0)
    yield _library
    _library.call("aclrtResetDevice", 0)


@pytest.fixture
def gate(acl: Acl) -> Iterator[Gate]:
    """Holds streams until it is opened: `gate.hold(stream)`, `gate.open()`."""
    gate = Gate(acl)
    yield gate
    gate.open()


class Gate:
    def __init__(self, acl: Acl) -> None:
        self._acl = acl
        self._word = acl.upload(bytes(8))

    def hold(self, stream: c_void_p) -> None:
        self._acl.value_wait(stream, self._word, 1)

    def open(self) -> None:
        self._acl.poke(self._word, 1)


Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Runs this python on `code` in a process of its own: `python("import torch", NPU_EMULATOR_HBM_GB="1")`."""

    def run(code: str, timeout: float = 300, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            check=False,
        )

    return run


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """True as soon as the condition holds; False if it does not within that time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True
