"""Streams and events. Work on one stream runs in order; streams are ordered among themselves by events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from npu_common import _cann
from npu_common.runtime._library import ready
from npu_common.runtime.device import Device


def _index(device: Device | int) -> int:
    return device if isinstance(device, int) else device.index


class Event:
    """A point in a stream's work.

    Args:
        timing: elapsed_since will be asked; without it an event is cheaper.
    """

    def __init__(self, device: Device | int = 0, *, timing: bool = True) -> None:
        ready()
        self._native = _cann.Event(_index(device), timing)

    @property
    def device(self) -> Device:
        return Device(self._native.device)

    @property
    def complete(self) -> bool:
        """Whether the work before its last record is done; true as well if it was never recorded."""
        return self._native.complete()

    def record(self, stream: Stream | None = None) -> Event:
        """Marks this point of the stream (the current one of its device by default)."""
        (stream or current_stream(self._native.device)).record(self)
        return self

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits until it is complete; `timeout` in seconds.

        Raises:
            CannError: the timeout passed, or the work failed.
        """
        self._native.synchronize(timeout)

    def elapsed_since(self, start: Event) -> float:
        """Milliseconds from `start` to this event; both complete.

        Raises:
            ValueError: one of them was made without timing.
        """
        return self._native.elapsed_since(start._native)

    def close(self) -> None:
        """Gives the event back to CANN now; a later use raises ClosedError."""
        self._native.close()


class Stream:
    """A queue of work on a device. As a context manager it is the current stream of its device in this thread.

    Any thread may use it.
    """

    def __init__(self, device: Device | int = 0, *, priority: int = 0) -> None:
        ready()
        self._native = _cann.Stream(_index(device), priority)

    @classmethod
    def borrow(cls, handle: int, device: Device | int = 0) -> Stream:
        """A stream that somebody else made and destroys: `torch.npu.current_stream().npu_stream`."""
        ready()
        return cls._wrap(_cann.Stream.borrow(_index(device), handle))

    @classmethod
    def _wrap(cls, native: _cann.Stream) -> Stream:
        stream = cls.__new__(cls)
        stream._native = native
        return stream

    @property
    def device(self) -> Device:
        return Device(self._native.device)

    @property
    def handle(self) -> int:
        """The aclrtStream as a number. Raises ClosedError."""
        return self._native.handle

    @property
    def closed(self) -> bool:
        return self._native.closed

    @property
    def idle(self) -> bool:
        """Whether all its work is done."""
        return self._native.idle()

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits for its work; `timeout` in seconds.

        Raises:
            CannError: what the work came to, or the timeout passed.
            ClosedError: it is closed.
        """
        self._native.synchronize(timeout)

    def record(self, event: Event | None = None) -> Event:
        """Records the event (a new one without timing by default) behind the work so far and returns it."""
        if event is None:
            event = Event(self._native.device, timing=False)
        self._native.record(event._native)
        return event

    def wait(self, other: Event | Stream) -> None:
        """Makes later work wait for an event, or for what another stream has by now. Does not block."""
        event = other.record() if isinstance(other, Stream) else other
        self._native.wait(event._native)

    def launch_host(self, function: Callable[[], object]) -> None:
        """Calls the function, on a thread of CANN, when the work before it is done.

        The function must not wait for this device; an exception of it goes to sys.unraisablehook.
        """
        self._native.launch_host(function)

    def abort(self) -> None:
        """Drops the work that has not run."""
        self._native.abort()

    def close(self) -> None:
        """Waits for its work and ends it; a second time does nothing."""
        self._native.close()

    def __enter__(self) -> Stream:
        _current.stack().append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.stack().remove(self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.handle:#x}"
        return f"<Stream on npu:{self._native.device}, {state}>"


class _Current(threading.local):
    def __init__(self) -> None:
        self._stack: list[Stream] = []

    def stack(self) -> list[Stream]:
        return self._stack


_current = _Current()
_defaults: dict[int, Stream] = {}
_lock = threading.Lock()


def default_stream(device: Device | int = 0) -> Stream:
    """The stream that a device's work goes to when no other is current: one a device and process."""
    index = _index(device)
    stream = _defaults.get(index)
    if stream is None or stream.closed:
        with _lock:
            stream = _defaults.get(index)
            if stream is None or stream.closed:
                stream = _defaults[index] = Stream(index)
    return stream


def current_stream(device: Device | int = 0) -> Stream:
    """The innermost `with stream:` of this thread on the device, else the device's default stream."""
    index = _index(device)
    for stream in reversed(_current.stack()):
        if stream._native.device == index:
            return stream
    return default_stream(index)
