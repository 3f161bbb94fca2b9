"""Runs of titan-npu whose ranks are forked from one server that has imported everything and started no device.

Importing TorchTitan costs 7 CPU-seconds a process; eight ranks on two cores would spend a minute on it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.process import BaseProcess
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
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["titan_npu.run"])
    shared = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "HCCL_EXEC_TIMEOUT": str(int(SILENT)),
    }
    shared |= {
        name: os.environ[name] for name in ("TITAN_NPU_DATA", "ASCEND_HOME_PATH") if name in os.environ
    }
    words = ["train", f"dump_folder={folder}", *words]
    processes = [context.Process(target=_rank, args=(rank, shared, folder, words)) for rank in range(ranks)]
    for process in processes:
        process.start()
    failed = _wait(processes)
    if failed is not None:
        said = (folder / f"rank_{failed}.log").read_text().strip().splitlines()
        raise RuntimeError(f"rank {failed}: " + "\n".join(said[-15:]))


def _rank(rank: int, shared: dict[str, str], folder: Path, words: list[str]) -> None:
    log = os.open(folder / f"rank_{rank}.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(shared, RANK=str(rank), LOCAL_RANK=str(rank))
    signal.alarm(int(SILENT))
    from titan_npu import cli

    sys.exit(cli.main(words))


def _wait(processes: list[BaseProcess]) -> int | None:
    """Wait for all; the first rank that failed, or None. The others of a failed run are stopped."""
    failed = None
    running = {process.sentinel: rank for rank, process in enumerate(processes)}
    while running:
        for sentinel in connection.wait(list(running)):
            rank = running.pop(sentinel)
            processes[rank].join()
            if processes[rank].exitcode and failed is None:
                failed = rank
                for other in running.values():
                    processes[other].kill()
    return failed
