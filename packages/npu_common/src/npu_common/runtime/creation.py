"""Arrays from values, shapes and other frameworks' tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common import _cann
from npu_common.runtime._library import ready
from npu_common.runtime.array import DLPACK_EXT_DEV, DeviceArray, empty, stream_for
from npu_common.runtime.device import Device
from npu_common.runtime.dtypes import dtype_of
from npu_common.runtime.stream import Stream


def empty_like(array: DeviceArray, dtype: Any = None, *, stream: Stream | None = None) -> DeviceArray:
    """An array of unknown values with the shape, dtype and device of another one."""
    return empty(array.shape, array.dtype if dtype is None else dtype, device=array.device_id, stream=stream)


def zeros(
    shape: int | Sequence[int],
    dtype: Any = np.float32,
    *,
    device: Device | int | None = None,
    stream: Stream | None = None,
) -> DeviceArray:
    """An array of zeros."""
    result = empty(shape, dtype, device=device, stream=stream)
    _cann.fill_async(result.stream, result.address, 0, result.nbytes)
    return result


def full(
    shape: int | Sequence[int],
    value: Any,
    dtype: Any = np.float32,
    *,
    device: Device | int | None = None,
    stream: Stream | None = None,
) -> DeviceArray:
    """An array of one value."""
    result = empty(shape, dtype, device=device, stream=stream)
    return result.copy_from(np.full(result.shape, value, result.dtype))


def asarray(
    values: Any,
    dtype: Any = None,
    *,
    device: Device | int | None = None,
    stream: Stream | None = None,
) -> DeviceArray:
    """Values on the device: an array there as it is, another framework's NPU tensor without a copy, host values by one copy.

    Raises:
        TypeError: no array can have the dtype; an array on the device has another one (aclnnCast converts).
    """
    if isinstance(values, DeviceArray) or _on_npu(values):
        array = values if isinstance(values, DeviceArray) else from_dlpack(values, stream=stream)
        if dtype is not None and dtype_of(dtype) != array.dtype:
            raise TypeError(
                f"the array has dtype {array.dtype}; ops.call('aclnnCast', ...) converts on the device"
            )
        return array if device is None else array.to(device)
    host = np.asarray(values, None if dtype is None else dtype_of(dtype))
    return empty(host.shape, host.dtype, device=device, stream=stream).copy_from(host)


def _on_npu(values: Any) -> bool:
    if not hasattr(values, "__dlpack_device__"):
        return False
    device_of = getattr(values, "device", None)
    if (
        getattr(device_of, "type", None) == "npu"
    ):  # torch's own answer knows no device that renamed PrivateUse1
        return True
    try:
        return int(values.__dlpack_device__()[0]) == DLPACK_EXT_DEV
    except (ValueError, BufferError):
        return False


def from_dlpack(tensor: Any, *, stream: Stream | None = None) -> DeviceArray:
    """The memory of another framework's NPU tensor as an array, without a copy; it keeps the tensor's memory alive.

    The tensor's values are those that its framework has asked for by now: a torch tensor is waited for (torch_npu
    hands operators to a thread of its own first, so that its stream alone does not know of them).

    Raises:
        ValueError: the tensor is not on an NPU, or on another one than the stream.
        TypeError: it does not speak DLPack.
    """
    ready()
    if not hasattr(tensor, "__dlpack__"):
        raise TypeError(f"{type(tensor).__name__} has no __dlpack__")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        if tensor.device.type != "npu":
            raise ValueError(f"the tensor is on {tensor.device}, not on an NPU; asarray copies host tensors")
        index = tensor.device.index or 0
        torch.npu.current_stream(tensor.device).synchronize()
        return DeviceArray(torch.utils.dlpack.to_dlpack(tensor.detach()), stream_for(index, stream))
    native = stream_for(int(tensor.__dlpack_device__()[1]), stream)
    if isinstance(tensor, DeviceArray):
        return DeviceArray(tensor.__dlpack__(stream=native.handle, max_version=(1, 1)), native)
    return DeviceArray(tensor.__dlpack__(max_version=(1, 1)), native)
