"""Pinned host memory and the pools of device memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np

from npu_common import _cann
from npu_common.runtime._library import ready
from npu_common.runtime.device import Device
from npu_common.runtime.dtypes import dtype_of


class PoolStats(TypedDict):
    """Of a device's pool in this process; bytes are as rounded by the pool."""

    allocated_bytes: int
    peak_allocated_bytes: int
    reserved_bytes: int
    peak_reserved_bytes: int
    allocations: int
    frees: int
    device_allocations: int
    device_frees: int
    retries: int
    blocks_in_use: int


def _index(device: Device | int) -> int:
    return device if isinstance(device, int) else device.index


def stats(device: Device | int = 0) -> PoolStats:
    """What the device's pool holds and has done: arrays and workspaces, not the memory of torch_npu."""
    ready()
    return _cann.pool_stats(_index(device))


def trim(device: Device | int = 0) -> None:
    """Gives memory that no array uses back to CANN. Waits for the device."""
    ready()
    _cann.pool_trim(_index(device))


def reset_peaks(device: Device | int = 0) -> None:
    """Lets the peaks begin anew at what is allocated now."""
    ready()
    _cann.pool_reset_peaks(_index(device))


def pinned_empty(shape: int | Sequence[int], dtype: Any = np.float32, device: Device | int = 0) -> np.ndarray:
    """A NumPy array in page-locked host memory, from and to which copies are asynchronous.

    Its memory is freed when the array, its views and the copies that use it are gone.
    """
    ready()
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    element = dtype_of(dtype)
    count = math.prod(dims)
    if count == 0:
        return np.empty(dims, element)
    owner = _cann.PinnedMemory(_index(device), count * element.itemsize)
    return np.frombuffer(owner, dtype=np.uint8).view(element).reshape(dims)


def pinned_owner(array: np.ndarray) -> _cann.PinnedMemory | None:
    """The pinned memory that a NumPy array lies in, or None."""
    base: Any = array
    while base is not None:
        if isinstance(base, _cann.PinnedMemory):
            return base
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return None
