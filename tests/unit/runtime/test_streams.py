"""Streams: order, independence, callbacks, notifies, values in memory."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from .conftest import D2D, HOST_FUNCTION, Acl, AclError, Gate, eventually


def is_idle(acl: Acl, stream: c_void_p) -> bool:
    status = c_int32()
    acl.call("aclrtStreamQuery", stream, byref(status))
    return status.value == 0


def test_a_held_stream_holds_up_neither_the_caller_nor_another_stream(acl: Acl, gate: Gate) -> None:
    held, free = acl.stream(), acl.stream()
    source, target = acl.upload(b"x" * 4096), acl.malloc(4096)
    gate.hold(held)
    acl.call("aclrtMemsetAsync", target, c_size_t(4096), 0, c_size_t(4096), held)

    acl.call("aclrtMemcpyAsync", target, c_size_t(4096), source, c_size_t(4096), D2D, free)
    acl.call("aclrtSynchronizeStream", free)

    assert acl.download(target, 4) == b"xxxx"
    assert not is_idle(acl, held)
    gate.open()
    acl.call("aclrtSynchronizeStream", held)
    assert acl.download(target, 4) == bytes(4)


def test_synchronising_gives_up_after_its_time_and_succeeds_later(acl: Acl, gate: Gate) -> None:
    stream = acl.stream()
    gate.hold(stream)
    began = time.monotonic()
    with pytest.raises(AclError, match="still has work queued") as caught:
        acl.call("aclrtSynchronizeStreamWithTimeout", stream, 50)
    assert caught.value.code == 507046  # ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
    assert 0.04 < time.monotonic() - began < 5
    with pytest.raises(AclError, match="still has work queued"):
        acl.call("aclrtSynchronizeDeviceWithTimeout", 50)
    gate.open()
    acl.call("aclrtSynchronizeStreamWithTimeout", stream, -1)
    acl.call("aclrtSynchronizeDeviceWithTimeout", 5000)


def test_synchronising_waits_for_what_was_queued_before_it_only(acl: Acl, gate: Gate) -> None:
    stream, done = acl.stream(), threading.Event()
    word = acl.upload(bytes(8))
    acl.value_wait(stream, word, 1)

    def synchronise() -> None:
        acl.call("aclrtSynchronizeStream", stream)
        done.set()

    waiting = threading.Thread(target=synchronise)
    waiting.start()
    time.sleep(0.05)
    gate.hold(stream)  # queued after the call
    assert not done.is_set()
    acl.poke(word, 1)
    assert done.wait(10)
    waiting.join()


def test_work_of_a_destroyed_stream_still_runs(acl: Acl, gate: Gate) -> None:
    stream, target = acl.stream(), acl.upload(bytes(16))
    gate.hold(stream)
    acl.call("aclrtMemsetAsync", target, c_size_t(16), 0x41, c_size_t(16), stream)
    acl.call("aclrtDestroyStream", stream)
    with pytest.raises(AclError, match="destroyed or never created"):
        acl.call("aclrtSynchronizeStream", stream)
    gate.open()
    assert eventually(lambda: acl.download(target, 16) == b"A" * 16)


def test_host_functions_run_in_the_order_of_their_stream(acl: Acl) -> None:
    stream, seen = acl.stream(), []
    note = HOST_FUNCTION(lambda value: seen.append(value))
    for value in range(1, 21):
        acl.call("aclrtLaunchHostFunc", stream, note, c_void_p(value))
    acl.call("aclrtSynchronizeStream", stream)
    assert seen == list(range(1, 21))


def test_callbacks_run_on_the_thread_that_subscribed_and_block_if_asked(acl: Acl) -> None:
    stream, target = acl.stream(), acl.upload(bytes(8))
    seen: list[tuple[int, bytes]] = []
    identity = ctypes.CDLL(None).pthread_self
    identity.restype = c_uint64
    ready, stop = threading.Event(), threading.Event()
    thread_id: list[int] = []

    def serve() -> None:
        acl.call("aclrtSetDevice", 0)
        thread_id.append(identity())
        ready.set()
        while not stop.is_set():
            acl.code("aclrtProcessReport", 50)

    callback = HOST_FUNCTION(lambda _: seen.append((threading.get_ident(), acl.download(target, 8))))
    with pytest.raises(AclError, match="aclrtSubscribeReport"):
        acl.call("aclrtLaunchCallback", callback, None, 1, stream)
    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(10)
    acl.call("aclrtSubscribeReport", c_uint64(thread_id[0]), stream)
    acl.call("aclrtLaunchCallback", callback, None, 1, stream)
    acl.call("aclrtMemsetAsync", target, c_size_t(8), 0x42, c_size_t(8), stream)
    acl.call("aclrtLaunchCallback", callback, None, 1, stream)
    acl.call("aclrtSynchronizeStream", stream)
    assert seen == [(server.ident, bytes(8)), (server.ident, b"B" * 8)]
    acl.call("aclrtUnSubscribeReport", c_uint64(thread_id[0]), stream)
    stop.set()
    server.join()


def test_waiting_for_a_callback_that_does_not_come_times_out(acl: Acl) -> None:
    with pytest.raises(AclError, match="no callback was due") as caught:
        acl.call("aclrtProcessReport", 20)
    assert caught.value.code == 100036  # ACL_ERROR_WAIT_CALLBACK_TIMEOUT


def test_a_notify_sets_one_waiting_stream_free(acl: Acl) -> None:
    notify = c_void_p()
    acl.call("aclrtCreateNotify", byref(notify), c_uint64(0))
    waiting, recording = acl.stream(), acl.stream()
    acl.call("aclrtWaitAndResetNotify", notify, waiting, c_uint32(0))
    assert not is_idle(acl, waiting)
    acl.call("aclrtRecordNotify", notify, recording)
    acl.call("aclrtSynchronizeStream", waiting)
    acl.call("aclrtWaitAndResetNotify", notify, waiting, c_uint32(0))  # the notice was taken
    assert not is_idle(acl, waiting)
    acl.call("aclrtRecordNotify", notify, recording)
    acl.call("aclrtSynchronizeStream", waiting)
    acl.call("aclrtDestroyNotify", notify)


@pytest.mark.parametrize(
    ("condition", "wanted", "before", "after"),
    [(0, 5, 4, 6), (1, 5, 6, 5), (2, 0b100, 0b011, 0b110), (3, 0, 2**64 - 1, 0)],
    ids=["at least", "equal", "and", "nor"],
)
def test_a_stream_waits_for_a_value(acl: Acl, condition: int, wanted: int, before: int, after: int) -> None:
    word = acl.upload(before.to_bytes(8, "little"))
    waiting, writing = acl.stream(), acl.stream()
    acl.call("aclrtValueWait", word, c_uint64(wanted), c_uint32(condition), waiting)
    with pytest.raises(AclError):
        acl.call("aclrtSynchronizeStreamWithTimeout", waiting, 30)
    acl.call("aclrtValueWrite", word, c_uint64(after), c_uint32(0), writing)
    acl.call("aclrtSynchronizeStreamWithTimeout", waiting, 5000)


def test_attributes_are_kept_and_what_cannot_be_done_is_refused(acl: Acl) -> None:
    stream, number = acl.stream(), c_int32()
    acl.call("aclrtStreamGetId", stream, byref(number))
    assert number.value > 0
    acl.call("aclrtSetStreamFailureMode", stream, c_uint64(0))
    with pytest.raises(AclError, match="failure mode is 7"):
        acl.call("aclrtSetStreamFailureMode", stream, c_uint64(7))
    with pytest.raises(AclError, match="aclrtSetStreamOverflowSwitch is not implemented"):
        acl.call("aclrtSetStreamOverflowSwitch", stream, c_uint32(1))
    with pytest.raises(AclError, match="priority 9"):
        acl.call("aclrtCreateStreamWithConfig", byref(stream), c_uint32(9), c_uint32(0))
