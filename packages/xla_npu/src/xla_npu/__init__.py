"""JAX on Ascend NPUs. `JAX_PLATFORMS=npu python script.py` needs nothing else; see README.md."""

from __future__ import annotations

__all__ = ["initialize"]


def initialize() -> None:
    """Registers the platform npu with JAX; the entry point in `jax_plugins` calls it.

    Raises:
        npu_common.toolkit.ToolkitError: there is neither CANN nor the emulator, and what to do.
    """
    from xla_npu import plugin  # JAX imports every plugin at start: no more than needed before it is called

    plugin.register()
