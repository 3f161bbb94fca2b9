"""The device of the cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def npu() -> Iterator[torch.device]:
    """npu:0; an error that an asynchronous operator left behind fails the test that caused it."""
    device = torch.device("npu:0")
    yield device
    torch.npu.synchronize(device)
