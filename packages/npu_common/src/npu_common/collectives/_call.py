"""The arrays of one collective: checked, put behind what wrote them, and told of it afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from npu_common.runtime import DeviceArray, Stream, asarray, current_stream, empty, empty_like
from npu_common.runtime.dtypes import hccl_code


class Call:
    """The arrays of one collective: put behind what wrote them before it, and told of it afterwards."""

    def __init__(self, device: int, stream: Stream | None) -> None:
        self._stream = stream or current_stream(device)
        self.stream = self._stream._native
        self.type = 0  # HcclDataType of the last array
        self._used: list[tuple[DeviceArray, bool]] = []
        self._foreign = False

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        for array, written in self._used:
            array.used_on(self.stream, written)
        if self._foreign:
            self.stream.synchronize()

    def _array(self, value: Any) -> DeviceArray:
        if not isinstance(value, DeviceArray):
            if not hasattr(value, "__dlpack__") or type(value).__module__ == "numpy":
                raise TypeError(
                    f"a collective takes arrays on an NPU, not {type(value).__name__}: see runtime.asarray"
                )
            value = asarray(value, stream=self._stream)
            self._foreign = True
        if not value.contiguous:
            raise ValueError("HCCL takes contiguous arrays: copy() it first")
        value.use_after_writes(self.stream)
        self.type = hccl_code(value.dtype_code)
        return value

    def reads(self, value: Any) -> DeviceArray:
        array = self._array(value)
        self._used.append((array, False))
        return array

    def writes(self, value: Any, *, shape: Sequence[int] | None = None, like: Any = None) -> DeviceArray:
        """`value`, or a new array of the shape (that of `like` by default) and of the dtype of `like`."""
        if value is None:
            model = self._array(like)
            if shape is None:
                value = empty_like(model, stream=self._stream)
            else:
                value = empty(shape, model.dtype, device=model.device_id, stream=self._stream)
        array = self._array(value)
        if array.read_only:
            raise ValueError("the array that a collective writes is read-only")
        self._used.append((array, True))
        return array

    @staticmethod
    def same_dtype(source: DeviceArray, target: DeviceArray) -> None:
        if source.dtype_code != target.dtype_code:
            raise TypeError(
                f"x has dtype {source.dtype} and out {target.dtype}; a collective converts nothing"
            )


def offsets(counts: Sequence[int]) -> list[int]:
    return list(itertools.accumulate(counts, initial=0))[:-1]


def first_extent(array: DeviceArray, change: Any) -> tuple[int, ...]:
    return (change(array.shape[0]), *array.shape[1:]) if array.shape else (change(1),)


def divided(array: DeviceArray, size: int) -> tuple[int, ...]:
    if not array.shape or array.shape[0] % size:
        raise ValueError(
            f"the first extent of {array.shape} does not divide among {size} ranks; see the ..._v collectives"
        )
    return (array.shape[0] // size, *array.shape[1:])


def require_size(array: DeviceArray, elements: int, what: str, by: str) -> None:
    if array.size != elements:
        raise ValueError(f"{what} has {array.size} elements; by {by} it has to have {elements}")
