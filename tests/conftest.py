"""The emulator under test, and what keeps tests apart on one device."""

from __future__ import annotations

import ctypes
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def random_data_by_name(request: pytest.FixtureRequest) -> None:
    """Torch's random numbers are a test's own, the same in every run, alone or among others."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def device_errors_end_with_their_test() -> Iterator[None]:
    """Reset npu:0 when a test left an error on it: such an error sticks, and would fail all tests after it."""
    yield
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "npu") or not torch.npu.is_initialized():
        return
    acl = ctypes.CDLL("libascendcl.so")
    if acl.aclrtSynchronizeDevice() != 0:
        acl.aclrtResetDevice(0)
        acl.aclrtSetDevice(0)


@pytest.fixture(scope="session")
def toolkit_folder() -> Path:
    """The emulator's toolkit folder: the one that is active in this environment, else npu_common's own."""
    named = os.environ.get("ASCEND_HOME_PATH")
    if named:
        return Path(named)
    from npu_common import toolkit

    folder = toolkit.emulator_folder()
    assert folder is not None, "npu_common was installed without its emulator; see make setup"
    return folder
