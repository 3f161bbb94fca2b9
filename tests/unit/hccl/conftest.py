"""Ranks in processes of their own, each running one function of programs.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
Outcome = list[tuple[int, str, str]]


@pytest.fixture
def ranks(tmp_path: Path) -> Callable[..., Outcome]:
    """ranks(n, program, **environment): exit status, stdout and stderr of every rank."""

    def start(n: int, program: str, **environment: str) -> Outcome:
        env = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"} | environment
        command = [sys.executable, str(HERE / "programs.py"), program, str(n), str(tmp_path / "store")]
        processes = [
            subprocess.Popen(
                [*command, str(rank)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for rank in range(n)
        ]
        try:
            said = [process.communicate(timeout=240) for process in processes]
        finally:
            for process in processes:
                process.kill()
        return [(p.returncode, out, err) for p, (out, err) in zip(processes, said, strict=True)]

    return start
