"""Streams, events and devices as Python objects."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from npu_common import runtime
from npu_common.runtime import Device, Event, Stream


@pytest.fixture
def gate(stream: Stream):
    """Holds `stream` until it is set."""
    gate = threading.Event()
    stream.launch_host(lambda: gate.wait(30))
    yield gate
    gate.set()


def test_a_device_that_does_not_exist_is_refused_with_the_number_there_is() -> None:
    with pytest.raises(
        ValueError, match=f"npu:99 does not exist: this process sees {runtime.device_count()} devices"
    ):
        Device(99)


def test_memory_info_is_within_the_device() -> None:
    info = Device(0).memory_info()
    assert 0 < info.free <= info.total


def test_host_functions_run_in_order(stream: Stream) -> None:
    seen: list[int] = []
    for i in range(50):
        stream.launch_host(lambda i=i: seen.append(i))
    stream.synchronize()
    assert seen == list(range(50))


def test_a_stream_is_busy_until_its_work_is_done(stream: Stream, gate: threading.Event) -> None:
    assert not stream.idle
    gate.set()
    stream.synchronize()
    assert stream.idle


def test_synchronising_with_a_timeout_raises_with_cann_s_name(stream: Stream, gate: threading.Event) -> None:
    with pytest.raises(runtime.CannError) as raised:
        stream.synchronize(timeout=0.05)
    assert raised.value.code_name == "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT"
    assert raised.value.call == "aclrtSynchronizeStreamWithTimeout"
    assert "waiting for a stream of npu:0 for 50 ms" in str(raised.value)


def test_waiting_releases_the_interpreter(stream: Stream, gate: threading.Event) -> None:
    """Otherwise the timer could not open the gate, nor the host function run."""
    threading.Timer(0.05, gate.set).start()
    stream.synchronize(timeout=20)


def test_a_stream_waits_for_an_event_of_another(stream: Stream, gate: threading.Event) -> None:
    seen: list[str] = []
    second = Stream()
    stream.launch_host(lambda: seen.append("first"))
    second.wait(stream.record())
    second.launch_host(lambda: seen.append("second"))
    time.sleep(0.02)
    assert seen == []
    gate.set()
    second.synchronize()
    assert seen == ["first", "second"]


def test_elapsed_time_is_that_between_the_records(stream: Stream) -> None:
    start, end = Event().record(stream), Event()
    stream.launch_host(lambda: time.sleep(0.05))
    end.record(stream).synchronize()
    assert 45 < end.elapsed_since(start) < 5000


def test_elapsed_time_needs_timing(stream: Stream) -> None:
    start, end = Event(timing=False).record(stream), Event().record(stream)
    stream.synchronize()
    with pytest.raises(ValueError, match="timing=False"):
        end.elapsed_since(start)


@pytest.mark.parametrize("use", [Stream.synchronize, lambda s: s.idle, Stream.record, lambda s: s.handle])
def test_a_closed_stream_says_so(use) -> None:
    stream = Stream()
    stream.close()
    stream.close()
    with pytest.raises(runtime.ClosedError, match="the stream on npu:0 is closed"):
        use(stream)


def test_the_current_stream_is_a_thread_s_own(stream: Stream) -> None:
    with stream:
        assert runtime.current_stream() is stream
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(runtime.current_stream).result() is runtime.default_stream()
        with Stream(1):
            assert runtime.current_stream(0) is stream
    assert runtime.current_stream() is runtime.default_stream()


def test_an_exception_of_a_host_function_is_reported_and_the_stream_goes_on(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda report: reports.append(type(report.exc_value)))
    stream.launch_host(lambda: 1 // 0)
    stream.synchronize()
    assert reports == [ZeroDivisionError]


def test_a_stream_that_is_let_go_with_work_on_it_ends_when_the_work_does() -> None:
    """Letting go waits for the work, and the work needs the interpreter."""
    seen: list[int] = []
    stream = Stream()
    for i in range(20):
        stream.launch_host(lambda i=i: (time.sleep(0.002), seen.append(i)))
    del stream
    assert seen == list(range(20))


def test_streams_and_events_of_many_threads() -> None:
    def hammer(index: int) -> int:
        device = index % 2
        total = []
        for _ in range(100):
            stream, event = Stream(device), Event(device)
            stream.launch_host(lambda total=total: total.append(1))
            event.record(stream).synchronize()
            assert event.complete
            stream.close()
            event.close()
        return len(total)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(hammer, range(8))) == [100] * 8
