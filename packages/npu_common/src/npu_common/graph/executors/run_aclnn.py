"""The executor `aclnn`: a graph as a list of aclnn calls on a stream, planned once, with memory freed at its last use.

The first run on a device goes operator by operator; the second is captured (aclmdlRI), and from then on replayed (with
large buffers: the second run on the same ones).

Static shapes and straight-line graphs only; control flow, collectives and operators that write to an input are refused
by name, because `ge` runs them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from npu_common import _cann
from npu_common.graph import passes
from npu_common.graph.executors import CompileOptions, buffers
from npu_common.graph.executors.aclnn import Call, DataType, Tensor, Tensors, lower
from npu_common.graph.executors.aclnn_table import VIEWS
from npu_common.graph.executors.replay import Replay, Replays
from npu_common.graph.ir import CONSTANTS, Graph, GraphError, Node, Value
from npu_common.graph.passes.effects import has_effect
from npu_common.graph.serialise import from_model, to_model
from npu_common.runtime import DeviceArray, Stream, asarray, empty, ops
from npu_common.runtime._library import ready

_MAGIC = b"npu-aclnn-1\0"
Environment = dict[Value, DeviceArray]
Argument = Callable[[Environment], Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A node: what it makes, what it calls, whose memory nobody needs afterwards."""

    node: Node
    calls: tuple[tuple[str, tuple[Argument, ...]], ...]
    done_with: tuple[Value, ...] = ()


class AclnnExecutor:
    name = "aclnn"

    def compile(self, graph: Graph, options: CompileOptions) -> AclnnExecutable:
        """The graph is copied before it is changed. `options.extra`: {"capture": "off"} runs always operator by operator.

        Raises:
            GraphError: names the node that cannot run operator by operator.
            ValueError: an option that there is not.
        """
        capture = _captures(options)
        own = from_model(to_model(graph))
        (passes.standard() if options.fuse else passes.exact()).run(own)
        return AclnnExecutable(own, capture)

    def deserialise(self, data: bytes, options: CompileOptions) -> AclnnExecutable:
        """Raises ValueError: bytes of something else."""
        if not data.startswith(_MAGIC):
            raise ValueError("these bytes are no graph of the executor aclnn, or one of another version")
        return AclnnExecutable(from_model(data[len(_MAGIC) :]), _captures(options))


def _captures(options: CompileOptions) -> bool:
    for name, value in options.extra.items():
        if name != "capture" or value not in ("on", "off"):
            raise ValueError(f"the executor aclnn has no option {name}={value!r}; it has capture=on|off")
    return options.extra.get("capture", "on") == "on"


def make() -> AclnnExecutor:
    return AclnnExecutor()


class AclnnExecutable:
    """Thread-safe. Keeps the constants on each device it ran on, and the captured work with its memory and constants."""

    def __init__(self, graph: Graph, capture: bool) -> None:
        self._graph = graph
        self._capture = capture
        self._steps = _plan(graph)
        self._constants = sorted(_constants(graph, self._steps), key=lambda v: v.node.number)
        self._on_device: dict[int, Environment] = {}
        self._replays: dict[int, Replays] = {}
        self._lock = threading.Lock()

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def captured_on(self) -> set[int]:
        """Devices on which runs are replays."""
        return {device for device, replays in self._replays.items() if len(replays)}

    @property
    def capture_refusals(self) -> dict[int, str]:
        """Devices on which the work could not be captured, with CANN's reason: there it goes on operator by operator."""
        return {device: each.refusal for device, each in self._replays.items() if each.refusal is not None}

    def serialise(self) -> bytes:
        return _MAGIC + to_model(self._graph)

    def run(self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray], stream: Stream) -> None:
        """Enqueues one run.

        Raises:
            ValueError: the buffers are not those the graph was compiled for.
            CannError: an operator refused, with CANN's sentence.
        """
        buffers.check("input", inputs, self._graph.inputs)
        buffers.check("output", outputs, self._graph.outputs)
        dense = [array if array.contiguous else array.copy(stream=stream) for array in inputs]
        replay = self._replay(stream.device.index, dense, outputs)
        if replay is None:
            self._run_once(self._device_constants(stream), dense, outputs, stream)
        else:
            replay.run(dense, outputs, stream)

    def _replay(
        self, device: int, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> Replay | None:
        if not self._steps or not self._capture:
            return None
        with self._lock:
            if device not in self._replays:
                self._replays[device] = Replays(self._graph, device, self._prepare)
            return self._replays[device].find(inputs, outputs)

    def _prepare(
        self, stream: Stream
    ) -> Callable[[Sequence[DeviceArray], Sequence[DeviceArray], Stream], None]:
        return partial(self._run_once, self._copied_constants(stream))

    def _run_once(
        self,
        constants: Environment,
        inputs: Sequence[DeviceArray],
        outputs: Sequence[DeviceArray],
        stream: Stream,
    ) -> None:
        """Operator by operator."""
        values = constants | dict(zip(self._graph.inputs, inputs, strict=True))
        direct = self._written_directly()
        for value, index in direct.items():
            values[value] = outputs[index]
        for step in self._steps:
            self._run_step(step, values, stream)
        self._copy_outputs(values, outputs, set(direct.values()), stream)

    def _run_step(self, step: Step, values: Environment, stream: Stream) -> None:
        node = step.node
        if node.type in VIEWS:
            source = node.inputs[0]
            assert source is not None
            values[node.output] = values[source].reshape(*buffers.sizes(node.output))
        else:
            for value in node.outputs:
                if value not in values:
                    values[value] = empty(buffers.sizes(value), value.dtype, stream=stream)
            for function, arguments in step.calls:
                ops.call(function, *(argument(values) for argument in arguments), stream=stream)
        for value in step.done_with:
            values.pop(value, None)

    def _written_directly(self) -> dict[Value, int]:
        """Results that an operator can compute into the caller's buffer: not those in a donated input's memory, which
        other operators may still read."""
        results = self._graph.outputs
        return {
            value: index
            for index, value in enumerate(results)
            if index not in self._graph.aliases and results.count(value) == 1 and _is_computed(value.node)
        }

    def _copy_outputs(
        self, values: Environment, outputs: Sequence[DeviceArray], done: set[int], stream: Stream
    ) -> None:
        left = [i for i in range(len(outputs)) if i not in done]
        arrays = {i: values[self._graph.outputs[i]] for i in left}
        if self._graph.aliases:
            # What is still in an input's memory moves out before that memory is written to.
            arrays = {
                i: a.copy(stream=stream) if _root(self._graph.outputs[i]).type == "Data" else a
                for i, a in arrays.items()
            }
        for i in left:
            ops.call("aclnnInplaceCopy", outputs[i], arrays[i], stream=stream)

    def _device_constants(self, stream: Stream) -> Environment:
        index = stream.device.index
        with self._lock:
            if index not in self._on_device:
                self._on_device[index] = self._copied_constants(stream)
            return self._on_device[index]

    def _copied_constants(self, stream: Stream) -> Environment:
        return {
            value: asarray(np.asarray(value.constant), device=stream.device.index, stream=stream)
            for value in self._constants
        }


# Planning.


@dataclass(slots=True)
class _Lifetimes:
    """At which step a value is read last. Letting go of an array keeps its memory while a view of it is left."""

    last: dict[Value, int] = field(default_factory=dict)

    def reads(self, value: Value, step: int) -> None:
        self.last[value] = max(step, self.last.get(value, -1))

    def ending_at(self) -> dict[int, list[Value]]:
        ends: dict[int, list[Value]] = {}
        for value, step in self.last.items():
            ends.setdefault(step, []).append(value)
        return ends


def _plan(graph: Graph) -> list[Step]:
    order = [node for node in graph.order() if node.type != "Data"]
    for value in (v for node in graph.nodes for v in node.outputs):
        if not value.is_static:
            raise GraphError(
                f"{value!r} has no fixed shape, which running operator by operator needs: use NPU_COMPILER=ge"
            )
    steps = [Step(node, _bound(node)) for node in order if node.type not in CONSTANTS]
    lifetimes = _Lifetimes()
    for number, step in enumerate(steps):
        for value in (*step.node.outputs, *(v for v in step.node.inputs if v is not None)):
            lifetimes.reads(value, number)
    for value in graph.outputs:
        lifetimes.reads(value, len(steps))
    ends = lifetimes.ending_at()
    return [Step(step.node, step.calls, tuple(ends.get(number, ()))) for number, step in enumerate(steps)]


def _bound(node: Node) -> tuple[tuple[str, tuple[Argument, ...]], ...]:
    if node.subgraphs or has_effect(node):
        raise GraphError(f"{node} does not run operator by operator: use NPU_COMPILER=ge")
    return tuple((call.function, _arguments(call)) for call in lower(node))


def _arguments(call: Call) -> tuple[Argument, ...]:
    letters = _letters(call.function)
    return tuple(
        _argument(call, argument, letter) for argument, letter in zip(call.arguments, letters, strict=True)
    )


def _letters(function: str) -> str:
    ready()  # whether CANN has the function is asked of CANN
    return _cann.Operator.of(function).letters


def _argument(call: Call, argument: Any, letter: str) -> Argument:
    """What to hand over at run time. Numbers and lists come from constants now, tensors from the run."""
    if isinstance(argument, Tensors):
        return lambda values: [values[v] for v in argument.values]
    if isinstance(argument, DataType):
        return lambda values: argument.dtype
    if isinstance(argument, Tensor):
        return _from_tensor(call, argument, letter)
    if letter == "I" and argument is not None and not isinstance(argument, list):
        argument = [argument]
    if letter == "Q" and isinstance(argument, int) and argument < 0:
        argument += 2**64  # -1 for "none" (padding_idx), as C converts it
    return lambda values: argument


def _from_tensor(call: Call, argument: Tensor, letter: str) -> Argument:
    if letter == "T":
        return _transposed(argument.value) if argument.swapped else lambda values: values[argument.value]
    constant = argument.value.constant
    if constant is None:
        raise GraphError(
            f"{call.function} takes {argument.value!r} as a number, and it is computed: use NPU_COMPILER=ge"
        )
    held = [int(i) for i in constant.reshape(-1)] if letter == "I" else constant.reshape(())[()]
    return lambda values: held


def _transposed(value: Value) -> Argument:
    rank = len(value.shape or ())
    axes = [*range(rank - 2), rank - 1, rank - 2]
    return lambda values: values[value].transpose(*axes)


def _constants(graph: Graph, steps: Sequence[Step]) -> set[Value]:
    read = {value for step in steps for value in step.node.inputs if value is not None}
    read |= set(graph.outputs)
    return {value for value in read if value.node.type in CONSTANTS}


def _is_computed(node: Node) -> bool:
    return node.type not in VIEWS and node.type not in CONSTANTS and node.type != "Data"


def _root(value: Value) -> Node:
    """The node that made the memory that a view shows."""
    node = value.node
    while node.type in VIEWS:
        source = node.inputs[0]
        assert source is not None, node
        node = source.node
    return node
