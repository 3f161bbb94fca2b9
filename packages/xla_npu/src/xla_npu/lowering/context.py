"""What a lowering rule works with: the graph being built, the values known so far, and regions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from npu_common.graph import Builder, Graph, GraphError, Value
from xla_npu import errors
from xla_npu.devices import Devices
from xla_npu.frontend import nested
from xla_npu.lowering.registry import rule_for
from xla_npu.types import TensorType, is_token, tensor_type

_TERMINATORS = ("func.return", "stablehlo.return", "return")


class Context:
    """One graph under construction. `values`: what MLIR's values are in it; a token is None. `devices`: those of the
    program, one unless given."""

    def __init__(self, name: str, functions: Mapping[str, Any], devices: Devices | None = None) -> None:
        self.builder = Builder(name)
        self.devices = devices or Devices()
        self.functions = functions
        self.values: dict[Any, Value | None] = {}
        self._label = ""
        self._subgraphs = 0
        self._elementwise = False  # within a block of scalars that was given arrays

    # For rules: nodes.

    def add(self, type: str, *inputs: Any, **arguments: Any) -> Value:
        """A node with one output (Builder.add), named after the operation being lowered."""
        return self.builder.add(type, *inputs, node_name=self._label or None, **arguments)

    def add_many(self, type: str, *inputs: Any, **arguments: Any) -> list[Value]:
        """A node with several outputs (Builder.add_many)."""
        return self.builder.add_many(type, *inputs, node_name=self._label or None, **arguments)

    def constant(self, value: Any, dtype: Any = None) -> Value:
        """A constant; `dtype` None: the array's own."""
        return self.builder.constant(value, dtype)

    def result_type(self, operation: Any, index: int = 0) -> TensorType:
        """The type of a result. Raises Unsupported."""
        return tensor_type(operation.results[index].type)

    def operand_type(self, operation: Any, index: int = 0) -> TensorType:
        """The type of an operand. Raises Unsupported."""
        return tensor_type(operation.operands[index].type)

    # For rules: regions.

    def lower_block(self, block: Any, arguments: Sequence[Value | None]) -> list[Value | None]:
        """Lowers a block into this graph and returns what its terminator returns.

        A block of scalars (a combiner, a comparator) may be given arrays: elementwise rules go by the values they
        get, not by the types in the text.
        """
        self.values.update(zip(block.arguments, arguments, strict=True))
        outer = self._elementwise
        self._elementwise = outer or any(
            value is not None and tensor_type(argument.type).shape != value.shape
            for argument, value in zip(block.arguments, arguments, strict=True)
        )
        try:
            for op in block.operations:
                if op.operation.name in _TERMINATORS:
                    return [self.values[value] for value in op.operands]
                self.lower(op.operation)
        finally:
            self._elementwise = outer
        return []

    def subgraph(self, name: str, block: Any, captures: Sequence[Any], pass_through: bool = False) -> Graph:
        """A graph of its own of a block, for If, Case and While.

        Inputs are the block's arguments that are no tokens, then the captures; outputs what it returns that are no
        tokens, then with `pass_through` the captures again.

        Args:
            captures: MLIR values of around the block that it reads, see `captured`. What is a constant in this graph
                becomes a constant in the new one, and no input.
        """
        self._subgraphs += 1
        inner = Context(
            f"{name}_{self._subgraphs}_{self.builder.graph.name}"[:120], self.functions, self.devices
        )
        arguments: list[Value | None] = []
        for index, argument in enumerate(block.arguments):
            if is_token(argument.type):
                arguments.append(None)
                continue
            type_ = tensor_type(argument.type)
            arguments.append(inner.builder.input(f"argument{index}", type_.dtype, type_.shape))
        passed: list[Value] = []
        for index, capture in enumerate(captures):
            outer = self.values[capture]
            if outer is None:
                inner.values[capture] = None
            elif outer.constant is not None:
                inner.values[capture] = inner.constant(outer.constant)
            else:
                passed.append(inner.builder.input(f"captured{index}", outer.dtype, outer.shape or ()))
                inner.values[capture] = passed[-1]
        results = [value for value in inner.lower_block(block, arguments) if value is not None]
        for value in (*results, *(passed if pass_through else ())):
            inner.builder.output(value)
        return inner.builder.graph

    def captured_values(self, captures: Sequence[Any]) -> list[Value]:
        """The values that `subgraph` takes as inputs for these captures, in its order."""
        values = (self.values[capture] for capture in captures)
        return [value for value in values if value is not None and value.constant is None]

    # The walk.

    def lower(self, operation: Any) -> None:
        """Lowers one operation and notes its results.

        Raises:
            CompileError: it has no rule, or its rule cannot take it; names it and its place in the source.
        """
        rule = rule_for(operation)
        if rule is None:
            raise errors.Unsupported(f"npu has no lowering of {errors.describe(operation)}")
        outer, self._label = self._label, label(operation)
        try:
            given = rule(self, operation, *(self.values[value] for value in operation.operands))
        except errors.CompileError as error:
            if error.args and errors.location(operation) in str(error):
                raise
            raise type(error)(f"{error} ({errors.describe(operation)})") from error
        except (GraphError, TypeError, ValueError, NotImplementedError) as error:
            raise errors.CompileError(
                f"{errors.describe(operation)} cannot be compiled for npu: {error}", errors.UNIMPLEMENTED
            ) from error
        finally:
            self._label = outer
        results = given if isinstance(given, Sequence) else [] if given is None else [given]
        if len(results) != len(operation.results):
            raise errors.CompileError(
                f"the rule of {operation.name} gave {len(results)} values for {len(operation.results)} results",
                errors.INTERNAL,
            )
        for result, value in zip(operation.results, results, strict=True):
            self._check(operation, result, value)
            self.values[result] = value

    def _check(self, operation: Any, result: Any, value: Value | None) -> None:
        """A rule that gives another type than it promised would compute something else: never go on."""
        if value is None or is_token(result.type):
            return
        wanted = tensor_type(result.type)
        if value.dtype != wanted.dtype or not (self._elementwise or value.shape == wanted.shape):
            raise errors.CompileError(
                f"the rule of {errors.describe(operation)} gave {value.type_text()} for {result.type}",
                errors.INTERNAL,
            )


def captured(regions: Iterable[Any]) -> list[Any]:
    """The MLIR values that operations in these regions read and that are defined outside, in order of first use."""
    inside: set[Any] = set()
    read: dict[Any, None] = {}
    for region in regions:
        for block in region.blocks:
            inside.update(block.arguments)
            for op in block.operations:
                for each in (op.operation, *nested(op.operation)):
                    read.update(dict.fromkeys(each.operands))
                    inside.update(each.results)
                    for inner in each.regions:
                        for inner_block in inner.blocks:
                            inside.update(inner_block.arguments)
    return [value for value in read if value not in inside]


def label(operation: Any) -> str:
    """A name for nodes of the operation: 'jit(f)/tanh at model.py:12' as far as known, else the operation's own."""
    return errors.location(operation) or operation.name.rpartition(".")[2]


def integers(attribute: Any) -> tuple[int, ...]:
    """An attribute of integers (a dense array, or elements of any rank, row-major) as a flat tuple."""
    return tuple(int(v) for v in np.asarray(attribute).reshape(-1))


__all__ = ["Context", "captured", "integers", "label"]
