"""Shardy decides how every value is cut; clean-ups before and after."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir, passmanager

from xla_npu.errors import CompileError
from xla_npu.frontend import functions, nested
from xla_npu.partition.emit import shape_of

# Propagation only: Shardy's own step from global to local is wrong or missing for half of the operations.
_PIPELINE = "builtin.module(sdy-propagation-pipeline,sdy-close-shardings)"
_SHARDING = "sdy.sharding"
_PLAIN_REGIONS = ("sdy.reshard", "sdy.sharding_constraint")


def propagate(module: Any) -> None:
    """Runs Shardy's propagation, in place. Calls must have been inlined.

    Raises:
        CompileError: Shardy refuses the program.
    """
    with module.context:
        try:
            passmanager.PassManager.parse(_PIPELINE).run(module.operation)
        except ir.MLIRError as error:
            raise CompileError(f"Shardy cannot propagate the program's shardings: {error}") from error
        with ir.Location.unknown():
            _plain(functions(module)["main"].operation)


def _plain(function: Any) -> None:
    """Constants are StableHLO's again, and scalars, which are never cut, have no shardings: the regions of reductions
    hold nothing of Shardy's then."""
    for op in list(nested(function)):
        if op.name == "sdy.constant":
            made = _constant(op)
            op.results[0].replace_all_uses_with(made.results[0])
            op.erase()
        elif op.name in _PLAIN_REGIONS and shape_of(op.operands[0]) == ():
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _constant(op: Any) -> Any:
    try:
        attributes = {name: op.attributes[name] for name in op.attributes}
    except TypeError:  # complex numbers: jaxlib reads no attribute of them
        sharding = op.attributes[_SHARDING] if _SHARDING in op.attributes else None  # noqa: SIM401 (no dict)
        if sharding is not None:
            del op.attributes[_SHARDING]  # whose mesh is unknown to the text alone
        text = str(op)
        made = ir.Operation.parse(text[text.index("sdy.constant") :].replace("sdy.", "stablehlo.", 1))
        ir.InsertionPoint(op).insert(made)
        if sharding is not None:
            made.operation.attributes[_SHARDING] = sharding
        return made.operation
    return ir.Operation.create(
        "stablehlo.constant",
        results=[op.results[0].type],
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
