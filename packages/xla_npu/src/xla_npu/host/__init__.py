"""What runs on the host inside a program. See README.md.

An operation with host work has a *request*, which the compiler writes into the plan, and libpjrt_npu.so calls `run`
with the request's target and attributes and the arrays.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# Writes its results into the output arrays, which have the operation's types.
HostFunction = Callable[[bytes, Sequence[Array], Sequence[Array]], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What the plan holds of an operation: see program.py, HostCall. `aliases`: a result's place and an operand's."""

    target: str
    attributes: bytes = b""
    has_side_effect: bool = False
    api: str = "python"
    aliases: tuple[tuple[int, int], ...] = ()


FUNCTIONS: dict[str, HostFunction] = {}
# By what lowering.registry.rule_name calls an operation.
_REQUESTS: dict[str, Callable[[Any], Request]] = {}


def host_function(target: str) -> Callable[[HostFunction], HostFunction]:
    """Registers what runs for a target."""

    def register(function: HostFunction) -> HostFunction:
        FUNCTIONS[target] = function
        return function

    return register


def hosted(*names: str) -> Callable[[Callable[[Any], Request]], Callable[[Any], Request]]:
    """Registers the operations ("stablehlo.fft", "custom_call:xla_ffi_python_cpu_callback") that run on the host."""

    def register(make: Callable[[Any], Request]) -> Callable[[Any], Request]:
        _REQUESTS.update(dict.fromkeys(names, make))
        return make

    return register


@cache
def load() -> None:
    """Imports every module of this folder, which registers its functions."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def is_hosted(name: str) -> bool:
    """Whether operations of that rule name run on the host."""
    load()
    return name in _REQUESTS


def request(name: str, operation: Any) -> Request:
    """The request of a hosted operation."""
    return _REQUESTS[name](operation)


def run(target: str, attributes: bytes, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Runs a host function on arrays of the host.

    Raises:
        KeyError: there is none of that name; whatever the function raises.
    """
    load()
    FUNCTIONS[target](attributes, inputs, outputs)
