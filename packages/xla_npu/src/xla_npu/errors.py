"""Why a program cannot be compiled, with the code that PJRT reports it by."""

from __future__ import annotations

import re
from typing import Any

# PJRT_Error_Code (pjrt_c_api.h), which numbers as absl::StatusCode does.
INVALID_ARGUMENT = 3
UNIMPLEMENTED = 12
INTERNAL = 13

_FILE = re.compile(r'"([^"]+)":(\d+):\d+')
_NAME = re.compile(r'loc\("([^"]*)"')


class CompileError(Exception):
    """One sentence that names the operation, its types and where the user's source has it."""

    def __init__(self, message: str, code: int = INVALID_ARGUMENT) -> None:
        super().__init__(message)
        self.code = code


class Unsupported(CompileError):
    """A correct program that needs what this version cannot do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, UNIMPLEMENTED)


def location(operation: Any) -> str:
    """'jit(f)/tanh at model.py:12', as far as the operation says it, "" if it does not.

    Args:
        operation: an MLIR operation.
    """
    text = str(operation.location)
    name, file = _NAME.search(text), _FILE.search(text)
    where = f"{file[1]}:{file[2]}" if file and file[1] != "-" else ""
    what = name[1] if name and (not file or name.start() != file.start() - 4) else ""
    return " at ".join(part for part in (what, where) if part)


def describe(operation: Any) -> str:
    """'stablehlo.add of (tensor<2xf32>, tensor<2xf32>), jit(f)/add at model.py:12'."""
    types = ", ".join(str(value.type) for value in operation.operands)
    where = location(operation)
    return f"{operation.name} of ({types})" + (f", {where}" if where else "")
