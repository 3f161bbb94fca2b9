"""From a program on whole arrays with shardings to what each device runs on its parts.

Shardy says how each value is cut (propagate.py). A rule for each family of operations (rules.py, regions.py) says what
the operation is on parts; what has no rule is computed by the default one, which is right by construction.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from xla_npu import errors
from xla_npu.frontend import nested
from xla_npu.lowering.context import captured
from xla_npu.lowering.registry import rule_name
from xla_npu.partition.emit import Emitter, shape_of
from xla_npu.partition.mesh import Axes, Axis, Meshes, Sharding, divided, local_shape, parts, whole
from xla_npu.partition.reshard import reshard
from xla_npu.types import is_token

_log = logging.getLogger(__name__)
# f(a + b) = f(a) + f(b), without rounding of its own.
_LINEAR = ("stablehlo.add", "stablehlo.negate", "stablehlo.reshape", "stablehlo.transpose")
# What says how a value is cut, and by which attribute.
PLACING = {"sdy.sharding_constraint": "sharding", "sdy.reshard": "sharding", "sdy.all_reduce": "out_sharding"}
_MANUAL = "sdy.manual_computation"
_TERMINATORS = ("func.return", "stablehlo.return", "sdy.return")


@dataclass(frozen=True, slots=True)
class Part:
    """What a device has of an array: `value`, its part by `sharding` of an array of `shape`. A token has no shape.
    `partial`: the array is the sum over the devices along these axes; only rules' results may be so."""

    value: Any
    shape: tuple[int, ...] | None
    sharding: Sharding
    partial: Axes = ()


# A rule gets the partitioner, the operation, the parts of its operands and the shardings wanted of its results; it
# returns the results' parts, by any sharding, or None where it cannot.
Rule = Callable[["Partitioner", Any, Sequence[Part], Sequence[Sharding]], "Sequence[Part] | None"]
RULES: dict[str, Rule] = {}


def partitions(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operations, by the names that lowering.registry.rule_name has for them.

    Raises:
        ValueError: the operation has a rule already.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has a partitioning rule already")
            RULES[name] = rule
        return rule

    return register


class Partitioner:
    """One program. `default`: how often the default rule was taken, by operation. `manual`: the axes that the region
    being written handles itself."""

    def __init__(self, meshes: Meshes, functions: Mapping[str, Any], emit: Emitter) -> None:
        self.meshes = meshes
        self.functions = functions
        self.emit = emit
        self.default: Counter[str] = Counter()
        self.manual: frozenset[Axis] = frozenset()
        self._parts: dict[Any, Part] = {}
        # Partial sums, and how they are wanted. They are combined when something reads them that needs the sum.
        self._sums: dict[Any, tuple[Part, Sharding]] = {}
        self._cuts: dict[tuple[Any, Sharding], Any] = {}  # of this block, so as not to exchange twice

    @property
    def fully_manual(self) -> bool:
        """Whether the region being written handles all axes of its mesh itself."""
        return bool(self.manual) and len(self.manual) == len(
            self.meshes.mesh(next(iter(self.manual)).mesh).axes
        )

    def part(self, value: Any) -> Part:
        """The device's part of a value of the program."""
        if value in self._sums:
            part, sharding = self._sums.pop(value)
            self._parts[value] = self.cut(self.summed(part, sharding), sharding)
        return self._parts[value]

    def define(self, value: Any, part: Part) -> None:
        self._parts[value] = part

    def cut(self, part: Part, sharding: Sharding) -> Part:
        """The part by another sharding."""
        if part.shape is None or part.sharding == sharding:
            return part
        key = (part.value, sharding)
        if key not in self._cuts:
            self._cuts[key] = reshard(self.emit, part.value, part.sharding, sharding)
        return Part(self._cuts[key], part.shape, sharding)

    def summed(self, part: Part, want: Sharding) -> Part:
        """The array of which the part is a partial sum, by a sharding near the wanted one."""
        shape, have, partial = part.shape, part.sharding, part.partial
        for dim, (axes, wanted) in enumerate(zip(have, want, strict=True)):
            if wanted[: len(axes)] == axes and wanted[len(axes) :] == partial:
                scattered = self.emit.reduce_scatter(part.value, dim, partial, "add")
                return Part(scattered, shape, (*have[:dim], wanted, *have[dim + 1 :]))
        return Part(self.emit.all_reduce(part.value, partial, "add"), shape, have)

    def fit(self, sharding: Any, shape: Sequence[int]) -> Sharding:
        """A sharding of Shardy's as far as it cuts evenly, without the axes that are manual here; None: no cut."""
        if sharding is None or self.meshes.is_empty(sharding):
            return whole(len(shape))
        decoded = self.meshes.decode(sharding)
        free = (tuple(axis for axis in axes if axis not in self.manual) for axes in decoded)
        return tuple(divided(axes, size) for axes, size in zip(free, shape, strict=True))

    def wanted(self, operation: Any) -> list[Sharding]:
        """The shardings that Shardy gives the operation's results."""
        said: Sequence[Any] = [None] * len(operation.results)
        if operation.name in PLACING:
            said = [sdy.TensorShardingAttr(operation.attributes[PLACING[operation.name]])]
        elif "sdy.sharding" in operation.attributes:
            per_value = sdy.TensorShardingPerValueAttr(operation.attributes["sdy.sharding"])
            said = [sdy.TensorShardingAttr(each) for each in per_value.shardings]
        return [
            self.fit(each, _sizes(result) or ()) if _sizes(result) is not None else ()
            for each, result in zip(said, operation.results, strict=True)
        ]

    def define_summand(self, value: Any, part: Part) -> None:
        """The devices have summands of a value, along the part's axes `partial`."""
        self._sums[value] = (part, part.sharding)

    def summand(self, value: Any, sharding: Sharding, axes: Axes) -> Part:
        """A part whose sum over the devices along `axes` is the value: what there is, else the first device has all."""
        if value in self._sums and set(self._sums[value][0].partial) == set(axes):
            found = self._sums[value][0]
            plain = self.cut(replace(found, partial=()), sharding)
            return replace(plain, partial=axes)
        part = self.part(value)
        for dim, have in enumerate(part.sharding):
            if set(have[len(sharding[dim]) :]) == set(axes) and have[: len(sharding[dim])] == sharding[dim]:
                own = self.cut(part, (*sharding[:dim], have, *sharding[dim + 1 :]))
                among = self.emit.among_zeros(own.value, dim, have[len(sharding[dim]) :])
                return Part(among, part.shape, sharding, axes)
        part = self.cut(part, sharding)
        return replace(part, value=self.emit.on_first(part.value, axes), partial=axes)

    def block(self, block: Any) -> list[Part]:
        """Writes the operations of a block, whose arguments are defined; what its terminator returns."""
        return [self.part(value) for value in self.values_of(block)]

    def values_of(self, block: Any) -> list[Any]:
        """As `block`, but the terminator's operands themselves."""
        outer, self._cuts = self._cuts, dict(self._cuts)
        try:
            for op in block.operations:
                if op.operation.name in _TERMINATORS:
                    return list(op.operands)
                self._visit(op.operation)
        finally:
            self._cuts = outer
        return []

    def _visit(self, operation: Any) -> None:
        if any(is_token(value.type) for value in (*operation.operands, *operation.results)):
            raise errors.Unsupported(
                f"tokens in a program for several devices are not supported on npu ({errors.describe(operation)})"
            )
        wanted = self.wanted(operation)
        with self.emit.named(operation):
            try:
                given = self._on_partial_sums(operation, wanted)
                if given is None:
                    lazy = operation.name == _MANUAL  # which may take summands
                    for value in () if lazy else captured(operation.regions):
                        self.part(value)  # here, where all of the regions' values may read it
                    operands = [] if lazy else [self.part(value) for value in operation.operands]
                    given = self._by_rule(operation, operands, wanted)
            except errors.CompileError as error:
                if errors.location(operation) in str(error) and errors.location(operation):
                    raise
                raise type(error)(f"{error} ({errors.describe(operation)})") from error
            for result, part, sharding in zip(operation.results, given, wanted, strict=True):
                want = part.sharding if operation.name == _MANUAL else sharding
                if part.partial:
                    self._sums[result] = (part, want)
                else:
                    self.define(result, self.cut(part, want))

    def _on_partial_sums(self, operation: Any, wanted: Sequence[Sharding]) -> Sequence[Part] | None:
        """An operation that may come before the sum over the devices, where nothing else reads its operands."""
        if operation.name not in (*_LINEAR, *PLACING) or any(
            value not in self._sums or len(list(value.uses)) != 1 for value in operation.operands
        ):
            return None
        operands = [self._sums[value][0] for value in operation.operands]
        partial = operands[0].partial
        if any((p.sharding, p.partial) != (operands[0].sharding, partial) for p in operands):
            return None
        # A device's summands must be of the same part as the other devices': no cut along the axes of the sum.
        free = [
            tuple(tuple(itertools.takewhile(lambda a: a not in partial, axes)) for axes in s) for s in wanted
        ]
        plain = [replace(part, partial=()) for part in operands]
        given = RULES[operation.name](self, operation, plain, free)
        if given is None or any(axis in partial for part in given for axes in part.sharding for axis in axes):
            return None
        for value in operation.operands:
            del self._sums[value]
        return [replace(part, partial=partial) for part in given]

    def _by_rule(
        self, operation: Any, operands: Sequence[Part], wanted: Sequence[Sharding]
    ) -> Sequence[Part]:
        rule = RULES.get(rule_name(operation)) or RULES.get(operation.name)
        given = rule(self, operation, operands, wanted) if rule is not None else None
        if given is not None:
            return given
        cut = any(axes for part in operands for axes in part.sharding)
        if cut or any(axes for sharding in wanted for axes in sharding):
            self.default[rule_name(operation)] += 1
            _log.debug("gathered for %s", errors.describe(operation))
        return self.replicated(operation, operands)

    def replicated(self, operation: Any, operands: Sequence[Part]) -> list[Part]:
        """The default rule: every device computes the whole operation."""
        gathered = [self.cut(part, whole(len(part.shape or ()))) for part in operands]
        made = self.copy(operation, [part.value for part in gathered], [_sizes(r) for r in operation.results])
        return [self.whole(value) for value in made.results]

    def copy(
        self,
        operation: Any,
        operands: Sequence[Any],
        shapes: Sequence[Sequence[int] | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> Any:
        """The operation on parts. What its regions read from outside is gathered."""
        captures = {}
        for value in captured(operation.regions):
            part = self.part(value)
            captures[value] = self.cut(part, whole(len(part.shape or ()))).value
        return self.emit.copy(operation, operands, shapes, captures, attributes)

    def whole(self, value: Any) -> Part:
        """A value that every device has in whole."""
        shape = _sizes(value)
        return Part(value, shape, whole(len(shape or ())))

    def made(self, value: Any, sharding: Sharding) -> Part:
        """A value just written, which is the part by the sharding."""
        shape = tuple(size * parts(axes) for size, axes in zip(shape_of(value), sharding, strict=True))
        return Part(value, shape, sharding)

    def local_type(self, value: Any, sharding: Sharding) -> Any:
        """The type of the part of a value of the program."""
        shape = _sizes(value)
        return value.type if shape is None else self.emit.typed(value, local_shape(shape, sharding))


def _sizes(value: Any) -> tuple[int, ...] | None:
    return tuple(value.type.shape) if isinstance(value.type, ir.RankedTensorType) else None


def all_operations(module: Any) -> list[Any]:
    """The operations of all functions, at all levels."""
    return [
        op
        for function in module.body.operations
        if function.operation.name == "func.func"
        for op in nested(function.operation)
    ]
