"""Loops that count: within the body the counter's range is known, and so that clamping an index of it does nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npu_common.graph import Graph, Value


@dataclass(frozen=True, slots=True)
class Counter:
    """State number `state` is first, first + step, ... and at most `last` whenever the body runs."""

    state: int
    first: int
    last: int
    step: int

    @property
    def values(self) -> range:
        """What the counter is in each turn."""
        return range(self.first, self.last + 1, self.step)


def counter(initial: Sequence[Value], condition: Graph, body: Graph) -> Counter | None:
    """The counter of a loop `while i < n` that starts at a constant and adds a positive constant, else None."""
    compared = condition.outputs[0].node
    if compared.type != "Less" or compared.inputs[0] not in condition.inputs:
        return None
    state = condition.inputs.index(compared.inputs[0])
    if state >= len(initial):
        return None
    first, limit = _number(initial[state]), _number(compared.inputs[1])
    step = _step(body.inputs[state], body.outputs[state])
    if first is None or limit is None or step is None or step <= 0:
        return None
    if limit - 1 + step > np.iinfo(initial[state].dtype).max:
        return None  # it would start again from below
    return Counter(state, first, limit - 1, step)


def drop_clamps(body: Graph, known: Counter) -> None:
    """Replaces what holds the counter within bounds that it never leaves."""
    value = body.inputs[known.state]
    changed = True
    while changed:
        changed = False
        for node in value.users:
            if node.type not in ("Minimum", "Maximum") or node.output.shape != ():
                continue
            others = [other for other in node.inputs if other is not value]
            bound = _number(others[0]) if len(others) == 1 else None
            if bound is None or not (bound >= known.last if node.type == "Minimum" else bound <= known.first):
                continue
            changed = bool(node.output.replace_uses(value)) or changed


def _number(value: Value | None) -> int | None:
    """The value of an integer constant."""
    array = None if value is None else value.constant
    return (
        int(array.reshape(())) if array is not None and array.size == 1 and array.dtype.kind == "i" else None
    )


def _step(before: Value, after: Value) -> int | None:
    node = after.node
    if node.type != "Add" or before not in node.inputs:
        return None
    others = [value for value in node.inputs if value is not before]
    return _number(others[0]) if len(others) == 1 else None
