"""The buffers of a run: do they fit the graph, and copying one onto another."""

from __future__ import annotations

from collections.abc import Sequence

from npu_common import _cann
from npu_common.graph.ir import Value
from npu_common.runtime import DeviceArray, Stream

_DEVICE_TO_DEVICE = 3  # aclrtMemcpyKind


def check(kind: str, arrays: Sequence[DeviceArray], values: Sequence[Value]) -> None:
    """Raises ValueError: another number, dtype or shape than the graph was compiled for, a strided output."""
    if len(arrays) != len(values):
        raise ValueError(f"the graph has {len(values)} {kind}s, {len(arrays)} were given")
    for index, (array, value) in enumerate(zip(arrays, values, strict=True)):
        if array.dtype != value.dtype or not _fits(array.shape, value):
            raise ValueError(
                f"{kind} {index} is {array.dtype}{list(array.shape)}; the graph was compiled for {value.type_text()}"
            )
        if kind == "output" and not array.contiguous:
            raise ValueError(f"output {index} is not contiguous")


def copy(target: DeviceArray, source: DeviceArray, stream: Stream) -> None:
    """Enqueues a copy of the bytes; both are contiguous, of one size, on the stream's device."""
    if not target.nbytes:
        return
    native = stream._native
    source.use_after_writes(native)
    target.use_after_writes(native)
    _cann.copy_async(native, target.address, source.address, source.nbytes, _DEVICE_TO_DEVICE)
    source.used_on(native, False)
    target.used_on(native, True)


def sizes(value: Value) -> list[int]:
    """The shape of a static value."""
    return [int(size or 0) for size in value.shape or ()]


def _fits(shape: tuple[int, ...], value: Value) -> bool:
    if value.shape is None:
        return True
    return len(shape) == len(value.shape) and all(
        wanted is None or wanted == given for wanted, given in zip(value.shape, shape, strict=True)
    )
