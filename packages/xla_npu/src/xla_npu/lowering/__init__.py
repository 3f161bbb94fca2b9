"""From StableHLO to graphs of CANN's operators: a rule for each operation, a file for each family. See README.md."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from xla_npu.lowering.context import Context
from xla_npu.lowering.registry import RULES, lowers

_NO_FAMILY = ("context", "registry")


@cache
def load_rules() -> None:
    """Imports every family, which registers its rules."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in _NO_FAMILY:
            importlib.import_module(f"{__name__}.{module.name}")


def supported() -> list[str]:
    """The operations that have a rule, sorted."""
    load_rules()
    return sorted(RULES)


__all__ = ["Context", "load_rules", "lowers", "supported"]
