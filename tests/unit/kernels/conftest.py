"""Fixtures of the kernels' tests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest


@pytest.fixture
def device_that_fails() -> Iterator[None]:
    """For tests that make an operator fail on the device: resets npu:0 afterwards, since such an error sticks."""
    yield
    acl = ctypes.CDLL("libascendcl.so")
    assert acl.aclrtResetDevice(0) == 0
    assert acl.aclrtSetDevice(0) == 0
