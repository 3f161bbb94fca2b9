"""CANN's runtime: devices, streams, events, memory and arrays, operators by name.

from npu_common import runtime

x = runtime.asarray(numpy_array)              # on npu:0, on the current stream
y = runtime.empty_like(x)
runtime.ops.call("aclnnAdd", x, x, 1, y)
y.numpy()
"""

from __future__ import annotations

from npu_common.runtime import memory, ops
from npu_common.runtime._library import (
    CannError,
    ClosedError,
    DeviceMemoryError,
    HcclError,
    SymbolNotFoundError,
)
from npu_common.runtime.array import DeviceArray, empty
from npu_common.runtime.creation import asarray, empty_like, from_dlpack, full, zeros
from npu_common.runtime.device import Device, device_count, origin, soc_name, version
from npu_common.runtime.stream import Event, Stream, current_stream, default_stream

__all__ = [
    "CannError",
    "ClosedError",
    "Device",
    "DeviceArray",
    "DeviceMemoryError",
    "Event",
    "HcclError",
    "Stream",
    "SymbolNotFoundError",
    "asarray",
    "current_stream",
    "default_stream",
    "device_count",
    "empty",
    "empty_like",
    "from_dlpack",
    "full",
    "memory",
    "ops",
    "origin",
    "soc_name",
    "version",
    "zeros",
]
