"""Capture and replay (aclmdlRI): what is recorded, what is refused while it is, and how a capture ends.

Codes: CANN's rt_error_codes.h (native/cann/facts/enums.json); which call answers which: CANN's documentation of
aclmdlRICaptureBegin and aclmdlRICaptureThreadExchangeMode, and its open runtime (capture_session.cc).
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

import pytest

from .conftest import D2D, D2H, H2D, HOST_FUNCTION, Acl, AclError, Gate, eventually

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


@pytest.fixture
def graphs(acl: Acl) -> Iterator[Graphs]:
    graphs = Graphs(acl)
    yield graphs
    graphs.destroy()


def fill(acl: Acl, address: c_void_p, value: int, stream: c_void_p, size: int = 64) -> None:
    acl.call("aclrtMemsetAsync", address, c_size_t(size), value, c_size_t(size), stream)


def copy(acl: Acl, target: c_void_p, source: c_void_p, stream: c_void_p, size: int = 64) -> None:
    acl.call("aclrtMemcpyAsync", target, c_size_t(size), source, c_size_t(size), D2D, stream)


def refused(call: Callable[[], object]) -> int:
    with pytest.raises(AclError) as error:
        call()
    return error.value.code


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


# Graphs as objects.


def test_a_graph_runs_on_its_device_only(acl: Acl, graphs: Graphs) -> None:
    stream = acl.stream()
    graphs.begin(stream)
    assert acl.code("aclmdlRIExecuteAsync", c_void_p(8), stream) != 0
    graph = graphs.end(stream)
    acl.call("aclrtSetDevice", 1)
    elsewhere = acl.stream()
    assert acl.code("aclmdlRIExecuteAsync", graph, elsewhere) == STREAM_CONTEXT
    acl.call("aclrtSetDevice", 0)


def test_a_graph_cannot_be_replayed_into_a_capture(acl: Acl, graphs: Graphs) -> None:
    stream = acl.stream()
    graphs.begin(stream)
    graph = graphs.end(stream)
    graphs.begin(stream)
    assert acl.code("aclmdlRIExecuteAsync", graph, stream) == STREAM_CAPTURED
    assert graphs.end_code(stream) == INVALID


def test_name_id_streams(acl: Acl, graphs: Graphs) -> None:
    stream, text, number, count = acl.stream(), ctypes.create_string_buffer(8), c_uint32(), c_uint32()
    graphs.begin(stream)
    graph = graphs.end(stream)
    acl.call("aclmdlRISetName", graph, b"step")
    acl.call("aclmdlRIGetName", graph, 8, text)
    assert text.value == b"step"
    assert acl.code("aclmdlRIGetName", graph, 4, text) != 0
    acl.call("aclmdlRIGetId", graph, byref(number))
    assert number.value > 0
    acl.call("aclmdlRIGetStreams", graph, None, byref(count))
    streams = (c_void_p * count.value)()
    acl.call("aclmdlRIGetStreams", graph, streams, byref(count))
    assert list(streams) == [stream.value]


def test_destroy_callbacks(acl: Acl, graphs: Graphs) -> None:
    stream, seen = acl.stream(), []
    kept, removed = HOST_FUNCTION(seen.append), HOST_FUNCTION(lambda _: seen.append(-1))
    graphs.begin(stream)
    graph = graphs.end(stream)
    acl.call("aclmdlRIDestroyRegisterCallback", graph, kept, c_void_p(3))
    acl.call("aclmdlRIDestroyRegisterCallback", graph, removed, None)
    acl.call("aclmdlRIDestroyUnregisterCallback", graph, removed)
    acl.call("aclmdlRIDestroy", graph)
    assert seen == [3]
    assert acl.code("aclmdlRIDestroy", graph) != 0


def test_what_was_captured_can_be_read(acl: Acl, graphs: Graphs, tmp_path: Path, capfd) -> None:
    stream, side, fork, join = acl.stream(), acl.stream(), acl.event(), acl.event()
    a = acl.upload(bytes(64))
    graphs.begin(stream)
    acl.call("aclrtRecordEvent", fork, stream)
    acl.call("aclrtStreamWaitEvent", side, fork)
    fill(acl, a, 1, side)
    acl.call("aclrtRecordEvent", join, side)
    acl.call("aclrtStreamWaitEvent", stream, join)
    graph = graphs.end(stream)
    path = tmp_path / "graph.json"
    acl.call("aclmdlRIDebugJsonPrint", graph, str(path).encode(), 0)
    events = json.loads(path.read_text())
    assert [event["name"] for event in events] == [
        "EVENT_RECORD_0",
        "EVENT_WAIT_0",
        "aclrtMemsetAsync",
        "EVENT_RECORD_1",
        "EVENT_WAIT_1",
    ]
    assert len({event["tid"] for event in events}) == 2
    acl.call("aclmdlRIDebugPrint", graph)
    assert "aclrtMemsetAsync (MEMORY)" in capfd.readouterr().err


def test_execute_waits_with_a_time_out(acl: Acl, graphs: Graphs, gate: Gate) -> None:
    stream, a = acl.stream(), acl.upload(bytes(64))
    graphs.begin(stream)
    gate.hold(stream)
    fill(acl, a, 1, stream)
    graph = graphs.end(stream)
    assert acl.code("aclmdlRIExecute", graph, 30) != 0
    gate.open()
    assert eventually(lambda: acl.download(a, 64) == bytes([1] * 64))
    acl.call("aclmdlRIExecute", graph, -1)


def test_an_external_event_is_no_business_of_the_host(acl: Acl) -> None:
    event = acl.event(EXTERNAL)
    assert acl.code("aclrtSynchronizeEvent", event) == FEATURE_NOT_SUPPORT
    assert acl.code("aclrtQueryEventStatus", event, byref(c_int32())) == FEATURE_NOT_SUPPORT


def test_an_event_recorded_for_the_outside_by_each_replay(acl: Acl, graphs: Graphs) -> None:
    stream, other, event, a, b = acl.stream(), acl.stream(), acl.event(), acl.malloc(64), acl.malloc(64)
    assert acl.code("aclrtRecordEventWithFlag", event, stream, 1) != 0  # not captured
    graphs.begin(stream)
    fill(acl, a, 4, stream)
    acl.call("aclrtRecordEventWithFlag", event, stream, 1)
    graph = graphs.end(stream)
    graphs.replay(graph, stream)
    acl.call("aclrtStreamWaitEvent", other, event)
    copy(acl, b, a, other)
    acl.call("aclrtSynchronizeStream", other)
    assert acl.download(b, 64) == bytes([4] * 64)


def test_a_group_takes_operators_only_and_must_be_closed(acl: Acl, graphs: Graphs) -> None:
    stream, handle, a = acl.stream(), c_void_p(), acl.upload(bytes(64))
    assert acl.code("aclmdlRICaptureTaskGrpBegin", stream) == NOT_CAPTURED
    graphs.begin(stream)
    assert acl.code("aclmdlRICaptureTaskGrpEnd", stream, byref(handle)) == GROUP_STATUS
    acl.call("aclmdlRICaptureTaskGrpBegin", stream)
    assert acl.code("aclmdlRICaptureTaskGrpBegin", stream) == GROUP_STATUS
    assert graphs.end_code(stream) == GROUP_STATUS
    graphs.begin(stream)
    acl.call("aclmdlRICaptureTaskGrpBegin", stream)
    assert refused(lambda: fill(acl, a, 1, stream)) == TASK_TYPE
    assert acl.code("aclmdlRICaptureTaskGrpEnd", stream, byref(handle)) == TASK_TYPE
    assert graphs.end_code(stream) == INVALID
