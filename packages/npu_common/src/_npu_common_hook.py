"""The start-up hook: loads CANN just before the body of torch (or torch_npu) runs.

npu_common.pth imports this module in every Python process of the environment, so it imports nothing that the
interpreter has not imported already. It stands beside the package and not in it: finding an editable package
takes milliseconds (scikit-build-core's finder), finding a module on sys.path does not. Looking for torch
(importlib.util.find_spec) loads nothing; importing it does, see npu_common/_start.py. NPU_COMMON_HOOK=0
switches the hook off, NPU_COMMON_HOOK=now (set by `npu run`) activates at start-up.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

WATCHED = ("torch", "torch_npu")


class Finder:
    """A meta path finder that finds nothing itself: it lets the others find torch, and wraps the loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in WATCHED:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                wrap(spec)
                return spec
        return None


def wrap(spec: ModuleSpec) -> None:
    """Makes the loader of `spec` call _start.run() around its own exec_module, once."""
    loader = spec.loader
    run: Callable[[ModuleType], None] | None = getattr(loader, "exec_module", None)
    if run is None:  # a namespace package, or a loader of the old protocol: not torch as it is published
        return

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # type: ignore[union-attr]
        try:
            from npu_common import _start
        except Exception as error:  # a damaged npu_common must not take torch down with it
            sys.stderr.write(
                f"npu_common: the start-up hook is damaged ({error!r}); torch is imported without it.\n"
            )
            run(module)
        else:
            _start.run(spec, module, run)

    try:
        loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]
    except AttributeError:  # a loader with __slots__: leave it alone
        return


def install() -> None:
    """Puts the finder in front of sys.meta_path, once per process."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    if os.environ.get("NPU_COMMON_HOOK") == "now":
        os.environ["NPU_COMMON_HOOK"] = "1"  # children decide by themselves
        from npu_common import _start

        _start.activate_now()


install()
