"""Captured graphs as objects: where they run, what they say of themselves, external events, task groups."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from ctypes import byref, c_int32, c_uint32, c_void_p
from pathlib import Path

import pytest

from .conftest import HOST_FUNCTION, Acl, Gate, eventually
from .graphs import (
    EXTERNAL,
    FEATURE_NOT_SUPPORT,
    GROUP_STATUS,
    INVALID,
    NOT_CAPTURED,
    STREAM_CAPTURED,
    STREAM_CONTEXT,
    TASK_TYPE,
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
