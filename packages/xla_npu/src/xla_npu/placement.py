"""device_put inside jit: JAX's generic rule drops the memory kind silently, its rule for tpu and gpu writes it down."""

from __future__ import annotations

from jax._src import dispatch
from jax._src.interpreters import mlir

PLATFORM = "npu"


def register() -> None:
    """Tells JAX how to lower device_put for npu."""
    mlir.register_lowering(dispatch.device_put_p, dispatch._tpu_gpu_device_put_lowering, platform=PLATFORM)
