"""Divides a program between the graph engine and the host.

Operations between two that need the host become one offline model. A loop or branch that holds host work is a step
of the plan, whose blocks are divided alike; every other is inside its model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npu_common.graph import Graph
from xla_npu import host
from xla_npu.devices import Devices
from xla_npu.errors import location
from xla_npu.frontend import nested
from xla_npu.lowering import Context
from xla_npu.lowering.context import captured
from xla_npu.lowering.registry import rule_name
from xla_npu.program import messages
from xla_npu.types import is_token, tensor_type

_CONTROL = ("stablehlo.while", "stablehlo.case", "stablehlo.if")
_TERMINATORS = ("func.return", "stablehlo.return")


_EXCHANGES = (
    "stablehlo.all_reduce",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
    "stablehlo.collective_broadcast",
    "custom_call:npu.collective_permute",
)


class HostWork:
    """Which operations and functions hold host work. `devices`: how many the program is for; where these are several,
    loops and branches with exchanges between them count as host work: the graph engine runs exchanges in the main
    graph only."""

    def __init__(self, functions: Mapping[str, Any], devices: int = 1) -> None:
        self._functions = functions
        self._devices = devices
        self._known: dict[str, bool] = {}

    def in_function(self, function: Any) -> bool:
        name = function.attributes["sym_name"].value
        if name not in self._known:
            self._known[name] = any(self._of(op) for op in nested(function.operation))
        return self._known[name]

    def in_operation(self, operation: Any) -> bool:
        if self._of(operation):
            return True
        inner = list(nested(operation))
        if self._devices > 1 and operation.name in _CONTROL:
            return any(self._of(op) or rule_name(op) in _EXCHANGES for op in inner)
        return any(self._of(op) for op in inner)

    def _of(self, operation: Any) -> bool:
        if operation.name == "func.call":
            return self.in_function(self._functions[operation.attributes["callee"].value])
        return host.is_hosted(rule_name(operation))


class Planner:
    """Makes the `Block` messages of a program. `models`: the offline models, in the order that RunModel counts."""

    def __init__(
        self,
        name: str,
        functions: Mapping[str, Any],
        work: HostWork,
        build: Callable[[Graph], bytes],
        devices: Devices,
    ) -> None:
        self.models: list[bytes] = []
        self._devices = devices
        self._name = name
        self._functions = functions
        self._work = work
        self._build = build

    def block(self, block: Any, captures: Sequence[Any] = ()) -> Any:
        """The plan of a block: its inputs are the block's arguments and the captures, tokens left out; its outputs
        what the terminator returns, then nothing of the captures.

        Raises:
            CompileError: an operation has no lowering.
        """
        made = _Slots()
        inputs = [value for value in (*block.arguments, *captures) if not is_token(value.type)]
        made.message.inputs.extend(made.add(value) for value in inputs)
        operations = [op.operation for op in block.operations]
        reads = [_reads(op) for op in operations]
        pending: list[int] = []
        for index, op in enumerate(operations):
            if op.name in _TERMINATORS:
                self._flush(made, operations, reads, pending)
                made.message.outputs.extend(made.of(v) for v in op.operands if not is_token(v.type))
            elif self._work.in_operation(op):
                self._flush(made, operations, reads, pending)
                self._host_step(made, op)
            else:
                pending.append(index)
        return made.message

    def _flush(self, made: _Slots, operations: list[Any], reads: list[list[Any]], pending: list[int]) -> None:
        """Makes one model of the pending operations, if anything outside reads their results."""
        chosen = set(pending)
        defined = {result: None for i in pending for result in operations[i].results}
        outside = {value for i, values in enumerate(reads) if i not in chosen for value in values}
        results = [v for v in defined if v in outside and not is_token(v.type) and v not in made]
        if results:
            context = Context(
                f"{self._name}_{len(self.models)}" if self.models else self._name,
                self._functions,
                self._devices,
            )
            inputs = self._bind_inputs(
                made, context, [v for i in pending for v in reads[i] if v not in defined]
            )
            for i in pending:
                context.lower(operations[i])
            for value in results:
                found = context.values[value]
                assert found is not None
                context.builder.output(found)
            step = made.message.steps.add()
            step.run.model = len(self.models)
            step.run.inputs.extend(inputs)
            step.run.outputs.extend(made.add(value) for value in results)
            self.models.append(self._build(context.builder.graph))
        pending.clear()

    def _bind_inputs(self, made: _Slots, context: Context, values: Sequence[Any]) -> list[int]:
        slots: list[int] = []
        for value in dict.fromkeys(values):
            owner = value.owner
            if is_token(value.type):
                context.values[value] = None
            elif getattr(owner, "name", "") == "stablehlo.constant":
                context.lower(owner)  # cheaper again than as a buffer
            else:
                type_ = tensor_type(value.type)
                context.values[value] = context.builder.input(f"input{len(slots)}", type_.dtype, type_.shape)
                slots.append(made.of(value))
        return slots

    def _host_step(self, made: _Slots, op: Any) -> None:
        step = made.message.steps.add(location=location(op))
        operands = [value for value in op.operands if not is_token(value.type)]
        results = [value for value in op.results if not is_token(value.type)]
        if op.name not in _CONTROL:
            request = host.request(rule_name(op), op)
            call = step.host
            call.target, call.attributes = request.target, request.attributes
            call.has_side_effect, call.api = request.has_side_effect, request.api
            call.inputs.extend(made.of(value) for value in operands)
            call.outputs.extend(made.add(value) for value in results)
            for result, operand in request.aliases:
                call.aliases.add(result=result, parameter=operand)
            return
        captures = [value for value in captured(op.regions) if not is_token(value.type)]
        if op.name == "stablehlo.while":
            self._while(made, step.loop, op, operands, captures)
        else:
            self._case(made, step.branch, op, operands[0], captures)

    def _while(self, made: _Slots, loop: Any, op: Any, operands: list[Any], captures: list[Any]) -> None:
        condition, body = (region.blocks[0] for region in op.regions)
        loop.condition.CopyFrom(self.block(condition, captures))
        loop.body.CopyFrom(self.block(body, captures))
        carried = len(loop.body.outputs)
        loop.body.outputs.extend(loop.body.inputs[carried:])  # captures go round unchanged
        loop.inputs.extend(made.of(value) for value in (*operands, *captures))
        loop.outputs.extend(made.add(value) for value in op.results if not is_token(value.type))
        loop.outputs.extend(made.copy_of(value) for value in captures)

    def _case(self, made: _Slots, branch: Any, op: Any, index: Any, captures: list[Any]) -> None:
        # The first region of `if` is the one for true, which counts as 1.
        regions = list(op.regions)
        if op.name == "stablehlo.if":
            regions.reverse()
        branch.index = made.of(index)
        for region in regions:
            branch.branches.add().CopyFrom(self.block(region.blocks[0], captures))
        branch.inputs.extend(made.of(value) for value in captures)
        branch.outputs.extend(made.add(value) for value in op.results if not is_token(value.type))


class _Slots:
    """The slots of one block, and its message."""

    def __init__(self) -> None:
        self.message = messages()["Block"]()
        self._numbers: dict[Any, int] = {}

    def __contains__(self, value: Any) -> bool:
        return value in self._numbers

    def add(self, value: Any) -> int:
        self._numbers[value] = self.copy_of(value)
        return self._numbers[value]

    def copy_of(self, value: Any) -> int:
        """A slot of the value's type."""
        describe(self.message.slots.add(), value.type)
        return len(self.message.slots) - 1

    def of(self, value: Any) -> int:
        return self._numbers[value]


def describe(message: Any, type: Any) -> None:
    """Fills a `Tensor` message."""
    tensor = tensor_type(type)
    message.type = tensor.element.pjrt
    message.dims.extend(tensor.shape)


def _reads(op: Any) -> list[Any]:
    """The values of its block and around that an operation reads, also in its regions."""
    return list(dict.fromkeys((*op.operands, *captured(op.regions))))
