"""From the bytes that JAX hands over to a module whose host work stands in `main`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from jax._src.interpreters.mlir import make_ir_context  # a context with every dialect that JAX writes
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from xla_npu.errors import CompileError

_ARTIFACT = b"ML\xefR"  # how MLIR bytecode begins, and so a portable artifact
# Composites that a rule knows stay; what is left calls its decomposition (lowering/composite.py).
_TOKEN = "!stablehlo.token"
_LEGALIZE = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
_PIPELINE = "builtin.module(canonicalize,cse)"


def parse(program: bytes) -> Any:
    """The module of a portable artifact, of MLIR bytecode, or of MLIR text.

    Raises:
        CompileError: the bytes are none of those.
    """
    context = make_ir_context()
    with context:
        try:
            if program.startswith(_ARTIFACT):
                found = _deserialised(context, program)
                return found if isinstance(found, ir.Module) else ir.Module.parse(found)
            return ir.Module.parse(program)
        except (ir.MLIRError, ValueError) as error:
            raise CompileError(f"the program is not StableHLO that this jaxlib reads: {error}") from error


def _deserialised(context: Any, program: bytes) -> Any:
    try:
        return stablehlo.deserialize_portable_artifact(context, program)
    except (ir.MLIRError, ValueError):
        return program  # plain bytecode of the same version


def simplify(module: Any) -> None:
    """Folds what MLIR folds, in place. CHLO, which only programs have that did not come through PJRT, becomes
    StableHLO."""
    with module.context:
        if any(op.name.startswith("chlo.") for op in nested(module.operation)):
            _register_passes()
            passmanager.PassManager.parse(_LEGALIZE).run(module.operation)
        passmanager.PassManager.parse(_PIPELINE).run(module.operation)


@cache
def _register_passes() -> None:
    stablehlo.register_stablehlo_passes()  # more than once is an error


def functions(module: Any) -> dict[str, Any]:
    """The module's functions by name."""
    return {
        op.attributes["sym_name"].value: op
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


def tokens_as_arrays(module: Any) -> None:
    """Gives `main` arrays where it has tokens, in place: JAX passes an empty array of bools for each token and takes
    one back. Inside, tokens stay; steps of a program keep their order anyway."""
    main = functions(module)["main"]
    block = main.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1]
    given = [argument for argument in block.arguments if str(argument.type) == _TOKEN]
    returned = [index for index, value in enumerate(terminator.operands) if str(value.type) == _TOKEN]
    if not given and not returned:
        return
    with module.context, ir.Location.unknown():
        empty = ir.RankedTensorType.get([0], ir.IntegerType.get_signless(1))
        start = ir.InsertionPoint.at_block_begin(block)
        for argument in given:
            made = stablehlo.CreateTokenOp(ip=start)
            argument.replace_all_uses_with(made.result)
            argument.set_type(empty)
        tokens: Iterator[Any] = iter(given)
        for index in returned:
            terminator.operands[index] = next(tokens, None) or _empty(empty, terminator)
        types = [[v.type for v in values] for values in (block.arguments, terminator.operands)]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def _empty(type_: Any, before: Any) -> Any:
    elements = ir.Attribute.parse(f"dense<> : {type_}")
    return stablehlo.ConstantOp(elements, ip=ir.InsertionPoint(before)).result


def memory_kinds(function: Any) -> tuple[list[str], list[str]]:
    """The memory kinds of a function's arguments and results, "" where nothing asks for one: said by JAX, else where
    device_put put the value that is returned."""
    block = function.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1]
    given = _kinds_said(function, "arg_attrs", len(block.arguments))
    returned = _kinds_said(function, "res_attrs", len(terminator.operands))
    for index, value in enumerate(terminator.operands):
        returned[index] = returned[index] or _placement(value.owner)
    return given, returned


def _kinds_said(function: Any, name: str, count: int) -> list[str]:
    if name not in function.attributes:
        return [""] * count
    return [
        str(each["mhlo.memory_kind"].value) if "mhlo.memory_kind" in each else ""
        for each in function.attributes[name]
    ]


def _placement(owner: Any) -> str:
    """The memory kind that an operation puts its result into, "" if it says none."""
    if getattr(owner, "name", "") != "stablehlo.custom_call":
        return ""
    if owner.attributes["call_target_name"].value != "annotate_device_placement":
        return ""
    return str(owner.attributes["mhlo.frontend_attributes"]["_xla_buffer_placement"].value)


def nested(operation: Any) -> Iterator[Any]:
    """The operations in the regions of an operation, all levels."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from nested(inner.operation)


def inline_calls(module: Any, wanted: Callable[[Any], bool]) -> None:
    """Puts the callee in the place of each call in `main`, and below, whose callee `wanted` takes; in place.

    Functions do not recurse in what JAX writes, nor may they in StableHLO.
    """
    table = functions(module)
    with module.context, ir.Location.unknown():
        pending = _calls(table["main"], table, wanted)
        while pending:
            for call in pending:
                inline(call, table[call.attributes["callee"].value])
            pending = _calls(table["main"], table, wanted)


def _calls(function: Any, table: dict[str, Any], wanted: Callable[[Any], bool]) -> list[Any]:
    return [
        op
        for op in nested(function.operation)
        if op.name == "func.call" and wanted(table[op.attributes["callee"].value])
    ]


def inline(call: Any, callee: Any) -> None:
    """Puts the callee's operations in the place of a call or composite, in place."""
    block = callee.regions[0].blocks[0]
    mapped = dict(zip(block.arguments, call.operands, strict=True))
    for op in block.operations:
        if op.operation.name == "func.return":
            for result, value in zip(call.results, op.operands, strict=True):
                result.replace_all_uses_with(mapped[value])
            break
        copy = op.operation.clone(ip=ir.InsertionPoint(call))
        for each in (copy, *nested(copy)):
            for index, value in enumerate(each.operands):
                if value in mapped:
                    each.operands[index] = mapped[value]
        mapped.update(zip(op.results, copy.results, strict=True))
    call.erase()
