"""Two sides of a comparison in processes of their own, timed in turns."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection

# A side's set-up: returns the function that does one timed piece of work and waits until it is done.
SetUp = Callable[[], Callable[[], None]]


@dataclass(frozen=True)
class Comparison:
    """What is compared: `ours` against `peer`, each piece of work standing for `units` (steps, operators)."""

    name: str
    ours: SetUp
    peer: SetUp
    goal: float  # the ratio ours / peer that must not be exceeded
    units: int = 1
    rounds: int = 9


@dataclass(frozen=True)
class Result:
    """Seconds per unit of each round, warm-up left out."""

    comparison: Comparison
    ours: list[float]
    peer: list[float]

    @property
    def ratio(self) -> float:
        """Median of the rounds' own ratios: a drift of the machine's speed meets both sides of a round alike."""
        return statistics.median(a / b for a, b in zip(self.ours, self.peer, strict=True))


def _serve(set_up: SetUp, cores: list[int], wire: Connection) -> None:
    os.sched_setaffinity(0, cores)
    work = set_up()
    wire.send("ready")
    while wire.recv():
        start = time.perf_counter()
        work()
        wire.send(time.perf_counter() - start)


def measure(comparison: Comparison, cores: list[int]) -> Result:
    """Run the comparison on the given cores. Raises EOFError when a side dies (its traceback is on stderr)."""
    context = multiprocessing.get_context("spawn")
    os.environ["OMP_NUM_THREADS"] = str(len(cores))
    sides = []
    for set_up in (comparison.ours, comparison.peer):
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(set_up, cores, there), daemon=True)
        process.start()
        there.close()
        here.recv()
        sides.append((process, here))
    times: list[list[float]] = [[], []]
    for _ in range(comparison.rounds + 2):
        for index, (_, wire) in enumerate(sides):
            wire.send(True)
            times[index].append(wire.recv() / comparison.units)
    for process, wire in sides:
        wire.send(False)
        process.join()
    return Result(comparison, times[0][2:], times[1][2:])


_SCALES = {"ms": 1e3, "us": 1e6}


def report(
    comparisons: Iterable[Comparison], cores: list[int], ours: str, peer: str, unit: str = "ms"
) -> bool:
    """Measures and prints a line a comparison, medians in `unit`; whether any ratio is beyond its goal."""
    beyond = False
    for comparison in comparisons:
        result = measure(comparison, cores)
        times = [statistics.median(side) * _SCALES[unit] for side in (result.ours, result.peer)]
        missed = result.ratio > comparison.goal
        beyond |= missed
        print(
            f"{comparison.name:<34} {ours} {times[0]:10.2f} {unit}   {peer} {times[1]:10.2f} {unit}   "
            f"ratio {result.ratio:5.2f} (goal {comparison.goal:.2f}){'  BEYOND THE GOAL' if missed else ''}",
            flush=True,
        )
    return beyond
