"""`python -m benchmarks [NAME ...]`: run the comparisons and print medians and ratios."""

from __future__ import annotations

import importlib
import os
import sys

from benchmarks.pair import report

MODULES = ["eager_op", "train_step", "bindings", "graph", "jax_programs", "collectives"]


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
        beyond |= report([module.COMPARISON], cores, "npu", "cpu", "us")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
