"""A tiny corpus with its tokenizer, and the emulated NPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from titan_npu.data.prepare import prepare

MODULE = '''"""Module {number}: {long}"""

import os


def function_{number}(value: int) -> int:
    """Return the value of {number} times the value, as {long}"""
    return {number} * value if os.sep else {number}
'''


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Python modules, each with docstrings long enough to be documents."""
    folder = tmp_path_factory.mktemp("sources")
    for number in range(60):
        long = " ".join(f"word{number * part}" for part in range(1, 30))
        (folder / f"module{number}.py").write_text(MODULE.format(number=number, long=long))
    return folder


@pytest.fixture(scope="session")
def prepared(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `data prepare` makes of `sources`: train.jsonl, validation.jsonl, tokenizer/."""
    return prepare(tmp_path_factory.mktemp("prepared") / "corpus", 300, source=sources).folder


@pytest.fixture(scope="session")
def npu() -> torch.device:
    return torch.device("npu:0")


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
