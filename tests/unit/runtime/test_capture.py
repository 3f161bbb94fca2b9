"""Capture and replay (aclmdlRI): what is recorded, what is refused while it is, and how a capture ends.

Codes: CANN's rt_error_codes.h (native/cann/facts/enums.json); which call answers which: CANN's documentation of
aclmdlRICaptureBegin and aclmdlRICaptureThreadExchangeMode, and its open runtime (capture_session.cc).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from .conftest import D2H, H2D, HOST_FUNCTION, Acl, Gate
from .graphs import (
    ACTIVE,
    BLOCK_ASYNC,
    CONFLICT,
    DEPENDENCY,
    EVENT_CAPTURED,
    FEATURE_NOT_SUPPORT,
    GLOBAL,
    IMPLICIT,
    INVALID,
    INVALIDATED,
    MODE_NOT_SUPPORT,
    NONE,
    NOT_CAPTURED,
    RELAXED,
    STREAM_CAPTURED,
    THREAD_LOCAL,
    UNJOINED,
    UNMATCHED,
    WRONG_THREAD,
    Graphs,
    copy,
    fill,
    refused,
)


@pytest.fixture
def graphs(acl: Acl) -> Iterator[Graphs]:
    graphs = Graphs(acl)
    yield graphs
    graphs.destroy()


def test_a_capture_records_and_a_replay_runs(acl: Acl, graphs: Graphs) -> None:
    stream, a, b = acl.stream(), acl.upload(bytes(64)), acl.upload(bytes(64))
    graphs.begin(stream)
    assert graphs.status(stream) == ACTIVE
    fill(acl, a, 5, stream)
    copy(acl, b, a, stream)
    graph = graphs.end(stream)
    assert graphs.status(stream) == NONE
    assert acl.download(b, 64) == bytes(64)
    graphs.replay(graph, stream)
    acl.call("aclrtSynchronizeStream", stream)
    assert acl.download(b, 64) == bytes([5] * 64)


def test_the_handle_is_known_while_it_is_captured(acl: Acl, graphs: Graphs) -> None:
    """torch_npu compares both."""
    stream, during = acl.stream(), c_void_p()
    graphs.begin(stream)
    acl.call("aclmdlRICaptureGetInfo", stream, byref(c_int32()), byref(during))
    assert graphs.end(stream).value == during.value


def test_a_replay_reads_what_memory_holds_then(acl: Acl, graphs: Graphs) -> None:
    stream, a, b = acl.stream(), acl.upload(bytes(64)), acl.upload(bytes(64))
    graphs.begin(stream)
    copy(acl, b, a, stream)
    graph = graphs.end(stream)
    for value in (3, 4):
        fill(acl, a, value, stream)
        graphs.replay(graph, stream)
        acl.call("aclrtSynchronizeStream", stream)
        assert acl.download(b, 64) == bytes([value] * 64)


def test_a_replay_is_asynchronous_and_in_stream_order(acl: Acl, graphs: Graphs, gate: Gate) -> None:
    stream, a = acl.stream(), acl.upload(bytes(64))
    graphs.begin(stream)
    fill(acl, a, 1, stream)
    graph = graphs.end(stream)
    gate.hold(stream)
    graphs.replay(graph, stream)
    fill(acl, a, 2, stream)
    assert acl.download(a, 64) == bytes(64)
    gate.open()
    acl.call("aclrtSynchronizeStream", stream)
    assert acl.download(a, 64) == bytes([2] * 64)


def test_a_thousand_replays_of_a_forked_graph(acl: Acl, graphs: Graphs) -> None:
    calls: list[int] = []
    function = HOST_FUNCTION(lambda _: calls.append(1))
    stream, side, fork, join = acl.stream(), acl.stream(), acl.event(), acl.event()
    a, b = acl.upload(bytes(64)), acl.upload(bytes(64))
    graphs.begin(stream)
    fill(acl, a, 7, stream)
    acl.call("aclrtRecordEvent", fork, stream)
    acl.call("aclrtStreamWaitEvent", side, fork)
    copy(acl, b, a, side)
    acl.call("aclrtLaunchHostFunc", side, function, None)
    acl.call("aclrtRecordEvent", join, side)
    acl.call("aclrtStreamWaitEvent", stream, join)
    fill(acl, a, 0, stream)
    graph = graphs.end(stream)
    for _ in range(1000):
        graphs.replay(graph, stream)
    acl.call("aclrtSynchronizeStream", stream)
    assert len(calls) == 1000
    assert (acl.download(a, 64), acl.download(b, 64)) == (bytes(64), bytes([7] * 64))


def test_a_stream_that_waits_for_another_lane_does_wait(acl: Acl, graphs: Graphs, gate: Gate) -> None:
    stream, side, fork, join = acl.stream(), acl.stream(), acl.event(), acl.event()
    a, b = acl.upload(bytes(64)), acl.upload(bytes(64))
    graphs.begin(stream)
    acl.call("aclrtRecordEvent", fork, stream)
    acl.call("aclrtStreamWaitEvent", side, fork)
    gate.hold(side)
    fill(acl, a, 9, side)
    acl.call("aclrtRecordEvent", join, side)
    acl.call("aclrtStreamWaitEvent", stream, join)
    copy(acl, b, a, stream)
    graph = graphs.end(stream)
    graphs.replay(graph, stream)
    assert refused(lambda: acl.call("aclrtSynchronizeStreamWithTimeout", stream, 30)) != 0
    gate.open()
    acl.call("aclrtSynchronizeStreamWithTimeout", stream, 5000)
    assert acl.download(b, 64) == bytes([9] * 64)


def test_notifies_and_subscribed_callbacks_are_replayed(acl: Acl, graphs: Graphs) -> None:
    calls: list[int] = []
    function = HOST_FUNCTION(lambda _: calls.append(1))
    stream, notify = acl.stream(), c_void_p()
    acl.call("aclrtCreateNotify", byref(notify), c_uint64(0))
    acl.library.pthread_self.restype = c_uint64
    thread = c_uint64(acl.library.pthread_self())
    acl.call("aclrtSubscribeReport", thread, stream)
    graphs.begin(stream)
    acl.call("aclrtRecordNotify", notify, stream)
    acl.call("aclrtWaitAndResetNotify", notify, stream, c_uint32(0))
    acl.call("aclrtLaunchCallback", function, None, 1, stream)
    graph = graphs.end(stream)
    for expected in (1, 2):
        graphs.replay(graph, stream)
        acl.call("aclrtProcessReport", 5000)
        acl.call("aclrtSynchronizeStreamWithTimeout", stream, 5000)
        assert len(calls) == expected
    acl.call("aclrtUnSubscribeReport", thread, stream)


# What may not be captured, and what ends a capture.


def test_a_default_stream_cannot_be_captured(graphs: Graphs) -> None:
    assert refused(lambda: graphs.begin(c_void_p())) == IMPLICIT


def test_a_stream_is_captured_once_at_a_time(acl: Acl, graphs: Graphs) -> None:
    stream = acl.stream()
    graphs.begin(stream)
    assert refused(lambda: graphs.begin(stream)) == STREAM_CAPTURED
    assert graphs.end_code(stream) == 0
    assert graphs.end_code(stream) == NOT_CAPTURED


def test_a_stream_that_was_not_joined_back(acl: Acl, graphs: Graphs) -> None:
    stream, side, fork, a = acl.stream(), acl.stream(), acl.event(), acl.upload(bytes(64))
    graphs.begin(stream)
    acl.call("aclrtRecordEvent", fork, stream)
    acl.call("aclrtStreamWaitEvent", side, fork)
    fill(acl, a, 1, side)
    assert graphs.end_code(side) == UNMATCHED
    assert graphs.end_code(stream) == UNJOINED
    assert "not joined back" in acl.sentence()
    assert graphs.status(side) == NONE


SYNCHRONOUS: dict[str, tuple[Callable[[Acl, c_void_p, c_void_p], int], int]] = {
    "aclrtSynchronizeStream": (lambda acl, s, e: acl.code("aclrtSynchronizeStream", s), STREAM_CAPTURED),
    "aclrtStreamQuery": (
        lambda acl, s, e: acl.code("aclrtStreamQuery", s, byref(c_int32())),
        STREAM_CAPTURED,
    ),
    "aclrtDestroyStream": (lambda acl, s, e: acl.code("aclrtDestroyStream", s), STREAM_CAPTURED),
    "aclrtSynchronizeDevice": (lambda acl, s, e: acl.code("aclrtSynchronizeDevice"), STREAM_CAPTURED),
    "aclrtSynchronizeEvent": (lambda acl, s, e: acl.code("aclrtSynchronizeEvent", e), EVENT_CAPTURED),
    "aclrtQueryEventStatus": (
        lambda acl, s, e: acl.code("aclrtQueryEventStatus", e, byref(c_int32())),
        EVENT_CAPTURED,
    ),
}


@pytest.mark.parametrize("mode", [GLOBAL, RELAXED])
@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_what_waits_for_a_capture_makes_it_invalid(acl: Acl, graphs: Graphs, name: str, mode: int) -> None:
    stream, event = acl.stream(), acl.event()
    graphs.begin(stream, mode)
    acl.call("aclrtRecordEvent", event, stream)
    call, code = SYNCHRONOUS[name]
    assert call(acl, stream, event) == code
    assert graphs.status(stream) == INVALIDATED
    assert acl.code("aclrtRecordEvent", event, stream) == INVALID
    assert graphs.end_code(stream) == INVALID
    assert name in acl.sentence()
    acl.call("aclrtSynchronizeStream", stream)


def test_waiting_for_work_outside_of_the_capture(acl: Acl, graphs: Graphs) -> None:
    stream, other, event = acl.stream(), acl.stream(), acl.event()
    acl.call("aclrtRecordEvent", event, other)
    graphs.begin(stream)
    assert acl.code("aclrtStreamWaitEvent", stream, event) == DEPENDENCY
    assert graphs.end_code(stream) == INVALID


def test_a_default_stream_cannot_join(acl: Acl, graphs: Graphs) -> None:
    stream, event = acl.stream(), acl.event()
    graphs.begin(stream)
    acl.call("aclrtRecordEvent", event, stream)
    assert acl.code("aclrtStreamWaitEvent", None, event) == IMPLICIT
    assert graphs.end_code(stream) == INVALID


def test_two_captures_cannot_depend_on_each_other(acl: Acl, graphs: Graphs) -> None:
    first, second, event = acl.stream(), acl.stream(), acl.event()
    graphs.begin(first)
    graphs.begin(second)
    acl.call("aclrtRecordEvent", event, first)
    assert acl.code("aclrtStreamWaitEvent", second, event) == CONFLICT
    assert (graphs.end_code(first), graphs.end_code(second)) == (INVALID, INVALID)


def test_only_reusable_events_are_captured(acl: Acl, graphs: Graphs) -> None:
    stream, event = acl.stream(), c_void_p()
    acl.call("aclrtCreateEvent", byref(event))
    graphs.begin(stream)
    assert acl.code("aclrtRecordEvent", event, stream) == FEATURE_NOT_SUPPORT
    assert graphs.end_code(stream) == INVALID


def test_another_thread_may_end_a_relaxed_capture_only(acl: Acl, graphs: Graphs) -> None:
    def end_elsewhere(stream: c_void_p) -> int:
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(graphs.end_code(stream)))
        thread.start()
        thread.join()
        return codes[0]

    stream = acl.stream()
    graphs.begin(stream, GLOBAL)
    assert end_elsewhere(stream) == WRONG_THREAD
    assert graphs.status(stream) == NONE
    graphs.begin(stream, RELAXED)
    assert end_elsewhere(stream) == 0


# The modes: who may copy at once while a capture runs (aclmdlRICaptureThreadExchangeMode).


def exchange(acl: Acl, mode: int) -> int:
    value = c_int32(mode)
    acl.call("aclmdlRICaptureThreadExchangeMode", byref(value))
    return value.value


def memset_code(acl: Acl, address: c_void_p, exchanged: int, elsewhere: bool) -> int:
    codes: list[int] = []

    def run() -> None:
        acl.call("aclrtSetDevice", 0)
        before = exchange(acl, exchanged)
        codes.append(acl.code("aclrtMemset", address, c_size_t(64), 1, c_size_t(64)))
        exchange(acl, before)

    if elsewhere:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    return codes[0]


@pytest.mark.parametrize(
    ("mode", "exchanged", "elsewhere", "allowed"),
    [
        (GLOBAL, GLOBAL, False, False),
        (GLOBAL, THREAD_LOCAL, False, False),
        (GLOBAL, RELAXED, False, True),
        (GLOBAL, GLOBAL, True, False),
        (GLOBAL, THREAD_LOCAL, True, True),
        (GLOBAL, RELAXED, True, True),
        (THREAD_LOCAL, GLOBAL, False, False),
        (THREAD_LOCAL, RELAXED, False, True),
        (THREAD_LOCAL, GLOBAL, True, True),
        (RELAXED, GLOBAL, False, True),
        (RELAXED, GLOBAL, True, True),
    ],
)
def test_the_mode_decides_who_may_write_at_once(
    acl: Acl, graphs: Graphs, mode: int, exchanged: int, elsewhere: bool, allowed: bool
) -> None:
    stream, a = acl.stream(), acl.upload(bytes(64))
    graphs.begin(stream, mode)
    assert memset_code(acl, a, exchanged, elsewhere) == (0 if allowed else MODE_NOT_SUPPORT)
    assert graphs.end_code(stream) == (0 if allowed or elsewhere else INVALID)
    assert memset_code(acl, a, exchanged, elsewhere) == 0


def test_pageable_memory_is_not_captured(acl: Acl, graphs: Graphs) -> None:
    stream, a, host = acl.stream(), acl.upload(bytes(64)), ctypes.create_string_buffer(64)
    for mode, kind, code in (
        (GLOBAL, H2D, BLOCK_ASYNC),
        (GLOBAL, D2H, BLOCK_ASYNC),
        (RELAXED, D2H, BLOCK_ASYNC),
    ):
        graphs.begin(stream, mode)
        target, source = (a, host) if kind == H2D else (host, a)
        assert acl.code("aclrtMemcpyAsync", target, c_size_t(64), source, c_size_t(64), kind, stream) == code
        assert graphs.end_code(stream) == INVALID


def test_a_relaxed_capture_keeps_what_pageable_memory_held(acl: Acl, graphs: Graphs) -> None:
    stream, a = acl.stream(), acl.upload(bytes(64))
    host = ctypes.create_string_buffer(bytes([6] * 64), 64)
    graphs.begin(stream, RELAXED)
    acl.call("aclrtMemcpyAsync", a, c_size_t(64), host, c_size_t(64), H2D, stream)
    graph = graphs.end(stream)
    ctypes.memset(host, 0, 64)
    graphs.replay(graph, stream)
    acl.call("aclrtSynchronizeStream", stream)
    assert acl.download(a, 64) == bytes([6] * 64)
