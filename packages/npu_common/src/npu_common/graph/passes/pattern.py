"""Patterns that read as the expression they match.

    x, axes = var("x"), ints("axes")
    exp = op("Exp", op("Sub", x, op("ReduceMax", x, axes, keep_dims=True)))
    softmax = op("RealDiv", exp, op("ReduceSum", exp, axes, keep_dims=True))

A name that occurs twice must be the same value (constants: equal contents). `Add`, `Mul` and the like match with
their inputs either way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu_common.graph.builder import Builder as _Builder
from npu_common.graph.ir import CONSTANTS, Graph, Node, Value
from npu_common.graph.language import GraphLanguage

COMMUTATIVE = frozenset(("Add", "AddV2", "Mul", "Maximum", "Minimum", "LogicalAnd", "LogicalOr", "Equal"))
Bindings = dict[str, Value]
Predicate = Callable[[Value], bool]


@dataclass(frozen=True, slots=True)
class Var:
    """Any value."""

    name: str
    accept: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """An operator by its type, its leading inputs and the attributes that matter (defaults filled in)."""

    types: tuple[str, ...]
    inputs: tuple[Pattern, ...]
    attributes: tuple[tuple[str, Any], ...]
    output: int = 0


@dataclass(frozen=True, slots=True)
class AnyOf:
    choices: tuple[Pattern, ...]


Pattern = Var | Op | AnyOf


def var(name: str, accept: Predicate | None = None) -> Var:
    return Var(name, accept)


def number(name: str, value: float | None = None, tolerance: float = 1e-3) -> Var:
    """A constant with one element; `value`: about that, because it was rounded to the graph's dtype."""

    def accept(found: Value) -> bool:
        held = scalar(found)
        return held is not None and (value is None or abs(held - value) <= tolerance * abs(value))

    return Var(name, accept)


def ints(name: str) -> Var:
    """A constant of integers: axes, a shape, a permutation."""
    return Var(name, lambda found: integers(found) is not None)


def op(types: str, *inputs: Pattern, output: int = 0, **attributes: Any) -> Op:
    """`types`: one or several, "BatchMatMul BatchMatMulV2"."""
    return Op(tuple(types.split()), inputs, tuple(attributes.items()), output)


def any_of(*choices: Pattern) -> AnyOf:
    return AnyOf(choices)


def scalar(value: Value | None) -> float | None:
    """The number in a constant with one element."""
    array = None if value is None else value.constant
    if array is None or array.size != 1 or array.dtype.kind == "c":
        return None
    return float(array.reshape(()))


def integers(value: Value | None) -> list[int] | None:
    array = None if value is None else value.constant
    if array is None or array.dtype.kind not in "iu":
        return None
    return [int(i) for i in array.reshape(-1)]


@dataclass(frozen=True, slots=True)
class Match:
    values: Bindings
    inner: frozenset[Node]  # matched operators, the root among them
    graph: Graph
    root: Value
    language: GraphLanguage

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def scalar(self, name: str) -> float:
        held = scalar(self.values[name])
        assert held is not None, name
        return held

    def ints(self, name: str) -> list[int]:
        held = integers(self.values[name])
        assert held is not None, name
        return held

    def builder(self) -> _Builder:
        """Adds nodes to the graph of the match."""
        builder = _Builder(self.graph.name, self.language)
        builder.graph = self.graph
        return builder


def match(pattern: Pattern, value: Value, language: GraphLanguage) -> Iterator[Match]:
    """Every way the expression that ends in `value` is an instance of the pattern. None of the inner values may
    be read from outside: they would be computed twice."""
    for values, inner in bind(pattern, value, {}, frozenset(), language):
        root = value.node
        if all(
            user in inner for node in inner if node is not root for out in node.outputs for user in out.users
        ):
            yield Match(values, inner, value.node.graph, value, language)


State = tuple[Bindings, frozenset[Node]]


def bind(
    pattern: Pattern, value: Value, values: Bindings, inner: frozenset[Node], language: GraphLanguage
) -> Iterator[State]:
    """As `match`, going on from what is bound and matched already, and without asking who else reads inner values."""
    if isinstance(pattern, AnyOf):
        for choice in pattern.choices:
            yield from bind(choice, value, values, inner, language)
    elif isinstance(pattern, Var):
        known = values.get(pattern.name)
        if known is not None:
            if same(known, value):
                yield values, inner
        elif pattern.accept is None or pattern.accept(value):
            yield values | {pattern.name: value}, inner
    elif _fits(pattern, value, language):
        for order in _orders(pattern, value.node):
            yield from _match_inputs(pattern.inputs, order, values, inner | {value.node}, language)


def _match_inputs(
    patterns: tuple[Pattern, ...],
    inputs: list[Value | None],
    values: Bindings,
    inner: frozenset[Node],
    language: GraphLanguage,
) -> Iterator[State]:
    if not patterns:
        yield values, inner
        return
    if not inputs or inputs[0] is None:
        return
    for found, nodes in bind(patterns[0], inputs[0], values, inner, language):
        yield from _match_inputs(patterns[1:], inputs[1:], found, nodes, language)


def _orders(pattern: Op, node: Node) -> list[list[Value | None]]:
    plain = list(node.inputs)
    swap = node.type in COMMUTATIVE and len(plain) == 2 == len(pattern.inputs) and plain[0] is not plain[1]
    return [plain, plain[::-1]] if swap else [plain]


def _fits(pattern: Op, value: Value, language: GraphLanguage) -> bool:
    node = value.node
    if node.type not in pattern.types or value.index != pattern.output or node.controls:
        return False
    return all(attribute(node, name, language) == wanted for name, wanted in pattern.attributes)


def attribute(node: Node, name: str, language: GraphLanguage) -> Any:
    """What the node says, or the catalogue's default."""
    if name in node.attributes:
        return node.attributes[name]
    operator = language.find_operator(node.type)
    return operator.attributes[name].default if operator and name in operator.attributes else None


def same(one: Value, other: Value) -> bool:
    """One value, or two constants of equal contents."""
    if one is other:
        return True
    if one.node.type not in CONSTANTS or other.node.type not in CONSTANTS:
        return False
    a, b = one.constant, other.constant
    return a is not None and b is not None and a.dtype == b.dtype and bool(np.array_equal(a, b))


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`build` makes the replacement of the root, or returns None where something the pattern cannot say is amiss."""

    name: str
    pattern: Pattern
    build: Callable[[Match], Value | None]


def rewrite(rules: tuple[Rewrite, ...]) -> Callable[[Graph, GraphLanguage], int]:
    """A pass that applies rules once over the graph, from the results backwards: the largest match wins."""

    def run(graph: Graph, language: GraphLanguage) -> int:
        changes = 0
        for node in reversed(graph.order()):
            changes += sum(_apply(rules, value, language) for value in node.outputs if value.uses)
        return changes

    return run


def _forget(value: Value) -> None:
    if not any(output.uses for output in value.node.outputs):
        value.node.graph.remove(value.node)


def _apply(rules: tuple[Rewrite, ...], value: Value, language: GraphLanguage) -> int:
    for rule in rules:
        for found in match(rule.pattern, value, language):
            new = rule.build(found)
            if new is None:
                continue
            if (new.dtype, new.shape) != (value.dtype, value.shape):
                # A constant of one element, but of more dimensions, made the expansion's result larger than x.
                _forget(new)
                continue
            value.replace_uses(new)
            return 1
    return 0
