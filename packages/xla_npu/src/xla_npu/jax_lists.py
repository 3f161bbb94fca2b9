"""The additions to JAX's own private lists of platforms: everything of JAX that npu changes, in this one file.

What JAX lets a plugin register, it is told by its own functions (linalg.py, callbacks.py, placement.py). These lists it
keeps to itself; each addition names the change to JAX that would make it needless, and tests/unit/xla_npu/
test_jax_lists.py fails as soon as one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from jax._src import compilation_cache, xla_bridge
from jax._src.export import _export
from jax._src.interpreters import mlir

PLATFORM = "npu"


@dataclass(frozen=True, slots=True)
class Addition:
    """`lacking`: what a user sees without it. `upstream`: the change to JAX that removes it."""

    name: str
    lacking: str
    upstream: str
    add: Callable[[], None]


def _donation() -> None:
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)


def _experimental() -> None:
    xla_bridge._nonexperimental_plugins.add(PLATFORM)


def _persistent_cache() -> None:
    asked = compilation_cache.is_cache_used
    if getattr(asked, "knows_npu", False):
        return

    def is_cache_used(backend: Any) -> bool:
        """JAX's own answer, for npu the one that it would give for a platform in its list."""
        if backend.platform == PLATFORM:
            supported = getattr(backend, "supports_executable_serialization", True)
            backend = SimpleNamespace(platform="tpu", supports_executable_serialization=supported)
        return bool(asked(backend))

    is_cache_used.knows_npu = True  # type: ignore[attr-defined]
    compilation_cache.is_cache_used = is_cache_used


def _export_of_linear_algebra() -> None:
    from xla_npu import linalg

    _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.update(linalg.targets())


ADDITIONS = (
    Addition(
        "donation",
        "donate_argnums is ignored with a warning: a training step holds its parameters twice",
        "mlir._platforms_with_donation becomes a question to the plugin, or an argument of register_plugin",
        _donation,
    ),
    Addition(
        "experimental",
        "a warning at each start that not all of JAX may be supported",
        "register_plugin takes `experimental`, instead of looking into xla_bridge._nonexperimental_plugins",
        _experimental,
    ),
    Addition(
        "persistent cache",
        "JAX_COMPILATION_CACHE_DIR does nothing",
        "compilation_cache.is_cache_used asks only backend.supports_executable_serialization, not for the platform",
        _persistent_cache,
    ),
    Addition(
        "export of linear algebra",
        "jax.export refuses the custom calls of linear algebra as not guaranteed stable",
        "mlir.register_lowering or jax.ffi lets a plugin declare its custom calls stable",
        _export_of_linear_algebra,
    ),
)


def extend() -> None:
    """Makes the additions; before the plugin is registered, since JAX looks at some of the lists then."""
    for addition in ADDITIONS:
        addition.add()
