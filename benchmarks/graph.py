"""What compiling a graph gains: fused regions against op by op and against a copy, captured work against putting each
operator on the stream, and a compiled Llama against eager.

Every side runs on the NPU: the peer is the same work without the graph compiler.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from benchmarks.pair import Comparison, report

ELEMENTS = 16 * 1024 * 1024
LAYERS, DIM, HIDDEN, HEADS, LENGTH, BATCH = 12, 256, 704, 8, 64, 4


def chain(executor_name: str) -> Callable[[], None]:
    """Twelve elementwise operators over 16M floats: scaled, shifted, clipped, squashed."""
    import numpy as np

    from npu_common import runtime
    from npu_common.graph import Builder
    from npu_common.graph.executors import CompileOptions, executor

    g = Builder("chain")
    x = g.input("x", "float32", (ELEMENTS,))
    y = x * 0.5 + 0.25
    y = g.add("Relu", y) - 0.125
    y = g.add("Maximum", y * 1.5, g.constant(np.float32(-1)))
    y = g.add("Minimum", g.add("Abs", y), g.constant(np.float32(2)))
    y = g.add("Sqrt", y + 1.0) * 0.75
    g.output(g.add("Neg", y))
    extra = {"capture": "off"} if executor_name == "aclnn" else {}
    executable = executor(executor_name).compile(g.graph, CompileOptions(extra=extra))
    source = runtime.asarray(np.random.default_rng(0).standard_normal(ELEMENTS, dtype=np.float32))
    result, stream = runtime.empty((ELEMENTS,)), runtime.current_stream()

    def work() -> None:
        executable.run([source], [result], stream)
        stream.synchronize()

    return work


def small_operators(capture: str) -> Callable[[], None]:
    """Sixty operators over 1,024 floats, where putting them on the stream is all the work."""
    import numpy as np

    from npu_common import runtime
    from npu_common.graph import Builder
    from npu_common.graph.executors import CompileOptions, executor

    g = Builder("small")
    x = y = g.input("x", "float32", (1024,))
    for _ in range(20):
        y = g.add("Relu", y * 0.5) + x
    g.output(y)
    executable = executor("aclnn").compile(g.graph, CompileOptions(extra={"capture": capture}))
    source = runtime.asarray(np.ones(1024, np.float32))
    result, stream = runtime.empty((1024,)), runtime.current_stream()

    def work() -> None:
        for _ in range(10):
            executable.run([source], [result], stream)
        stream.synchronize()

    return work


def copy() -> Callable[[], None]:
    """A copy of the same bytes on the device."""
    import numpy as np

    from npu_common import runtime

    source = runtime.asarray(np.zeros(ELEMENTS, np.float32))
    stream = runtime.current_stream()

    def work() -> None:
        source.copy(stream=stream)
        stream.synchronize()

    return work


def llama(compiled: bool) -> Callable[[], None]:
    """A forward pass of twelve Llama blocks on torch_npu, eager or compiled by torchair."""
    import torch
    import torch_npu
    import torchair

    from tests.e2e.torchair.models import LlamaBlock

    class Stack(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList(LlamaBlock(DIM, HIDDEN, HEADS) for _ in range(LAYERS))

        def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = block(x, cos, sin)
            return x

    torch.manual_seed(0)
    model = Stack().npu().eval()
    angles = torch.arange(LENGTH)[:, None] * torch.rand(1, DIM // HEADS)
    inputs = [torch.randn(BATCH, LENGTH, DIM).npu(), angles.cos().npu(), angles.sin().npu()]
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    run = torch.compile(model, backend=backend, dynamic=False, fullgraph=True) if compiled else model

    def work() -> None:
        with torch.no_grad():
            run(*inputs)
        torch_npu.npu.synchronize()

    return work


COMPARISONS = [
    Comparison("chain of 12, afir / op by op", partial(chain, "afir"), partial(chain, "aclnn"), 0.35),
    Comparison("chain of 12, afir / a copy", partial(chain, "afir"), copy, 1.5),
    Comparison(
        "60 small, replayed / op by op", partial(small_operators, "on"), partial(small_operators, "off"), 0.5
    ),
    Comparison("Llama of 12 layers, graph / eager", partial(llama, True), partial(llama, False), 0.8),
]


def run(cores: list[int]) -> bool:
    """Prints a line a comparison; True when one is beyond its goal."""
    os.environ["NPU_CACHE_DIR"] = os.environ.get("NPU_CACHE_DIR", "outputs/benchmarks/cache")
    return report(COMPARISONS, cores, "graph", "peer")
