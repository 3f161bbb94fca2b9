"""Runs passes over a graph and all its subgraphs until none of them changes anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from npu_common.graph.ir import Graph
from npu_common.graph.language import GraphLanguage, native
from npu_common.graph.verify import verify

# Changes one graph (not what is below it), returns how many changes that were.
Run = Callable[[Graph, GraphLanguage], int]


@dataclass(frozen=True, slots=True)
class Pass:
    name: str
    run: Run


@dataclass(slots=True)
class Statistic:
    changes: int = 0
    runs: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Report:
    rounds: int = 0
    passes: dict[str, Statistic] = field(default_factory=dict)

    @property
    def changes(self) -> int:
        return sum(s.changes for s in self.passes.values())

    def __str__(self) -> str:
        rows = [f"{n:24} {s.changes:6} changes {s.seconds * 1e3:9.2f} ms" for n, s in self.passes.items()]
        return "\n".join([f"{self.rounds} rounds", *rows])


class PassManager:
    """Runs passes in rounds, then the last ones once.

    `check`: verify after every pass that changed something, to find the pass that breaks a graph.
    """

    def __init__(
        self, passes: Iterable[Pass], max_rounds: int = 16, *, last: Iterable[Pass] = (), check: bool = False
    ) -> None:
        self._passes = tuple(passes)
        self._last = tuple(last)
        self._max_rounds = max_rounds
        self._check = check

    def run(self, graph: Graph, language: GraphLanguage | None = None) -> Report:
        """Changes the graph in place."""
        language = language or native()
        report = Report(passes={p.name: Statistic() for p in (*self._passes, *self._last)})
        for _ in range(self._max_rounds):
            before = report.changes
            report.rounds += 1
            for each in self._passes:
                self._run_one(each, graph, language, report.passes[each.name])
            if report.changes == before:
                break
        for each in self._last:
            self._run_one(each, graph, language, report.passes[each.name])
        return report

    def _run_one(self, each: Pass, graph: Graph, language: GraphLanguage, statistic: Statistic) -> None:
        started = time.perf_counter()
        changes = sum(each.run(sub, language) for sub in list(graph.walk()))
        statistic.seconds += time.perf_counter() - started
        statistic.runs += 1
        statistic.changes += changes
        if changes and self._check:
            verify(graph, language)
