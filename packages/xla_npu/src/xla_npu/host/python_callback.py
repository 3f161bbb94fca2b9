"""Python functions called from a program. The program holds a name; the function lives as long as JAX's executable."""

from __future__ import annotations

import itertools
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_npu.host import Array, Request, host_function, hosted

TARGET = "npu_python_callback"
# Takes arrays of its own and returns arrays of the results' types.
Callback = Callable[..., Sequence[Array]]

# Unique beyond the process: a program from a persistent cache must never find another function under its name.
_PROCESS = uuid.uuid4().hex
_numbers = itertools.count()
_held: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def name(callback: Callback) -> str:
    """A name for the callback, which the caller must keep alive."""
    made = f"{_PROCESS}-{next(_numbers)}"
    _held[made] = callback
    return made


@hosted(f"custom_call:{TARGET}")
def request(op: Any) -> Request:
    effect = "has_side_effect" in op.attributes and bool(op.attributes["has_side_effect"].value)
    return Request(TARGET, str(op.attributes["backend_config"].value).encode(), has_side_effect=effect)


@host_function(TARGET)
def run(attributes: bytes, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Calls the function with copies: it may keep them, the program will not."""
    callback = _held.get(attributes.decode())
    if callback is None:
        raise RuntimeError(
            "a Python callback of this program is not in this process: a program with callbacks cannot be saved and loaded"
        )
    results = callback(*(np.array(value) for value in inputs))
    for output, result in zip(outputs, results, strict=True):
        output[...] = result
