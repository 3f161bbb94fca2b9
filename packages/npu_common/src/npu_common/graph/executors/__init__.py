"""What runs a graph: one interface, several executors, chosen by an argument or by NPU_COMPILER.

`aclnn` runs operator by operator, `ge` compiles the whole graph, `afir` is `ge` with AutoFuse. Importing this
package imports none of them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from npu_common.graph.ir import Graph

VARIABLE = "NPU_COMPILER"
DEFAULT = "ge"
# Name -> the module that has `make() -> Executor`.
_EXECUTORS = {
    "aclnn": "npu_common.graph.executors.run_aclnn",
    "ge": "npu_common.graph.executors.run_ge",
    "afir": "npu_common.graph.executors.run_afir",
}


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """`fuse`: put fused operators in the place of their expansions. `extra`: the executor's own options."""

    device: int = 0
    fuse: bool = True
    extra: Mapping[str, str] = field(default_factory=dict)

    def key(self) -> str:
        """For the compile cache. The device is no part of it."""
        return repr((self.fuse, sorted(self.extra.items())))


class Executable(Protocol):
    """A compiled graph. Usable from several threads, each with buffers and a stream of its own."""

    @property
    def graph(self) -> Graph: ...

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any], stream: Any) -> None:
        """Enqueues one run on the stream and returns.

        Args:
            inputs, outputs: device buffers in the order of the graph's, shapes and dtypes as compiled. An output
                that takes over an input's memory (`Graph.aliases`) is that very buffer.
        """
        ...

    def serialise(self) -> bytes: ...


class Executor(Protocol):
    @property
    def name(self) -> str: ...

    def compile(self, graph: Graph, options: CompileOptions) -> Executable:
        """Raises GraphError naming the node that this executor cannot run."""
        ...

    def deserialise(self, data: bytes, options: CompileOptions) -> Executable:
        """Raises ValueError for bytes of another executor or version."""
        ...


def chosen(name: str | None = None) -> str:
    """The executor's name from the argument, NPU_COMPILER, or the default.

    Raises:
        ValueError: there is no executor of that name.
    """
    wanted = name or os.environ.get(VARIABLE, "").strip() or DEFAULT
    if wanted not in _EXECUTORS:
        source = "the argument" if name else VARIABLE
        raise ValueError(f"there is no executor '{wanted}' (from {source}); choose {', '.join(_EXECUTORS)}")
    return wanted


def executor(name: str | None = None) -> Executor:
    """The executor of that name (see `chosen`).

    Raises:
        ValueError: there is none of that name, or this installation does not have it.
    """
    wanted = chosen(name)
    try:
        module = importlib.import_module(_EXECUTORS[wanted])
    except ModuleNotFoundError as error:
        if error.name != _EXECUTORS[wanted]:
            raise
        raise ValueError(f"this version of npu_common has no executor '{wanted}'; set {VARIABLE}") from None
    made: Executor = module.make()
    return made
