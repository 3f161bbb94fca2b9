"""The native module, with the toolkit that it finds its functions in."""

from __future__ import annotations

from npu_common import _cann, toolkit

CannError = _cann.CannError
HcclError = _cann.HcclError
DeviceMemoryError = _cann.DeviceMemoryError
SymbolNotFoundError = _cann.SymbolNotFoundError
ClosedError = _cann.ClosedError

_ready = False


def ready() -> None:
    """Loads the toolkit into this process, once. Called by whatever makes the first object.

    Raises:
        npu_common.toolkit.ToolkitError: neither CANN nor the emulator can be used.
    """
    global _ready
    if not _ready:
        toolkit.activate()
        _ready = True
