"""Events: which record a wait is for, queries, times, and events shared between processes."""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_float, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from .conftest import Acl, AclError, Gate, Python


def test_a_wait_is_for_the_record_before_it_not_for_later_ones(acl: Acl, gate: Gate) -> None:
    """The event is recorded again, behind held work, while the wait is pending: the wait must not see that."""
    recording, waiting = acl.stream(), acl.stream()
    event = acl.event()
    acl.call("aclrtRecordEvent", event, recording)
    acl.call("aclrtStreamWaitEvent", waiting, event)
    gate.hold(recording)
    acl.call("aclrtRecordEvent", event, recording)
    acl.call("aclrtSynchronizeStreamWithTimeout", waiting, 5000)
    assert not acl.recorded(event)
    gate.open()
    acl.call("aclrtSynchronizeEvent", event)
    assert acl.recorded(event)


def test_a_later_record_elsewhere_does_not_release_an_earlier_wait(acl: Acl, gate: Gate) -> None:
    held, free, waiting = acl.stream(), acl.stream(), acl.stream()
    event = acl.event()
    gate.hold(held)
    acl.call("aclrtRecordEvent", event, held)
    acl.call("aclrtStreamWaitEvent", waiting, event)
    acl.call("aclrtRecordEvent", event, free)
    acl.call("aclrtSynchronizeEvent", event)
    with pytest.raises(AclError):
        acl.call("aclrtSynchronizeStreamWithTimeout", waiting, 50)
    gate.open()
    acl.call("aclrtSynchronizeStreamWithTimeout", waiting, 5000)


def test_a_stream_waits_for_work_of_another(acl: Acl, gate: Gate) -> None:
    first, second, event = acl.stream(), acl.stream(), acl.event()
    target, copy = acl.upload(bytes(64)), acl.upload(bytes(64))
    gate.hold(first)
    acl.call("aclrtMemsetAsync", target, c_size_t(64), 7, c_size_t(64), first)
    acl.call("aclrtRecordEvent", event, first)
    acl.call("aclrtStreamWaitEvent", second, event)
    acl.call("aclrtMemcpyAsync", copy, c_size_t(64), target, c_size_t(64), 3, second)
    time.sleep(0.02)
    assert acl.download(copy, 64) == bytes(64)
    gate.open()
    acl.call("aclrtSynchronizeStream", second)
    assert acl.download(copy, 64) == bytes([7] * 64)


def test_an_event_may_be_destroyed_while_work_waits_for_it(acl: Acl, gate: Gate) -> None:
    first, second, event = acl.stream(), acl.stream(), acl.event()
    gate.hold(first)
    acl.call("aclrtRecordEvent", event, first)
    acl.call("aclrtStreamWaitEvent", second, event)
    acl.call("aclrtDestroyEvent", event)
    gate.open()
    acl.call("aclrtSynchronizeStreamWithTimeout", second, 5000)
    with pytest.raises(AclError, match="destroyed or never created"):
        acl.call("aclrtSynchronizeEvent", event)


def test_a_new_event_is_not_recorded_and_nobody_waits_for_it(acl: Acl) -> None:
    stream, event = acl.stream(), acl.event()
    assert not acl.recorded(event)
    acl.call("aclrtStreamWaitEvent", stream, event)
    acl.call("aclrtSynchronizeStreamWithTimeout", stream, 5000)
    acl.call("aclrtSynchronizeEventWithTimeout", event, 5000)


def test_the_time_between_events_is_that_of_the_work_between_them(acl: Acl, gate: Gate) -> None:
    stream, start, end, elapsed = acl.stream(), acl.event(), acl.event(), c_float()
    acl.call("aclrtRecordEvent", start, stream)
    gate.hold(stream)
    acl.call("aclrtRecordEvent", end, stream)
    with pytest.raises(AclError, match="not reached yet") as caught:
        acl.call("aclrtEventElapsedTime", byref(elapsed), start, end)
    assert caught.value.code == 107006  # ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID
    time.sleep(0.05)
    gate.open()
    acl.call("aclrtSynchronizeEvent", end)
    acl.call("aclrtEventElapsedTime", byref(elapsed), start, end)
    assert 49 <= elapsed.value < 5000
    with pytest.raises(AclError, match="swap them"):
        acl.call("aclrtEventElapsedTime", byref(elapsed), end, start)
    stamp = c_uint64()
    acl.call("aclrtEventGetTimestamp", end, byref(stamp))
    assert stamp.value > 0


def test_an_event_without_the_flag_has_no_times(acl: Acl) -> None:
    stream, event, elapsed = acl.stream(), acl.event(flags=1), c_float()
    acl.call("aclrtRecordEvent", event, stream)
    acl.call("aclrtSynchronizeEvent", event)
    with pytest.raises(AclError, match="ACL_EVENT_TIME_LINE"):
        acl.call("aclrtEventElapsedTime", byref(elapsed), event, event)


def test_a_reset_makes_an_event_unrecorded_in_the_order_of_the_stream(acl: Acl) -> None:
    stream, event = acl.stream(), c_void_p()
    acl.call("aclrtCreateEvent", byref(event))
    acl.call("aclrtRecordEvent", event, stream)
    acl.call("aclrtSynchronizeEvent", event)
    assert acl.recorded(event)
    acl.call("aclrtResetEvent", event, stream)
    acl.call("aclrtSynchronizeStream", stream)
    assert not acl.recorded(event)
    acl.call("aclrtRecordEvent", event, stream)
    acl.call("aclrtSynchronizeEvent", event)
    assert acl.recorded(event)


IMPORTER = """
import ctypes, sys
acl = ctypes.CDLL({library!r})
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
handle = Handle.from_buffer_copy(bytes.fromhex({handle!r}))
event, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
code = acl.aclrtIpcOpenEventHandle(handle, ctypes.byref(event))
if code:
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    sys.exit(acl.aclGetRecentErrMsg().decode())
assert acl.aclrtCreateStream(ctypes.byref(stream)) == 0
assert acl.aclrtStreamWaitEvent(stream, event) == 0
assert acl.aclrtSynchronizeStreamWithTimeout(stream, {milliseconds}) == {expected}
"""


def test_another_process_waits_for_a_shared_event(acl: Acl, gate: Gate, python: Python) -> None:
    stream, event = acl.stream(), acl.event(flags=64)
    handle = ctypes.create_string_buffer(64)
    acl.call("aclrtIpcGetEventHandle", event, handle)

    def importer(milliseconds: int, expected: int) -> str:
        code = IMPORTER.format(
            library=acl.library._name, handle=handle.raw.hex(), milliseconds=milliseconds, expected=expected
        )
        return python(code).stderr

    gate.hold(stream)
    acl.call("aclrtRecordEvent", event, stream)
    assert importer(100, 507046) == ""
    gate.open()
    acl.call("aclrtSynchronizeEvent", event)
    assert importer(20000, 0) == ""
    acl.call("aclrtDestroyEvent", event)
    assert "does not hold that event any more" in importer(1, 0)


def test_only_an_event_made_for_it_can_be_shared(acl: Acl) -> None:
    with pytest.raises(AclError, match="ACL_EVENT_IPC"):
        acl.call("aclrtIpcGetEventHandle", acl.event(), ctypes.create_string_buffer(64))
    with pytest.raises(AclError, match="bits that CANN does not know"):
        acl.call("aclrtCreateEventExWithFlag", byref(c_void_p()), c_uint32(1 << 20))
