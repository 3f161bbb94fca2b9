"""What the bindings cost above CANN: npu_common against ctypes, which calls the same functions with nothing between."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from benchmarks.pair import Comparison, report

CALLS = 5000
ACL_FLOAT, ACL_INT64, ACL_FORMAT_ND = 0, 9, 2


def _library(name: str) -> ctypes.CDLL:
    from npu_common import toolkit

    return ctypes.CDLL(str(toolkit.activate().root / "lib64" / name))


def stream_call() -> Callable[[], None]:
    """`stream.idle` of an empty stream: the cheapest call there is."""
    from npu_common.runtime import Stream

    stream = Stream()

    def work() -> None:
        for _ in range(CALLS):
            stream.idle  # noqa: B018

    return work


def stream_call_by_ctypes() -> Callable[[], None]:
    acl = _library("libascendcl.so")
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    stream, status = ctypes.c_void_p(), ctypes.c_int()
    acl.aclrtCreateStream(ctypes.byref(stream))

    def work() -> None:
        for _ in range(CALLS):
            if acl.aclrtStreamQuery(stream, ctypes.byref(status)) != 0:
                raise RuntimeError("aclrtStreamQuery failed")

    return work


def add() -> Callable[[], None]:
    """aclnnAdd of 16 floats, many times, then one synchronise."""
    from npu_common import runtime

    x, out = runtime.zeros(16), runtime.empty(16)
    call, stream = runtime.ops.call, runtime.current_stream()

    def work() -> None:
        for _ in range(CALLS):
            call("aclnnAdd", x, x, 1, out)
        stream.synchronize()

    return work


def add_by_ctypes() -> Callable[[], None]:
    """The same as a careful client does it by hand: handles made and destroyed for each call, codes looked at."""
    acl, ops = _library("libascendcl.so"), _library("libopapi.so")
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    stream, memory = ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(2)]
    acl.aclrtCreateStream(ctypes.byref(stream))
    for address in memory:
        acl.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(64), 0)
        acl.aclrtMemset(address, ctypes.c_size_t(64), 0, ctypes.c_size_t(64))
    for function in (ops.aclCreateTensor, ops.aclCreateScalar):
        function.restype = ctypes.c_void_p
    shape, strides, storage = (ctypes.c_int64 * 1)(16), (ctypes.c_int64 * 1)(1), (ctypes.c_int64 * 1)(16)
    one, nothing = ctypes.c_int64(1), ctypes.c_int64(0)

    def tensor(address: ctypes.c_void_p) -> ctypes.c_void_p:
        dims = ctypes.c_uint64(1)
        return ctypes.c_void_p(
            ops.aclCreateTensor(
                shape, dims, ACL_FLOAT, strides, nothing, ACL_FORMAT_ND, storage, dims, address
            )
        )

    def work() -> None:
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        for _ in range(CALLS):
            x, y, out = tensor(memory[0]), tensor(memory[0]), tensor(memory[1])
            alpha = ctypes.c_void_p(ops.aclCreateScalar(ctypes.byref(one), ACL_INT64))
            first = ops.aclnnAddGetWorkspaceSize(x, y, alpha, out, ctypes.byref(size), ctypes.byref(executor))
            if first != 0 or ops.aclnnAdd(None, size, executor, stream) != 0:
                raise RuntimeError("aclnnAdd failed")
            for handle in (x, y, out):
                ops.aclDestroyTensor(handle)
            ops.aclDestroyScalar(alpha)
        acl.aclrtSynchronizeStream(stream)

    return work


COMPARISONS = (
    Comparison("one empty stream call", stream_call, stream_call_by_ctypes, goal=1.5, units=CALLS, rounds=15),
    Comparison("aclnnAdd of 16 floats", add, add_by_ctypes, goal=1.0, units=CALLS, rounds=15),
)


def run(cores: list[int]) -> bool:
    """Print a line a comparison; true when a ratio is beyond its goal."""
    return report(COMPARISONS, cores, "npu_common", "ctypes", "us")
