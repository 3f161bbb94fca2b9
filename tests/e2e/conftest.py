"""The titan-npu command, over a corpus that it prepared itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
SMALL = ("training.local_batch_size=1", "training.seq_len=128", "metrics.enable_tensorboard=false")
VOCABULARY = 2003  # a prime: nothing that splits it comes out even
OURS = ("NPU_", "ASCEND_", "TORCH_", "PYTHON", "LD_", "TITAN_NPU_")


class Titan:
    """Starts commands as a new shell would, with the session's corpus as the default data."""

    def __init__(self, data: Path, cwd: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        # One thread: steps this small gain nothing from more, and lose much where the cores are busy.
        self.environ = kept | {"TITAN_NPU_DATA": str(data), "OMP_NUM_THREADS": "1"}
        self.cwd = cwd

    def popen(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(BIN / command[0]) if "/" not in command[0] else command[0], *command[1:]],
            env=self.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.cwd,
        )

    def __call__(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        process = self.popen(*command, **variables)
        try:
            stdout, stderr = process.communicate(timeout=600)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def train(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """`titan-npu train` with small steps and those words."""
        return self("titan-npu", "train", *SMALL, *words, **variables)


@pytest.fixture(scope="session")
def titan(tmp_path_factory: pytest.TempPathFactory) -> Titan:
    titan = Titan(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("work"))
    done = titan("titan-npu", "data", "prepare", "--vocab-size", str(VOCABULARY))
    assert done.returncode == 0, done.stderr
    return titan


@pytest.fixture(scope="session")
def metrics() -> Callable[[Path], list[dict[str, Any]]]:
    """The records of a run's metrics.jsonl without what differs from run to run: times and memory."""

    def read(run: Path) -> list[dict[str, Any]]:
        changing = ("time", "second", "memory", "tflops", "mfu")
        records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [{k: v for k, v in r.items() if not any(part in k for part in changing)} for r in records]

    return read
