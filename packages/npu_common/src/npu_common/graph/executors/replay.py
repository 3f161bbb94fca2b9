"""A run captured once on a device (aclmdlRI) and replayed: one call in the place of one per operator."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence

from npu_common import _cann
from npu_common.graph.executors.buffers import copy, sizes
from npu_common.graph.ir import Graph
from npu_common.runtime import DeviceArray, Event, Stream, empty

# Makes ready on the stream what every run needs (constants), and answers what puts one run on it.
Prepare = Callable[[Stream], Callable[[Sequence[DeviceArray], Sequence[DeviceArray], Stream], None]]


# Up to this size buffers are copied to and from those of the captured work, so that one capture serves all runs;
# larger ones are captured where they are, once they come a second time.
COPIED_BYTES = 1 << 20
# Captures of large buffers that an executable keeps a device, and sets of addresses that it remembers.
_KEPT, _REMEMBERED = 2, 32
Buffers = Sequence[DeviceArray]


class Replays:
    """The captured runs of an executable on one device. Not thread-safe."""

    def __init__(self, graph: Graph, device: int, prepare: Prepare) -> None:
        self._graph, self._device, self._prepare = graph, device, prepare
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._kept: OrderedDict[tuple[int, ...], Replay] = OrderedDict()
        self.refusal: str | None = None  # why the work cannot be captured, in CANN's words

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, inputs: Buffers, outputs: Buffers) -> Replay | None:
        """The captured run for these buffers, made now if its like has come before; None: run operator by operator."""
        if self.refusal is not None:
            return None
        large = sum(array.nbytes for array in (*inputs, *outputs)) > COPIED_BYTES
        key = tuple(array.address for array in (*inputs, *outputs)) if large else ()
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._seen:
            self._seen[key] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            return None
        try:
            made = Replay(self._graph, self._device, self._prepare, (inputs, outputs) if large else None)
        except _cann.DeviceMemoryError:
            del self._seen[
                key
            ]  # memory comes back: this run goes on without, a later pair of runs tries again
            return None
        except _cann.CannError as error:
            self.refusal = str(error)
            return None
        self._kept[key] = made
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made


class Replay:
    """A captured graph reads and writes fixed addresses: the buffers it was captured with, or else buffers of its own,
    filled and emptied around each replay. Thread-safe; replays follow each other, whatever their streams."""

    def __init__(
        self, graph: Graph, device: int, prepare: Prepare, buffers: tuple[Buffers, Buffers] | None
    ) -> None:
        """Captures a run.

        Raises:
            CannError: something in it cannot be captured; nothing is left of the attempt.
        """
        # A stream of its own: what is allocated on it belongs to the captured graph.
        self._stream = Stream(device)
        run = prepare(self._stream)
        self._own = buffers is None
        if buffers is None:
            inputs, outputs = (
                [empty(sizes(v), v.dtype, stream=self._stream) for v in values]
                for values in (graph.inputs, graph.outputs)
            )
            self._inputs, self._outputs = inputs, outputs
        else:  # seen as this stream's, so that nothing in the capture waits for another one; not kept
            inputs, outputs = (
                [DeviceArray(array.to_dlpack(True), self._stream._native) for array in arrays]
                for arrays in buffers
            )
        self._stream.synchronize()
        self._run = run  # holds what the captured work reads
        self._lock = threading.Lock()
        self._done = Event(device, timing=False)
        capture = _cann.Capture(self._stream._native)
        try:
            run(inputs, outputs, self._stream)
        except BaseException:
            del capture  # ends it
            raise
        self._captured = capture.finish()
        self.close = weakref.finalize(self, _close, self._captured, self._done)

    def run(self, inputs: Buffers, outputs: Buffers, stream: Stream) -> None:
        """Enqueues one replay: contiguous buffers on this device; those it was captured with, if it was with any."""
        native = stream._native
        with self._lock:
            stream.wait(self._done)
            for array in (*inputs, *outputs):
                array.use_after_writes(native)
            if self._own:
                self._replay_between_copies(inputs, outputs, stream)
            else:
                self._captured.replay(native)
            for array in inputs:
                array.used_on(native, False)
            for array in outputs:
                array.used_on(native, True)
            stream.record(self._done)

    def _replay_between_copies(self, inputs: Buffers, outputs: Buffers, stream: Stream) -> None:
        for fixed, array in zip(self._inputs, inputs, strict=True):
            copy(fixed, array, stream)
        self._captured.replay(stream._native)
        for fixed, array in zip(self._outputs, outputs, strict=True):
            fixed.used_on(stream._native, True)
            copy(array, fixed, stream)


def _close(captured: _cann.CapturedGraph, done: Event) -> None:
    done.synchronize()
    captured.close()
