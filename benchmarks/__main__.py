"""`python -m benchmarks [NAME ...]`: run the comparisons and print medians and ratios."""

from __future__ import annotations

import importlib
import os
import statistics
import sys

from benchmarks.pair import measure

MODULES = ["eager_op", "train_step", "bindings", "graph", "collectives"]


def main(names: list[str]) -> int:
    """Print one line a comparison; returns 1 when a ratio is beyond its goal."""
    unknown = set(names) - set(MODULES)
    if unknown:
        print(
            f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(MODULES)}",
            file=sys.stderr,
        )
        return 2
    cores = sorted(os.sched_getaffinity(0))[:2]
    beyond = False
    print(f"cores {cores}; medians; ratio = NPU / CPU torch, round by round")
    for name in names or MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        if not hasattr(module, "COMPARISON"):  # prints a table of its own
            beyond |= module.run(cores)
            continue
        result = measure(module.COMPARISON, cores)
        ours, peer = statistics.median(result.ours), statistics.median(result.peer)
        missed = result.ratio > result.comparison.goal
        beyond |= missed
        print(
            f"{result.comparison.name:<34} npu {ours * 1e6:12.1f} us   cpu {peer * 1e6:12.1f} us   "
            f"ratio {result.ratio:5.2f} (goal {result.comparison.goal:.2f}){'  BEYOND THE GOAL' if missed else ''}"
        )
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
