"""The function `main` on parts, written beside the one on whole arrays, which it replaces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from xla_npu.frontend import functions, nested
from xla_npu.partition.emit import Emitter, shape_of
from xla_npu.partition.mesh import Axes, Meshes
from xla_npu.partition.op_sharding import serialised
from xla_npu.partition.partitioner import Part, Partitioner

_SHARDING = "sdy.sharding"


@dataclass(frozen=True)
class Shardings:
    """Serialised xla.OpSharding of each parameter and result of a program. `default`: how often the default rule was
    taken, by operation."""

    parameters: list[bytes]
    results: list[bytes]
    default: Counter[str]

    @classmethod
    def whole(cls, function: Any) -> Shardings:
        """Of a function whose arguments and results every device has in whole."""
        return cls([b""] * len(function.type.inputs), [b""] * len(function.type.results), Counter())


def write_parts(module: Any, devices: int) -> Shardings:
    """Replaces `main` of a module whose shardings have been propagated."""
    main = functions(module)["main"]
    meshes = Meshes(module, devices)
    given = _attributes(main, "arg_attrs", len(main.regions[0].blocks[0].arguments))
    returned = _attributes(main, "res_attrs", len(main.type.results))
    for sharding in _all_shardings(main, (*given, *returned)):
        meshes.note(sharding)
    with module.context, ir.Location.unknown():
        made = _write(module, main, meshes, devices, given, returned)
        main.erase()
    return made


def _write(
    module: Any, main: Any, meshes: Meshes, devices: int, given: list[Any], returned: list[Any]
) -> Shardings:
    source = main.regions[0].blocks[0]
    emit = Emitter(meshes, devices)
    partitioner = Partitioner(meshes, functions(module), emit)
    arguments = [
        partitioner.fit(_sharding(each), shape_of(argument))
        for each, argument in zip(given, source.arguments, strict=True)
    ]
    results = [
        partitioner.fit(_sharding(each), tuple(type_.shape))
        for each, type_ in zip(returned, main.type.results, strict=True)
    ]
    types = [
        partitioner.local_type(argument, sharding)
        for argument, sharding in zip(source.arguments, arguments, strict=True)
    ]
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get("main"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
        },
        regions=1,
        ip=ir.InsertionPoint(main),
    )
    block = function.regions[0].blocks.append(*types, arg_locs=[a.location for a in source.arguments])
    emit.begin(block)
    for argument, inner, sharding in zip(source.arguments, block.arguments, arguments, strict=True):
        part = Part(inner, shape_of(argument), sharding, _summed(meshes, given[argument.arg_number]))
        if part.partial:
            partitioner.define_summand(argument, part)
        else:
            partitioner.define(argument, part)
    outputs = []
    for value, sharding, each in zip(partitioner.values_of(source), results, returned, strict=True):
        summed = _summed(meshes, each)
        outputs.append(
            partitioner.summand(value, sharding, summed)
            if summed
            else partitioner.cut(partitioner.part(value), sharding)
        )
    emit.op("func.return", [part.value for part in outputs], [])
    returned_types = [part.value.type for part in outputs]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, returned_types))
    for name, attributes in (("arg_attrs", given), ("res_attrs", returned)):
        if name in main.attributes:
            function.attributes[name] = ir.ArrayAttr.get([_others(each) for each in attributes])
    return Shardings(
        [serialised(meshes, s, _summed(meshes, each)) for s, each in zip(arguments, given, strict=True)],
        [serialised(meshes, s, _summed(meshes, each)) for s, each in zip(results, returned, strict=True)],
        partitioner.default,
    )


def _attributes(function: Any, name: str, count: int) -> list[Any]:
    """The dictionaries of attributes of arguments or results, None where there are none."""
    return list(function.attributes[name]) if name in function.attributes else [None] * count


def _sharding(attributes: Any) -> Any:
    if attributes is None or _SHARDING not in attributes:
        return None
    return sdy.TensorShardingAttr(attributes[_SHARDING])


def _summed(meshes: Meshes, attributes: Any) -> Axes:
    """The axes along which the devices have summands of an argument or result."""
    sharding = _sharding(attributes)
    return () if sharding is None else meshes.unreduced(sharding)


def _others(attributes: Any) -> Any:
    return ir.DictAttr.get({each.name: each.attr for each in attributes if each.name != _SHARDING})


def _all_shardings(main: Any, attributes: tuple[Any, ...]) -> list[Any]:
    """Every sharding that the function names."""
    found = [sharding for each in attributes if (sharding := _sharding(each)) is not None]
    for op in nested(main.operation):
        for name in (_SHARDING, "in_shardings", "out_shardings"):
            if name in op.attributes:
                per_value = sdy.TensorShardingPerValueAttr(op.attributes[name])
                found.extend(sdy.TensorShardingAttr(each) for each in per_value.shardings)
        if op.name in ("sdy.sharding_constraint", "sdy.reshard"):
            found.append(sdy.TensorShardingAttr(op.attributes["sharding"]))
    return found
