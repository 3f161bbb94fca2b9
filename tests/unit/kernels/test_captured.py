"""aclnn operators called by name, captured and replayed as an executor of graphs does it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_void_p

import pytest
import torch
import torch_npu  # noqa: F401

from . import aclnn

ACL = ctypes.CDLL("libascendcl.so")
ACL.aclGetRecentErrMsg.restype = ctypes.c_char_p
INTERNAL, INVALID_PARAM = 507000, 100000


def check(code: int) -> None:
    assert code == 0, (ACL.aclGetRecentErrMsg() or b"").decode()


@pytest.fixture
def stream() -> Iterator[c_void_p]:
    torch.npu.current_stream()  # sets the device
    stream = c_void_p()
    check(ACL.aclrtCreateStream(byref(stream)))
    yield stream
    check(ACL.aclrtSynchronizeStream(stream))
    check(ACL.aclrtDestroyStream(stream))


def launch(stream: c_void_p, name: str, *arguments: object) -> None:
    """Both phases, without waiting."""
    library, size, executor = aclnn._library(), ctypes.c_uint64(), c_void_p()
    handles = [aclnn._argument(library, argument) for argument in arguments]
    check(getattr(library, f"{name}GetWorkspaceSize")(*handles, byref(size), byref(executor)))
    check(getattr(library, name)(c_void_p(), size, executor, stream))


def capture(stream: c_void_p, work: Callable[[], None]) -> c_void_p:
    graph = c_void_p()
    check(ACL.aclmdlRICaptureBegin(stream, 0))
    work()
    check(ACL.aclmdlRICaptureEnd(stream, byref(graph)))
    return graph


def replay(graph: c_void_p, stream: c_void_p) -> None:
    check(ACL.aclmdlRIExecuteAsync(graph, stream))
    check(ACL.aclrtSynchronizeStream(stream))


def add(stream: c_void_p, x: torch.Tensor, y: torch.Tensor, alpha: float, out: torch.Tensor) -> None:
    launch(stream, "aclnnAdd", x, y, aclnn.Scalar(alpha), out)


def test_a_sequence_of_operators(stream: c_void_p) -> None:
    x, y, z = (torch.full((64,), v, device="npu") for v in (1.0, 2.0, 0.0))
    torch.npu.synchronize()

    def work() -> None:
        add(stream, x, y, 2.0, z)
        launch(stream, "aclnnMul", z, z, x)

    graph, expected = capture(stream, work), 1.0
    assert z[0].item() == 0.0
    for _ in range(3):  # 25, 841, 714025: exact in float32
        replay(graph, stream)
        expected = (expected + 4.0) ** 2
        assert x[0].item() == expected
    check(ACL.aclmdlRIDestroy(graph))


def group_of(stream: c_void_p, work: Callable[[], None]) -> c_void_p:
    handle = c_void_p()
    check(ACL.aclmdlRICaptureTaskGrpBegin(stream))
    work()
    check(ACL.aclmdlRICaptureTaskGrpEnd(stream, byref(handle)))
    return handle


def test_operators_of_a_group_are_replaced(stream: c_void_p) -> None:
    x, y, out = (torch.full((64,), v, device="npu") for v in (1.0, 2.0, 0.0))
    other = c_void_p()
    check(ACL.aclrtCreateStream(byref(other)))
    torch.npu.synchronize()
    groups: list[c_void_p] = []
    graph = capture(stream, lambda: groups.append(group_of(stream, lambda: add(stream, x, y, 1.0, out))))
    replay(graph, stream)
    assert out[0].item() == 3.0

    check(ACL.aclmdlRICaptureTaskUpdateBegin(other, groups[0]))
    add(other, x, y, 5.0, out)
    check(ACL.aclmdlRICaptureTaskUpdateEnd(other))
    check(ACL.aclrtSynchronizeStream(other))
    assert out[0].item() == 3.0  # an update runs nothing
    replay(graph, stream)
    assert out[0].item() == 11.0

    check(ACL.aclmdlRICaptureTaskUpdateBegin(other, groups[0]))
    launch(other, "aclnnMul", x, y, out)
    assert ACL.aclmdlRICaptureTaskUpdateEnd(other) == INTERNAL
    check(ACL.aclmdlRICaptureTaskUpdateBegin(other, groups[0]))
    assert ACL.aclmdlRICaptureTaskUpdateEnd(other) == INTERNAL
    replay(graph, stream)
    assert out[0].item() == 11.0

    check(ACL.aclmdlRIDestroy(graph))
    assert ACL.aclmdlRICaptureTaskUpdateBegin(other, groups[0]) == INVALID_PARAM
    check(ACL.aclrtDestroyStream(other))


def test_a_failing_operator_of_a_graph_is_named(stream: c_void_p, device_that_fails: None) -> None:
    x, out = torch.ones(4, device="npu"), torch.zeros(1, device="npu")
    index = torch.tensor([1], device="npu")
    torch.npu.synchronize()
    graph = capture(stream, lambda: launch(stream, "aclnnIndexSelect", x, 0, index, out))
    replay(graph, stream)
    assert out.item() == 1.0
    index.fill_(9)
    torch.npu.synchronize()
    check(ACL.aclmdlRIExecuteAsync(graph, stream))
    assert ACL.aclrtSynchronizeStream(stream) != 0
    assert "aclnnIndexSelect failed on the device" in (ACL.aclGetRecentErrMsg() or b"").decode()
    check(ACL.aclmdlRIDestroy(graph))
    check(ACL.aclrtResetDevice(0))
    check(ACL.aclrtSetDevice(0))


def best_of(tries: int, work: Callable[[], None]) -> float:
    """Seconds; the least of some tries, as other programs only ever add."""
    times = []
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def test_a_replayed_operator_costs_less_than_a_launched_one(stream: c_void_p) -> None:
    """200 dependent additions from Python. In C++ a launch costs 0.75 to 1.2 us, a replayed one 0.5 to 0.85."""
    count, x, one = 200, torch.ones(16, device="npu"), torch.ones(16, device="npu")
    torch.npu.synchronize()

    def work() -> None:
        for _ in range(count):
            add(stream, x, one, 1.0, x)

    def launched() -> None:
        work()
        check(ACL.aclrtSynchronizeStream(stream))

    eager = best_of(5, launched)
    graph = capture(stream, work)
    replayed = best_of(5, lambda: replay(graph, stream))
    assert x[0].item() == 1 + 10 * count
    assert replayed < eager / 2
    check(ACL.aclmdlRIDestroy(graph))
