"""The toolkit as it is, in place of the stand-ins of the folder above."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npu_common import runtime


@pytest.fixture(autouse=True)
def nothing_loaded() -> None:
    """Replaces the fixture of that name above: here the real toolkit is used."""


@pytest.fixture
def stream() -> Iterator[runtime.Stream]:
    stream = runtime.Stream()
    yield stream
    stream.close()


@pytest.fixture
def blocks_are_returned() -> Iterator[None]:
    """No array of the test keeps device memory."""
    before = runtime.memory.stats()["blocks_in_use"]
    yield
    assert runtime.memory.stats()["blocks_in_use"] == before


Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Starts this python on `code`: `spawn(code, "argument", HCCL_CONNECT_TIMEOUT="30")`."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def output(process: subprocess.Popen[str], timeout: float = 120) -> str:
    """What a process printed; fails the test unless it ended well."""
    text, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0, text
    return text
