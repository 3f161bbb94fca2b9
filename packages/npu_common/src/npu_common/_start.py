"""What the start-up hook does when torch or torch_npu is imported; _npu_common_hook.py imports it then.

The rule: nothing here may stop torch from importing. torch autoloads torch_npu through an entry point and
lets every failure of it pass, so when CANN cannot be had, or the two do not fit together, torch is told not
to autoload, and one sentence on stderr says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

from npu_common import toolkit, versions

# torch/__init__.py: autoloads the entry points unless it is other than "1"
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_ADVICE = "`npu doctor` tells more; NPU_COMMON_HOOK=0 switches this hook off."


def run(spec: ModuleSpec, module: ModuleType, body: Callable[[ModuleType], None]) -> None:
    """Runs `body` (the loader's exec_module) on `module`, with CANN loaded first.

    Raises:
        ImportError: torch_npu was imported by name and cannot work; the message says why.
    """
    if spec.name == "torch_npu":
        problem = obstacle()
        if problem:
            raise ImportError(f"torch_npu cannot be imported: {problem} {_ADVICE}", name="torch_npu")
        body(module)
        return
    if os.environ.get(AUTOLOAD, "1") != "1" or not versions.is_importable("torch_npu"):
        body(module)  # a later `import torch_npu` comes by here again
        return
    problem = obstacle()
    if problem:
        sys.stderr.write(f"npu_common: torch is imported without torch_npu: {problem} {_ADVICE}\n")
        with _autoload_off():
            body(module)
        return
    try:
        body(module)
    except Exception as error:
        taken = toolkit.loaded()
        error.add_note(
            f"npu_common had loaded {taken.describe() if taken else 'nothing'} before. If torch_npu is "
            f"the part that failed, {AUTOLOAD}=0 imports torch without it. {_ADVICE}"
        )
        raise


def obstacle() -> str | None:
    """Activates the toolkit; returns the sentence that says why torch_npu cannot work, or None."""
    if toolkit.loaded() is not None:
        return None
    try:
        problem = versions.torch_npu_mismatch()
        if problem is None:
            toolkit.activate()
    except toolkit.ToolkitError as error:
        return str(error)
    except Exception as error:  # our own defect: still no reason to stop torch
        return f"npu_common failed with {type(error).__name__}: {error}."
    return problem


def activate_now() -> None:
    """For `npu run`, which activated in its own process first and reported every ordinary failure there."""
    try:
        toolkit.activate()
    except Exception as error:
        sys.stderr.write(f"npu_common: {error}\n")


@contextmanager
def _autoload_off() -> Iterator[None]:
    before = os.environ.get(AUTOLOAD)
    os.environ[AUTOLOAD] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[AUTOLOAD]
        else:
            os.environ[AUTOLOAD] = before
