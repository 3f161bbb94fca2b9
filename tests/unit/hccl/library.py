"""libhccl by ctypes: ranks that are threads or devices of one process, and single ranks for forked processes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

H2D, D2H, D2D = 1, 2, 3  # aclrtMemcpyKind
SUM, PROD, MAX, MIN = range(4)  # HcclReduceOp
E_PARA, E_PTR, E_NOT_SUPPORT, E_NOT_FOUND, E_TIMEOUT = 1, 2, 5, 6, 9  # HcclResult
E_OPEN_FILE, E_REMOTE, E_SUSPENDING = 10, 21, 22
BF16, INT128 = 11, 12  # HcclDataType; numpy has neither
TYPES = {
    np.dtype(name): code
    for name, code in {
        "int8": 0,
        "int16": 1,
        "int32": 2,
        "float16": 3,
        "float32": 4,
        "int64": 5,
        "uint64": 6,
        "uint8": 7,
        "uint16": 8,
        "uint32": 9,
        "float64": 10,
    }.items()
}


class HcclError(Exception):
    def __init__(self, call: str, code: int, sentence: str) -> None:
        super().__init__(f"{call} answered {code}: {sentence}")
        self.code = code
        self.sentence = sentence


class RootInfo(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 4108)]


class CommConfig(ctypes.Structure):
    """HcclCommConfig, as HcclCommConfigInit leaves it; `size` tells which of its releases the caller knows."""

    _fields_ = [
        ("size", c_size_t),
        ("magic", c_uint32),
        ("version", c_uint32),
        ("reserved", c_uint64),
        ("buffer_size", c_uint32),
        ("deterministic", c_uint32),
        ("name", ctypes.c_char * 128),
        ("udi", ctypes.c_char * 128),
        ("expansion_mode", c_uint32),
        ("traffic_class", c_uint32),
        ("service_level", c_uint32),
        ("world_rank", c_uint32),
        ("job", c_uint64),
        ("zero_copy", ctypes.c_uint8),
        ("exec_timeout", c_int32),
        ("rest", ctypes.c_char * 1928),
    ]

    def __init__(self, name: str = "", exec_timeout: int = -1, size: int = 2248) -> None:
        super().__init__(size=size, magic=0xF0F0F0F0, version=11, buffer_size=200, name=name.encode())
        self.exec_timeout = exec_timeout


class SendRecvItem(ctypes.Structure):
    _fields_ = [
        ("kind", c_uint32),
        ("buffer", c_void_p),
        ("count", c_uint64),
        ("dtype", c_uint32),
        ("peer", c_uint32),
    ]


def counts(values: Sequence[int]) -> ctypes.Array[c_uint64]:
    return (c_uint64 * len(values))(*values)


class Hccl:
    """`hccl.call("HcclBarrier", comm, stream)` raises HcclError unless the function answers 0."""

    def __init__(self, folder: Path) -> None:
        self.acl = ctypes.CDLL(str(folder / "lib64" / "libascendcl.so"))
        self.hccl = ctypes.CDLL(str(folder / "lib64" / "libhccl.so"))
        self.acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.hccl.HcclGetErrorString.restype = ctypes.c_char_p
        self.acl.aclInit(None)  # answers an error where torch_npu did it in this process, which is as good

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.acl if name.startswith("acl") else self.hccl, name)(*arguments)
        if code != 0:
            raise HcclError(name, code, (self.acl.aclGetRecentErrMsg() or b"").decode())

    def root_info(self) -> RootInfo:
        info = RootInfo()
        self.call("HcclGetRootInfo", byref(info))
        return info

    def rank(self, device: int, make: Callable[[c_void_p], None]) -> Rank:
        """A rank on that device; `make` gets the place of its communicator's handle."""
        self.call("aclrtSetDevice", device)
        comm, stream = c_void_p(), c_void_p()
        make(byref(comm))
        self.call("aclrtCreateStream", byref(stream))
        return Rank(self, device, comm, stream)


@dataclass
class Buffer:
    """Device memory that holds an array."""

    pointer: c_void_p
    like: np.ndarray


@dataclass
class Rank:
    """A communicator, and a stream on a device for it."""

    hccl: Hccl
    device: int
    comm: c_void_p
    stream: c_void_p

    def call(self, name: str, *arguments: Any) -> None:
        """A call that ends with the communicator and the stream, as the collectives' do."""
        self.hccl.call("aclrtSetDevice", self.device)
        self.hccl.call(name, *arguments, self.comm, self.stream)

    def upload(self, array: np.ndarray) -> Buffer:
        array = np.ascontiguousarray(array)
        pointer = c_void_p()
        self.hccl.call("aclrtSetDevice", self.device)
        self.hccl.call("aclrtMalloc", byref(pointer), c_size_t(max(array.nbytes, 1)), 0)
        size = c_size_t(array.nbytes)
        if array.nbytes:
            self.hccl.call("aclrtMemcpy", pointer, size, c_void_p(array.ctypes.data), size, H2D)
        return Buffer(pointer, array)

    def download(self, buffer: Buffer) -> np.ndarray:
        """What it holds now, after the stream's work; the memory is freed."""
        array = np.empty_like(buffer.like)
        self.synchronize()
        size = c_size_t(array.nbytes)
        if array.nbytes:
            self.hccl.call("aclrtMemcpy", c_void_p(array.ctypes.data), size, buffer.pointer, size, D2H)
        self.hccl.call("aclrtFree", buffer.pointer)
        return array

    def synchronize(self) -> None:
        self.hccl.call("aclrtSetDevice", self.device)
        self.hccl.call("aclrtSynchronizeStream", self.stream)

    def get(self, name: str, kind: type) -> Any:
        """The value that a function of the communicator writes."""
        value = kind()
        self.hccl.call(name, self.comm, byref(value))
        return value.value

    def async_error(self) -> int:
        return self.get("HcclGetCommAsyncError", c_uint32)

    def destroy(self) -> None:
        self.hccl.call("HcclCommDestroy", self.comm)
        self.hccl.call("aclrtSetDevice", self.device)
        self.hccl.call("aclrtDestroyStream", self.stream)


class World:
    """The ranks of HcclCommInitAll on devices 1 to n of this process."""

    def __init__(self, hccl: Hccl, n: int) -> None:
        self.hccl = hccl
        comms = (c_void_p * n)()
        hccl.call("HcclCommInitAll", n, (c_int32 * n)(*range(1, n + 1)), comms)

        def give(comm: int) -> Callable[[Any], None]:
            return lambda place: ctypes.memmove(place, byref(c_void_p(comm)), ctypes.sizeof(c_void_p))

        self.ranks = [hccl.rank(i + 1, give(comm)) for i, comm in enumerate(comms)]

    def __iter__(self) -> Iterator[Rank]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, index: int) -> Rank:
        return self.ranks[index]

    def collective(
        self,
        name: str,
        sends: Sequence[np.ndarray],
        receives: Sequence[np.ndarray],
        arguments: Callable[[int, c_void_p, c_void_p], Sequence[Any]],
    ) -> list[np.ndarray]:
        """Calls it on every rank with arguments(rank, send, receive); what the receive buffers hold then."""
        outputs = []
        for i, (rank, send, receive) in enumerate(zip(self.ranks, sends, receives, strict=True)):
            sent, received = rank.upload(send), rank.upload(receive)
            rank.call(name, *arguments(i, sent.pointer, received.pointer))
            outputs.append(received)
        return [rank.download(buffer) for rank, buffer in zip(self.ranks, outputs, strict=True)]

    def together(self, function: Callable[[int], Any]) -> list[Any]:
        """function(rank) on a thread for each rank, for calls that wait for each other."""
        return together(len(self), function)

    def destroy(self) -> None:
        for rank in self.ranks:
            rank.destroy()


def together(n: int, function: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(n) as pool:
        return [future.result() for future in [pool.submit(function, i) for i in range(n)]]
