"""One training step of the debug Llama 3 (4 rows of 512 tokens, float32)."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.pair import Comparison


def on_npu() -> Callable[[], None]:
    """With the NPU's fused attention, documents packed."""
    from benchmarks.llama import timed_step

    return timed_step("npu")


def on_cpu() -> Callable[[], None]:
    """With CPU torch's scaled_dot_product_attention under a document mask."""
    from benchmarks.llama import timed_step

    return timed_step("cpu")


COMPARISON = Comparison("training step, debug Llama 3", on_npu, on_cpu, goal=1.15)
