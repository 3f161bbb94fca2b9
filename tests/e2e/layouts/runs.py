"""Runs of titan-npu whose ranks are forked from one process that has imported everything.

Importing TorchTitan costs 7 CPU-seconds a process; eight ranks on two cores would spend a minute on it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.layouts.table import Layout

LOSS, NORM = 1e-4, 1e-3
"""Relative bounds to the one-rank run: of losses (float32 sums in another order), of gradient norms."""

SILENT = 240.0
"""Seconds after which a run is stopped."""


@dataclass(frozen=True)
class Outcome:
    """What a layout's run gave next to the one-rank run's."""

    layout: Layout
    seconds: float
    failure: str = ""
    loss: float = 0.0
    norm: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failure and self.loss <= LOSS and self.norm <= NORM


class Runs:
    """One-rank runs and the layouts that are compared with them, all from one seed checkpoint a recipe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._references: dict[str, list[dict[str, Any]]] = {}

    def compare(self, layout: Layout) -> Outcome:
        """Run ``layout`` and compare each step with the one-rank run of its recipe."""
        reference = self.reference(layout.recipe)
        folder = self.folder / layout.name.replace(" ", "_").replace(",", "")
        started = time.monotonic()
        try:
            metrics = self._train(layout, folder)
        except RuntimeError as error:
            return Outcome(layout, time.monotonic() - started, failure=str(error))
        seconds = time.monotonic() - started
        if [r["step"] for r in metrics] != [r["step"] for r in reference]:
            return Outcome(layout, seconds, failure=f"steps {[r['step'] for r in metrics]}")

        def worst(*names: str) -> float:
            pairs = [
                (ours[name], theirs[name])
                for ours, theirs in zip(metrics, reference, strict=True)
                for name in names
                if name in theirs
            ]
            return max(abs(a - b) / abs(b) for a, b in pairs)

        return Outcome(layout, seconds, loss=worst("loss", "validation_loss"), norm=worst("grad_norm"))

    def reference(self, recipe: str) -> list[dict[str, Any]]:
        """The records of the one-rank run."""
        if recipe not in self._references:
            alone = Layout("one rank", {"fsdp": 1}, recipe=recipe)
            seed = ["checkpoint.create_seed_checkpoint=true", "checkpoint.enable=true"]
            run_ranks([*alone.command, *seed], 1, self._seed(recipe))
            self._references[recipe] = self._train(alone, self.folder / f"{recipe}_alone")
        return self._references[recipe]

    def from_seed(self, recipe: str) -> list[str]:
        """The words that start a run from the recipe's seed checkpoint."""
        return [f"checkpoint.initial_load_path={self._seed(recipe) / 'checkpoint' / 'step-0'}"]

    def _seed(self, recipe: str) -> Path:
        return self.folder / f"{recipe}_seed"

    def _train(self, layout: Layout, folder: Path) -> list[dict[str, Any]]:
        start = ["checkpoint.enable=true", "checkpoint.load_only=true", *self.from_seed(layout.recipe)]
        run_ranks([*layout.command, *start], layout.ranks, folder)
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def run_ranks(words: list[str], ranks: int, folder: Path) -> None:
    """``titan-npu train`` with ``words`` as ``ranks`` processes; their output goes to rank_N.log in ``folder``.

    Raises RuntimeError with the end of the first failing rank's output.
    """
    import titan_npu.run  # noqa: F401  (the import that the ranks share)
    from titan_npu import cli

    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children: dict[int, int] = {}
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            _become_rank(rank, ranks, port, folder)
            os._exit(cli.main(["train", f"dump_folder={folder}", *words]))
        children[child] = rank
    failed = _wait(children)
    if failed is not None:
        said = (folder / f"rank_{failed}.log").read_text().strip().splitlines()
        raise RuntimeError(f"rank {failed}: " + "\n".join(said[-15:]))


def _become_rank(rank: int, ranks: int, port: int, folder: Path) -> None:
    log = os.open(folder / f"rank_{rank}.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.alarm(int(SILENT))
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(ranks),
        LOCAL_RANK=str(rank),
        LOCAL_WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        OMP_NUM_THREADS="1",
        HCCL_EXEC_TIMEOUT=str(int(SILENT)),
    )


def _wait(children: dict[int, int]) -> int | None:
    """Wait for all; the first rank that failed, or None. The others of a failed run are stopped."""
    failed = None
    while children:
        child, status = os.wait()
        rank = children.pop(child, None)
        if rank is None or status == 0 or failed is not None:
            continue
        failed = rank
        for other in children:
            os.kill(other, signal.SIGKILL)
    return failed
