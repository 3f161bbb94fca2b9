"""Runs the host work of a JAX function without a device: for functions that are one custom call on npu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import xla_bridge

from xla_npu import frontend, host, linalg
from xla_npu.lowering.registry import rule_name
from xla_npu.types import tensor_type


def known_to_jax() -> None:
    """JAX lowers only for platforms it has heard of; the plugin, where it is installed, says so itself."""
    if "npu" not in xla_bridge.known_platforms():
        xla_bridge.register_backend_factory("npu", lambda: None, priority=-1)


def lowered(function: Callable[..., Any], *arguments: Any) -> str:
    """The StableHLO text that JAX writes for npu."""
    known_to_jax()
    linalg.register()
    return str(jax.jit(function).trace(*arguments).lower(lowering_platforms=("npu",)).as_text())


def run(function: Callable[..., Any], *arguments: Any) -> list[np.ndarray[Any, Any]]:
    """The results of the function's one operation, which must be hosted, on the arguments."""
    module = frontend.parse(lowered(function, *arguments).encode())
    frontend.simplify(module)
    table = frontend.functions(module)
    frontend.inline_calls(module, lambda callee: True)
    operations = [op.operation for op in table["main"].regions[0].blocks[0].operations]
    (op,) = [op for op in operations if op.name != "func.return"]
    assert host.is_hosted(rule_name(op)), op
    given = list(table["main"].regions[0].blocks[0].arguments)
    inputs = [np.asarray(arguments[given.index(operand)]) for operand in op.operands]
    request = host.request(rule_name(op), op)
    types = [tensor_type(result.type) for result in op.results]
    outputs = [np.full(t.shape, 77, t.element.numpy) for t in types]
    host.run(request.target, request.attributes, inputs, outputs)
    by_result = dict(zip(op.results, outputs, strict=True))
    return [by_result[value] for value in operations[-1].operands]
