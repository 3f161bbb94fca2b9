"""Devices by number, and what is known about the CANN below."""

from __future__ import annotations

from dataclasses import dataclass

from npu_common import _cann
from npu_common.runtime._library import ready


def device_count() -> int:
    """How many NPUs this process sees."""
    ready()
    return _cann.device_count()


def soc_name() -> str:
    """The name of the chip, "Ascend910B2"."""
    ready()
    return _cann.soc_name()


def version() -> str:
    """The version of the CANN that is loaded."""
    ready()
    return _cann.version()


def origin(part: str, name: str) -> _cann.Origin:
    """Which library file and CANN version a function comes from.

    Args:
        part: "runtime", "hccl", "aclnn" or "operators".

    Raises:
        SymbolNotFoundError: this CANN does not have it.
    """
    ready()
    return _cann.origin(part, name)


@dataclass(frozen=True)
class MemoryInfo:
    """Bytes of device memory."""

    free: int
    total: int


class Device:
    """An NPU by its number in this process. Makes nothing and owns nothing.

    Raises:
        ValueError: this process does not see so many.
    """

    def __init__(self, index: int = 0) -> None:
        ready()
        self._native = _cann.Device(index)

    @property
    def index(self) -> int:
        return self._native.id

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits for all work of this process on the device.

        Raises:
            CannError: what the work came to, or the timeout (seconds) passed.
        """
        self._native.synchronize(timeout)

    def reset(self) -> None:
        """Frees everything that this process has on the device; its objects must not be used afterwards."""
        self._native.reset()

    def memory_info(self) -> MemoryInfo:
        return MemoryInfo(*self._native.memory_info())

    def can_access_peer(self, peer: Device) -> bool:
        return self._native.can_access_peer(peer._native)

    def enable_peer_access(self, peer: Device) -> None:
        """Lets this device read and write the memory of `peer`; a second time does nothing."""
        self._native.enable_peer_access(peer._native)

    def __repr__(self) -> str:
        return f"npu:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.index == self.index

    def __hash__(self) -> int:
        return hash(("npu", self.index))
