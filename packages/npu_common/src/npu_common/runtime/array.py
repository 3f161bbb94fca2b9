"""Arrays in device memory: NumPy and DLPack in and out, views, copies.

Work on a stream other than the one that wrote an array last waits for it by itself, and memory is not reused before
the work on it is done. What needs an event from the caller is overwriting an array that another stream still reads.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common import _cann
from npu_common.runtime import memory, ops
from npu_common.runtime.device import Device
from npu_common.runtime.dtypes import acl_code, dtype_of, numpy_dtype
from npu_common.runtime.stream import Stream, current_stream

_H2D, _D2H, _D2D = 1, 2, 3  # aclrtMemcpyKind
DLPACK_EXT_DEV = 12  # kDLExtDev: torch's PrivateUse1, so torch_npu's device
_PRODUCER_HAS_WAITED = -1  # `stream` of __dlpack__


class DeviceArray(_cann.Array):
    """An array on an NPU. Made by empty, zeros, full, asarray, from_dlpack and by views.

    `stream` is the stream that wrote it last. `__npu_array_interface__` is what `__cuda_array_interface__` is for CUDA:
    shape, typestr (of ml_dtypes' types NumPy's "<V2"), strides in bytes, data (address, read-only), device, and stream,
    the aclrtStream that a reader has to wait for.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_dtype(self.dtype_code)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes, as NumPy's."""
        return tuple(stride * self.itemsize for stride in self.element_strides)

    @property
    def device(self) -> Device:
        return Device(self.device_id)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape} {self.dtype} on npu:{self.device_id}>"

    # Copies.

    def numpy(self, out: np.ndarray | None = None, *, wait: bool = True) -> np.ndarray:
        """The values in host memory, after the work that makes them.

        Args:
            out: a contiguous array of the same shape and dtype to copy into.
            wait: False returns at once; `out` has to be pinned then, and its values are there when the array's
                stream has come so far.

        Raises:
            CannError: the work that makes them failed.
            ValueError: `out` does not fit, or is not pinned with wait=False.
        """
        if not wait and out is None:
            raise ValueError("wait=False copies into pinned memory: pass out=memory.pinned_empty(...)")
        if out is None:
            out = np.empty(self.shape, self.dtype)
        _require_alike(out, self)
        if not out.flags.writeable or not out.flags.c_contiguous:
            raise ValueError("out has to be a contiguous, writeable array")
        source = self if self.contiguous else self.copy()
        address = out.ctypes.data
        stream = source.stream
        if wait:
            if not stream.closed:
                stream.synchronize()
            _cann.copy(self.device_id, address, source.address, self.nbytes, _D2H)
        else:
            owner = memory.pinned_owner(out)
            if owner is None:
                raise ValueError("out is not pinned: make it with memory.pinned_empty")
            _cann.copy_async(stream, address, source.address, self.nbytes, _D2H)
            owner.used_by(stream)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on an NPU becomes a NumPy array by a copy only")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def copy_from(self, source: np.ndarray, *, wait: bool = True) -> DeviceArray:
        """Overwrites the array with host values of the same shape and dtype, on its stream.

        Args:
            wait: False returns at once; `source` has to be pinned then and must not change before the stream has
                come so far.
        """
        _require_alike(source, self)
        if self.read_only or not self.contiguous:
            raise ValueError("only a contiguous array that is not read-only can be copied into")
        stream = self.stream
        if stream.closed:
            stream = current_stream(self.device_id)._native
        if wait:
            source = np.ascontiguousarray(source)
            stream.synchronize()  # the memory may belong to work that is still on the stream
            _cann.copy(self.device_id, self.address, source.ctypes.data, self.nbytes, _H2D)
        else:
            owner = memory.pinned_owner(source)
            if owner is None or not source.flags.c_contiguous:
                raise ValueError("wait=False copies from contiguous pinned memory: see memory.pinned_empty")
            _cann.copy_async(stream, self.address, source.ctypes.data, self.nbytes, _H2D)
            owner.used_by(stream)
        self.used_on(stream, True)
        return self

    def copy(self, *, stream: Stream | None = None) -> DeviceArray:
        """A contiguous copy on the same device."""
        result = empty(self.shape, self.dtype, device=self.device_id, stream=stream)
        if self.size == 0:
            return result
        if not self.contiguous:
            ops.call("aclnnInplaceCopy", result, self, stream=stream)
            return result
        target = result.stream
        self.use_after_writes(target)
        _cann.copy_async(target, result.address, self.address, self.nbytes, _D2D)
        self.used_on(target, False)
        return result

    def to(self, device: Device | int) -> DeviceArray:
        """The array itself if it is on that device, else a copy there. Waits for the copy."""
        index = device if isinstance(device, int) else device.index
        if index == self.device_id:
            return self
        target = Device(index)
        if not target.can_access_peer(self.device):
            raise ValueError(f"npu:{index} does not reach the memory of npu:{self.device_id}")
        target.enable_peer_access(self.device)
        self.device.enable_peer_access(target)
        source = self if self.contiguous else self.copy()
        result = empty(self.shape, self.dtype, device=index)
        if not source.stream.closed:
            source.stream.synchronize()
        _cann.copy_async(result.stream, result.address, source.address, self.nbytes, _D2D)
        result.stream.synchronize()
        return result

    # Views.

    def _view(
        self, shape: Sequence[int], strides: Sequence[int], offset: int = 0, code: int | None = None
    ) -> DeviceArray:
        return DeviceArray(
            self, offset, list(shape), list(strides), self.dtype_code if code is None else code
        )

    def reshape(self, *shape: int) -> DeviceArray:
        """A view of another shape; one extent may be -1. The array has to be contiguous."""
        known = math.prod(extent for extent in shape if extent != -1)
        if shape.count(-1) == 1 and known and self.size % known == 0:
            shape = tuple(self.size // known if extent == -1 else extent for extent in shape)
        if min(shape, default=0) < 0 or math.prod(shape) != self.size:
            raise ValueError(f"an array of shape {self.shape} has no shape {shape}")
        if not self.contiguous:
            raise ValueError("only a contiguous array has views of another shape: copy() it first")
        return self._view(shape, _row_major(shape))

    def transpose(self, *axes: int) -> DeviceArray:
        """A view with the axes in that order, reversed by default."""
        order = [axis + self.ndim if axis < 0 else axis for axis in axes] or list(range(self.ndim))[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"{axes} is no order of {self.ndim} axes")
        return self._view([self.shape[i] for i in order], [self.element_strides[i] for i in order])

    def view(self, dtype: Any) -> DeviceArray:
        """The same bytes as a dtype of the same size."""
        code = acl_code(dtype)
        if dtype_of(dtype).itemsize != self.itemsize:
            raise ValueError(f"{dtype_of(dtype)} has not the size of {self.dtype}")
        return self._view(self.shape, self.element_strides, code=code)

    def __getitem__(self, key: Any) -> DeviceArray:
        """A view by integers, slices with a positive step and one ellipsis."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        if len(keys) > self.ndim:
            raise IndexError(f"{len(keys)} indices for an array of {self.ndim} dimensions")
        keys += [slice(None)] * (self.ndim - len(keys))
        shape, strides, offset = [], [], 0
        for each, extent, stride in zip(keys, self.shape, self.element_strides, strict=True):
            if isinstance(each, slice):
                start, stop, step = each.indices(extent)
                if step < 0:
                    raise ValueError("the operators of CANN take no negative strides")
                count = len(range(start, stop, step))
                shape.append(count)
                strides.append(stride * step)
                offset += start * stride if count else 0
            else:
                index = operator.index(each)
                if not -extent <= index < extent:
                    raise IndexError(f"index {index} is out of bounds for an extent of {extent}")
                offset += (index % extent) * stride
        return self._view(shape, strides, offset)

    # Exchange.

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_EXT_DEV, self.device_id

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The memory for another framework, without a copy.

        Args:
            stream: the aclrtStream on which the consumer will use it, which is made to wait. None: the values are
                there when this returns. -1: the consumer has seen to it.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(
                f"the array is on {self.__dlpack_device__()}, not on {dl_device}: see to() and numpy()"
            )
        source = self.copy() if copy else self
        if stream is None:
            if not source.stream.closed:
                source.stream.synchronize()
        elif stream != _PRODUCER_HAS_WAITED:
            source.use_after_writes(_cann.Stream.borrow(self.device_id, stream))
        versioned = max_version is not None and max_version[0] >= 1
        if source.read_only and not versioned:
            raise BufferError("the first form of DLPack cannot say that the array is read-only")
        return source.to_dlpack(versioned)

    @property
    def __npu_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 1,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": None if self.contiguous else self.strides,
            "data": (self.address, self.read_only),
            "device": self.device_id,
            "stream": None if self.stream.closed else self.stream.handle,
        }


def _row_major(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return strides


def _require_alike(host: np.ndarray, array: DeviceArray) -> None:
    if host.shape != array.shape or host.dtype != array.dtype:
        raise ValueError(
            f"the host array has shape {host.shape} and dtype {host.dtype}, the device's has {array.shape} and {array.dtype}"
        )


def stream_for(device: Device | int | None, stream: Stream | None) -> _cann.Stream:
    index = device.index if isinstance(device, Device) else device
    if stream is None:
        return current_stream(index or 0)._native
    if index is not None and index != stream._native.device:
        raise ValueError(f"the stream is on npu:{stream._native.device}, not on npu:{index}")
    return stream._native


def empty(
    shape: int | Sequence[int],
    dtype: Any = np.float32,
    *,
    device: Device | int | None = None,
    stream: Stream | None = None,
) -> DeviceArray:
    """An array of unknown values on the stream's device (by default the current stream of npu:0).

    Raises:
        DeviceMemoryError: the device has not so much memory left.
        TypeError: no array can have the dtype.
    """
    dims = [shape] if isinstance(shape, int) else list(shape)
    return DeviceArray(dims, acl_code(dtype), stream_for(device, stream))


ops._AS_THEY_ARE.add(DeviceArray)
