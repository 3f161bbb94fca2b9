"""Comparators of sort as lists of keys: what JAX and others write is an order by one key after the other.

A comparator reads pairs of scalars, the elements of each operand at two places. It is taken apart where it is
`compare(f(left...), f(right...))` with the same f of both sides, or `first or (equal and rest)` of such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xla_npu.lowering.constants import elements
from xla_npu.types import tensor_type

_DIRECTIONS = {"LT": False, "GT": True}  # descending?
_CONSTANT = "stablehlo.constant"
_COMPARE = "stablehlo.compare"


@dataclass(frozen=True, slots=True)
class Key:
    """An order by `value`, an MLIR value computed from the left elements; `descending`: greater ones come first."""

    value: Any
    descending: bool
    total_order: bool


def keys_of(block: Any) -> list[Key] | None:
    """The keys, the most important one first; None for a comparator of another form."""
    return _Comparator(block).keys(list(block.operations)[-1].operands[0])


class _Comparator:
    def __init__(self, block: Any) -> None:
        arguments = list(block.arguments)
        self._left = arguments[0::2]
        self._right = arguments[1::2]

    def keys(self, value: Any) -> list[Key] | None:
        op = _owner(value)
        if op is None:
            return None
        if op.name == _COMPARE:
            key = self._key(op)
            return None if key is None else [key]
        if op.name != "stablehlo.or":
            return None
        for first, rest in (op.operands, reversed(list(op.operands))):
            found = self._lexicographic(first, rest)
            if found is not None:
                return found
        return None

    def _lexicographic(self, first: Any, rest: Any) -> list[Key] | None:
        """first(l, r) or (equal(l, r) and rest(l, r))"""
        head, tail = self.keys(first), _owner(rest)
        if head is None or len(head) != 1 or tail is None or tail.name != "stablehlo.and":
            return None
        for equal, after in (tail.operands, reversed(list(tail.operands))):
            test = _owner(equal)
            if test is None or test.name != _COMPARE or not self._is_equality(test, head[0]):
                continue
            following = self.keys(after)
            if following is not None:
                return [*head, *following]
        return None

    def _is_equality(self, op: Any, key: Key) -> bool:
        if _direction(op) != "EQ" or _is_total(op) != key.total_order:
            return False
        return any(
            self._same(a, key.value, self._left, self._left) and self._same(a, b, self._left, self._right)
            for a, b in _both_ways(op)
        )

    def _key(self, op: Any) -> Key | None:
        direction = _direction(op)
        if direction not in _DIRECTIONS:
            return None
        left, right = op.operands
        if self._same(left, right, self._left, self._right):
            return Key(left, _DIRECTIONS[direction], _is_total(op))
        if self._same(right, left, self._left, self._right):  # compare(GT, right, left) is left < right
            return Key(right, not _DIRECTIONS[direction], _is_total(op))
        return None

    def _same(self, a: Any, b: Any, a_side: list[Any], b_side: list[Any]) -> bool:
        """Whether `a` is of the elements of one side what `b` is of the other's."""
        if a in self._left or a in self._right or b in self._left or b in self._right:
            return a in a_side and b in b_side and a_side.index(a) == b_side.index(b)
        one, other = _owner(a), _owner(b)
        if one is None or other is None:
            return one is other and a == b
        if one.name != other.name or len(one.operands) != len(other.operands) or len(one.results) != 1:
            return False
        if one.name == _CONSTANT and str(one.attributes["value"]) == str(other.attributes["value"]):
            return True
        if str(one.attributes) != str(other.attributes) or len(one.regions) > 0:
            return False
        return all(
            self._same(x, y, a_side, b_side) for x, y in zip(one.operands, other.operands, strict=True)
        )


def _owner(value: Any) -> Any:
    """The operation that computes a value, None for a block's argument."""
    return getattr(value.owner, "operation", None)


def _both_ways(op: Any) -> Iterator[tuple[Any, Any]]:
    left, right = op.operands
    yield left, right
    yield right, left


def _direction(op: Any) -> str:
    return str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")


def _is_total(op: Any) -> bool:
    return "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"])


def inputs_of(value: Any) -> set[Any]:
    """The operations that a value is computed by, its own included."""
    found: set[Any] = set()
    pending = [value]
    while pending:
        owner = _owner(pending.pop())
        if owner is not None and owner not in found:
            found.add(owner)
            pending.extend(owner.operands)
    return found


def canonical_of(value: Any) -> Any:
    """x where the value is x with one zero and one NaN, as JAX writes its keys:
    select(x != x, NaN, select(x == 0, 0, x)). Else None.
    """
    outer = _owner(value)
    if outer is None or outer.name != "stablehlo.select":
        return None
    test, nan, rest = outer.operands
    inner = _owner(rest)
    if inner is None or inner.name != "stablehlo.select":
        return None
    at_zero, zero, x = inner.operands
    if not (_is_test(test, "NE", x, x) and _is_test(at_zero, "EQ", x, zero)):
        return None
    return x if _is_number(nan, math.isnan) and _is_number(zero, lambda number: number == 0) else None


def _is_test(value: Any, direction: str, x: Any, y: Any) -> bool:
    op = _owner(value)
    return (
        op is not None and op.name == _COMPARE and _direction(op) == direction and list(op.operands) == [x, y]
    )


def _is_number(value: Any, fits: Callable[[float], bool]) -> bool:
    op = _owner(value)
    if op is None or op.name != _CONSTANT:
        return False
    array = elements(op, "value", tensor_type(value.type))
    return array.size == 1 and fits(float(array.reshape(())))
