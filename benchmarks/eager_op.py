"""Dispatch of one small eager operator."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.pair import Comparison

OPERATORS = 2000


def _adds(device: str) -> Callable[[], None]:
    import torch

    x = torch.ones(16, device=device)
    wait = torch.npu.synchronize if device == "npu" else lambda: None

    def work() -> None:
        for _ in range(OPERATORS):
            x.add_(1)
        wait()

    return work


def on_npu() -> Callable[[], None]:
    """`x.add_(1)` on 16 floats, many times, then one synchronise."""
    return _adds("npu")


def on_cpu() -> Callable[[], None]:
    """The same on CPU torch."""
    return _adds("cpu")


COMPARISON = Comparison("one small eager operator", on_npu, on_cpu, goal=2.5, units=OPERATORS, rounds=45)
