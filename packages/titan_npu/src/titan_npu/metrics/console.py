"""The run as a person sees it: one live line on a terminal, one plain line a step elsewhere."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

logger = logging.getLogger("titan_npu")


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the console shows of a step."""

    step: int
    total_steps: int
    loss: float
    grad_norm: float
    tokens_per_second: float
    memory_gib: float
    memory_percent: float
    eta_seconds: float
    mfu_percent: float | None

    def fields(self) -> str:
        # A small run uses so little of the SoC that the figure would read 0.00%; metrics.jsonl has it.
        told = self.mfu_percent is not None and self.mfu_percent >= 0.01
        mfu = f"  mfu: {self.mfu_percent:.2f}%" if told else ""
        return (
            f"loss: {self.loss:8.5f}  grad_norm: {self.grad_norm:7.4f}  tps: {self.tokens_per_second:,.0f}  "
            f"memory: {self.memory_gib:.2f}GiB({self.memory_percent:.1f}%)  eta: "
            f"{duration(self.eta_seconds)}{mfu}"
        )


class ConsoleReport(Protocol):
    def show(self, report: StepReport) -> None: ...

    def close(self) -> None: ...


class PlainLines:
    """``step:  1  loss:  7.62345  ...``: for logs, pipes and tests."""

    def show(self, report: StepReport) -> None:
        logger.info("step: %2d  %s", report.step, report.fields())

    def close(self) -> None:
        pass


class LiveLine:
    """One line that is drawn over and over, with a bar."""

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            console=console,
            transient=False,
        )
        self._task: TaskID | None = None

    def show(self, report: StepReport) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", total=report.total_steps)
        self._progress.update(self._task, completed=report.step, description=report.fields(), refresh=True)

    def close(self) -> None:
        if self._task is not None:
            self._progress.stop()
            self._task = None


def build_console(progress: str) -> ConsoleReport:
    """``progress``: "live", "plain", or "auto" (live when standard output is a terminal)."""
    live = progress == "live" or (progress == "auto" and sys.stdout.isatty())
    return LiveLine() if live else PlainLines()


def duration(seconds: float) -> str:
    """h:mm:ss."""
    minutes, rest = divmod(max(int(seconds + 0.5), 0), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


class StdoutHandler(logging.StreamHandler[Any]):
    """Writes to the sys.stdout of the moment, so that lines go above a live line and not through it."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)
