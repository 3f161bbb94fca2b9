"""The executor `ge`: the whole graph compiled by CANN's graph engine into an offline model (OM), kept in the compile
cache, loaded on a device at its first run there.

Static and dynamic shapes, control flow, collectives, operators that write to an input. Outputs of a dynamic graph are
the caller's buffers too, of exactly the shape that the run gives.
"""

from __future__ import annotations

import atexit
import os
import struct
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from npu_common import _cann
from npu_common.graph import passes
from npu_common.graph.cache import CompileCache, Target, folder, key
from npu_common.graph.executors import CompileOptions, buffers
from npu_common.graph.ir import Graph, GraphError
from npu_common.graph.serialise import from_model, to_model
from npu_common.runtime import DeviceArray, Stream, asarray, empty, soc_name, version
from npu_common.runtime._library import ready

_FORMAT = 1
_HEADER = struct.Struct("<12sIQ")  # magic, format, bytes of the graph; then the graph and the model
_FLAGS = "AUTOFUSE_FLAGS"


class GeExecutor:
    """`flags`: AUTOFUSE_FLAGS of every build; None: as the environment says."""

    def __init__(self, name: str = "ge", flags: str | None = None) -> None:
        self.name = name
        self._flags = flags

    def compile(self, graph: Graph, options: CompileOptions) -> GeExecutable:
        """The graph is copied before it is changed. `options.extra` are aclgrphBuildModel's options.

        Raises:
            GraphError: the compiler's sentence, which names the node and its operator.
        """
        ready()
        own = from_model(to_model(graph))
        (passes.standard(chains=self._flags is not None) if options.fuse else passes.exact()).run(own)
        return GeExecutable(self.name, own, self._build(own, options))

    def deserialise(self, data: bytes, options: CompileOptions) -> GeExecutable:
        """Raises ValueError: bytes of something else."""
        magic = _magic(self.name)
        if len(data) < _HEADER.size or _HEADER.unpack_from(data)[:2] != (magic, _FORMAT):
            raise ValueError(
                f"these bytes are no compiled graph of the executor {self.name}, or one of another version"
            )
        end = _HEADER.size + _HEADER.unpack_from(data)[2]
        if end > len(data):
            raise ValueError(f"the compiled graph is cut off: {len(data)} bytes of more than {end}")
        return GeExecutable(self.name, from_model(data[_HEADER.size : end]), data[end:])

    def _build(self, graph: Graph, options: CompileOptions) -> bytes:
        # The environment's flags change what is compiled where the executor sets none of its own.
        flags = os.environ.get(_FLAGS, "") if self._flags is None else self._flags
        target = Target(self.name, soc_name(), version(), repr((options.key(), flags)))

        def build() -> bytes:
            try:
                return _cann.build_model(to_model(graph), graph.name, dict(options.extra), self._flags)
            except _cann.CannError as error:
                raise GraphError(str(error)) from error

        return _cache(folder()).get_or_compile(key(graph, target), build)


@cache
def _cache(place: Path) -> CompileCache:
    return CompileCache(place)  # one for the process, so that it warns once


def make() -> GeExecutor:
    return GeExecutor()


class GeExecutable:
    """Thread-safe. Runs of one executable on a device share its work memory, so those of several streams follow each
    other there; compile (the cache answers) a second one to overlap them."""

    def __init__(self, executor: str, graph: Graph, model: bytes) -> None:
        self._executor = executor
        self._graph = graph
        self._model = model
        self._sessions: dict[int, _cann.GraphSession] = {}
        self._lock = threading.Lock()
        self._dynamic = [i for i, value in enumerate(graph.outputs) if not value.is_static]

    @property
    def graph(self) -> Graph:
        return self._graph

    def serialise(self) -> bytes:
        graph = to_model(self._graph)
        return _HEADER.pack(_magic(self._executor), _FORMAT, len(graph)) + graph + self._model

    def run(self, inputs: Sequence[Any], outputs: Sequence[DeviceArray], stream: Stream) -> None:
        """Enqueues one run; a graph with dynamic shapes may wait for its work.

        Args:
            inputs: DeviceArrays, or host values (NumPy), which are copied first.
            outputs: contiguous DeviceArrays.

        Raises:
            ValueError: the buffers are not those the graph was compiled for, or a dynamic output has another shape.
            CannError: the run was refused, with CANN's sentence.
        """
        buffers.check("output", outputs, self._graph.outputs)
        index = stream.device.index
        arrays = [asarray(each, device=index, stream=stream) for each in inputs]
        buffers.check("input", arrays, self._graph.inputs)
        arrays = [each if each.contiguous else each.copy(stream=stream) for each in arrays]
        targets = self._apart(outputs, stream)
        shapes = self._session(stream).run(arrays, targets, stream._native)
        for position in self._dynamic:
            if tuple(shapes[position]) != outputs[position].shape:
                raise ValueError(
                    f"output {position} has the shape {tuple(shapes[position])} in this run, its buffer"
                    f" {outputs[position].shape}"
                )
        for target, output in zip(targets, outputs, strict=True):
            if target is not output:
                buffers.copy(output, target, stream)

    def _apart(self, outputs: Sequence[DeviceArray], stream: Stream) -> list[DeviceArray]:
        """Memory for the results that take over an input's: CANN does not say when it last reads an input, so they are
        computed elsewhere and copied."""
        return [
            empty(output.shape, output.dtype, stream=stream) if i in self._graph.aliases else output
            for i, output in enumerate(outputs)
        ]

    def _session(self, stream: Stream) -> _cann.GraphSession:
        index = stream.device.index
        with self._lock:
            if index not in self._sessions:
                self._sessions[index] = _cann.GraphSession.load(self._model, stream._native)
            return self._sessions[index]


def _magic(executor: str) -> bytes:
    return f"npu-{executor}".encode().ljust(12, b"\0")


atexit.register(_cann.finish_building)
