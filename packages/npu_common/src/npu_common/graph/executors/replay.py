"""A run captured once on a device (aclmdlRI) and replayed: one call in the place of one per operator."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

from npu_common import _cann
from npu_common.graph.executors.buffers import copy, sizes
from npu_common.graph.ir import Graph
from npu_common.runtime import DeviceArray, Event, Stream, empty

# Makes ready on the stream what every run needs (constants), and answers what puts one run on it.
Prepare = Callable[[Stream], Callable[[Sequence[DeviceArray], Sequence[DeviceArray], Stream], None]]


class Replay:
    """A captured graph reads and writes fixed addresses, so it has buffers of its own for inputs and outputs, filled
    and emptied around each replay. Thread-safe; replays follow each other, whatever their streams."""

    def __init__(self, graph: Graph, device: int, prepare: Prepare) -> None:
        """Captures a run.

        Raises:
            CannError: something in it cannot be captured; nothing is left of the attempt.
        """
        # A stream of its own: what is allocated on it belongs to the captured graph.
        self._stream = Stream(device)
        run = prepare(self._stream)
        self._inputs = [empty(sizes(v), v.dtype, stream=self._stream) for v in graph.inputs]
        self._outputs = [empty(sizes(v), v.dtype, stream=self._stream) for v in graph.outputs]
        self._stream.synchronize()
        self._run = run  # holds what the captured work reads
        self._lock = threading.Lock()
        self._done = Event(device, timing=False)
        capture = _cann.Capture(self._stream._native)
        try:
            run(self._inputs, self._outputs, self._stream)
        except BaseException:
            del capture  # ends it
            raise
        self._captured = capture.finish()
        self.close = weakref.finalize(self, _close, self._captured, self._done)

    def run(self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray], stream: Stream) -> None:
        """Enqueues one replay: contiguous inputs, outputs, all on this device."""
        with self._lock:
            stream.wait(self._done)
            for fixed, array in zip(self._inputs, inputs, strict=True):
                copy(fixed, array, stream)
            self._captured.replay(stream._native)
            for fixed in self._outputs:
                fixed.used_on(stream._native, True)
            for fixed, array in zip(self._outputs, outputs, strict=True):
                copy(array, fixed, stream)
            stream.record(self._done)


def _close(captured: _cann.CapturedGraph, done: Event) -> None:
    done.synchronize()
    captured.close()
