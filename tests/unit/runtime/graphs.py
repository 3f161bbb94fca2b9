"""What the tests of capture share: the calls of aclmdlRI, and CANN's codes."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int32, c_size_t, c_void_p

import pytest

from .conftest import D2D, Acl, AclError

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NONE, ACTIVE, INVALIDATED = 0, 1, 2
DEPENDENCY, UNJOINED, MODEL_CAPTURED, STREAM_CAPTURED, EVENT_CAPTURED, NOT_CAPTURED = range(107024, 107030)
MODE_NOT_SUPPORT, IMPLICIT, CONFLICT, GROUP_STATUS = 107030, 107031, 107032, 107033
UNMATCHED, WRONG_THREAD, BLOCK_ASYNC, INVALID = 107036, 107038, 107041, 507903
FEATURE_NOT_SUPPORT, STREAM_CONTEXT, TASK_TYPE = 207000, 107003, 507009
EXTERNAL = 32


class Graphs:
    """The calls of aclmdlRI, on one library; destroys what was captured."""

    def __init__(self, acl: Acl) -> None:
        self.acl = acl
        self._made: list[c_void_p] = []

    def begin(self, stream: c_void_p, mode: int = GLOBAL) -> None:
        self.acl.call("aclmdlRICaptureBegin", stream, mode)

    def end(self, stream: c_void_p) -> c_void_p:
        graph = c_void_p()
        self.acl.call("aclmdlRICaptureEnd", stream, byref(graph))
        self._made.append(graph)
        return graph

    def end_code(self, stream: c_void_p) -> int:
        graph = c_void_p(1)
        code = self.acl.code("aclmdlRICaptureEnd", stream, byref(graph))
        assert code == 0 or graph.value is None
        return code

    def status(self, stream: c_void_p) -> int:
        status = c_int32()
        self.acl.call("aclmdlRICaptureGetInfo", stream, byref(status), None)
        return status.value

    def replay(self, graph: c_void_p, stream: c_void_p) -> None:
        self.acl.call("aclmdlRIExecuteAsync", graph, stream)

    def destroy(self) -> None:
        for graph in self._made:
            self.acl.code("aclmdlRIDestroy", graph)


def fill(acl: Acl, address: c_void_p, value: int, stream: c_void_p, size: int = 64) -> None:
    acl.call("aclrtMemsetAsync", address, c_size_t(size), value, c_size_t(size), stream)


def copy(acl: Acl, target: c_void_p, source: c_void_p, stream: c_void_p, size: int = 64) -> None:
    acl.call("aclrtMemcpyAsync", target, c_size_t(size), source, c_size_t(size), D2D, stream)


def refused(call: Callable[[], object]) -> int:
    with pytest.raises(AclError) as error:
        call()
    return error.value.code
