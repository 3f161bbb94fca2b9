"""Ranks for tests: in this process by ctypes, or forked from a process that has imported torch_npu."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .launcher import Launcher, Outcome
from .library import Hccl, World

DEVICES = range(1, 5)  # device 0 is torch's own in this process


@pytest.fixture(scope="session")
def _library(toolkit_folder: Path) -> Hccl:
    return Hccl(toolkit_folder)


@pytest.fixture
def hccl(_library: Hccl) -> Iterator[Hccl]:
    """libhccl; the devices that ranks use are reset after the test, with the errors on them."""
    yield _library
    for device in DEVICES:
        _library.acl.aclrtResetDevice(device)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "npu") and torch.npu.is_initialized():
        _library.call("aclrtSetDevice", 0)  # torch_npu remembers which device it set last


@pytest.fixture
def world(hccl: Hccl) -> Iterator[World]:
    """Three ranks, one on each of devices 1 to 3."""
    world = World(hccl, 3)
    yield world
    world.destroy()


@pytest.fixture(scope="session")
def launcher(toolkit_folder: Path) -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


@pytest.fixture
def ranks(launcher: Launcher, tmp_path: Path) -> Callable[..., Outcome]:
    """ranks(n, "module.function", **environment): exit status, stdout and stderr of every rank."""

    def run(n: int, program: str, **environment: str) -> Outcome:
        return launcher.run(n, program, tmp_path, environment)

    return run


@pytest.fixture
def nothing_left_in_shared_memory() -> Iterator[None]:
    """The emulator's names only: other programs of the machine come and go there, too."""

    def names() -> set[str]:
        return {path.name for path in Path("/dev/shm").iterdir() if "npu" in path.name or "hccl" in path.name}

    before = names()
    yield
    assert names() <= before
