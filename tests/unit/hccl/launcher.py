"""Ranks forked from one process that has imported torch_npu: the import is paid once, not by every rank.

``python -m tests.unit.hccl.launcher`` is that process. It reads a request a line and answers with how its ranks ended.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[3]
LIMIT = 150.0  # seconds for all ranks of a program
Outcome = list[tuple[int, str, str]]  # exit status (minus the signal), stdout, stderr of each rank


@dataclass(frozen=True)
class Place:
    """Where a rank is: its number among `n`, and a folder that all of them see."""

    rank: int
    n: int
    folder: Path


@dataclass
class Request:
    program: str  # "module.function" of tests.unit.hccl.programs; called with the Place
    n: int
    folder: str
    environment: dict[str, str]


class Launcher:
    def __enter__(self) -> Launcher:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.hccl.launcher"],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def run(self, n: int, program: str, folder: Path, environment: dict[str, str]) -> Outcome:
        """Runs the program on n ranks and waits for them; what outlives the limit is killed (status -9)."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = Request(program, n, str(folder), environment)
        self._process.stdin.write(json.dumps(asdict(request)) + "\n")
        self._process.stdin.flush()
        statuses = json.loads(self._process.stdout.readline())
        said = [[(folder / f"{rank}.{kind}").read_text() for kind in ("out", "err")] for rank in range(n)]
        return [(status, out, err) for status, (out, err) in zip(statuses, said, strict=True)]


def child(request: Request, rank: int) -> NoReturn:
    """Becomes the rank, never returns: its output goes to files of the folder.

    Leaves without Python's own shutdown, which would copy every page that is shared with the other ranks.
    """
    folder = Path(request.folder)
    for descriptor, kind in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / f"{rank}.{kind}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), descriptor)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    os.environ.update(request.environment)
    status = 1
    try:
        module, function = request.program.split(".")
        program = getattr(importlib.import_module(f"tests.unit.hccl.programs.{module}"), function)
        program(Place(rank, request.n, folder))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait(pids: list[int]) -> list[int]:
    deadline = time.monotonic() + LIMIT
    statuses: dict[int, int] = {}
    while len(statuses) < len(pids):
        for pid in set(pids) - statuses.keys():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                statuses[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return [statuses[pid] for pid in pids]


def main() -> None:
    import torch_npu  # noqa: F401

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        pids = []
        for rank in range(request.n):
            pid = os.fork()
            if pid == 0:
                child(request, rank)
            pids.append(pid)
        answers.write(json.dumps(wait(pids)) + "\n")


if __name__ == "__main__":
    main()
