"""Loops and branches: the graph engine's While, If and Case, whose bodies are graphs of their own.

A body reads values of around it: they become inputs of the operator (of While: states that go round unchanged), but
constants are made again inside. Loops and branches that hold host work never come here: they are steps of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npu_common.graph import Graph, Value
from xla_npu.errors import Unsupported
from xla_npu.lowering.context import Context, captured
from xla_npu.lowering.counted import Counter, counter, drop_clamps
from xla_npu.lowering.in_place import update_in_place
from xla_npu.lowering.registry import lowers
from xla_npu.types import is_token

# A loop of known length is written out up to this many nodes: layers of a scan, not steps of a simulation.
_UNROLLED_NODES = 8000


@lowers("stablehlo.while")
def while_(ctx: Context, op: Any, *operands: Value | None) -> list[Value | None]:
    condition, body = (region.blocks[0] for region in op.regions)
    captures = captured(op.regions)
    state = [value for value in operands if value is not None]
    graphs = [
        ctx.subgraph("condition", condition, captures),
        ctx.subgraph("body", body, captures, pass_through=True),
    ]
    _scalar(graphs[0].outputs[0], "the condition of a loop")
    if (known := counter(state, *graphs)) is not None:
        if len(known.values) * _size(graphs[1]) <= _UNROLLED_NODES:
            return _unrolled(ctx, op, operands, known)
        drop_clamps(graphs[1], known)
    update_in_place(graphs[1], len(state))
    results = ctx.add_many("While", [*state, *ctx.captured_values(captures)], subgraphs=graphs)
    return _with_tokens(op, results)


def _unrolled(ctx: Context, op: Any, operands: Sequence[Value | None], known: Counter) -> list[Value | None]:
    """The turns one after the other. The counter is a constant in each, and so are the places that it selects."""
    body = op.regions[1].blocks[0]
    place = [index for index, value in enumerate(operands) if value is not None][known.state]
    values, counted = list(operands), operands[place]
    assert counted is not None
    for number in (*known.values, known.values.start + len(known.values) * known.step):
        values[place] = ctx.constant(np.array(number, counted.dtype))
        if number in known.values:
            values = ctx.lower_block(body, values)
    return values


def _size(graph: Graph) -> int:
    return sum(len(each.nodes) for each in graph.walk())


@lowers("stablehlo.if")
def if_(ctx: Context, op: Any, predicate: Value) -> list[Value | None]:
    known = _scalar(predicate, "the predicate of a branch").constant
    if known is not None:
        return _inlined(ctx, op, 0 if bool(known) else 1)
    return _branch(ctx, op, "If", predicate)


@lowers("stablehlo.case")
def case(ctx: Context, op: Any, index: Value) -> list[Value | None]:
    last = len(op.regions) - 1
    known = _scalar(index, "the index of a branch").constant
    if known is not None or last == 0:
        wanted = last if known is None else int(known)
        return _inlined(ctx, op, wanted if 0 <= wanted < last else last)
    # Out of range takes the last branch, in Case as in StableHLO.
    return _branch(ctx, op, "Case", index)


def _branch(ctx: Context, op: Any, type: str, which: Value) -> list[Value | None]:
    captures = captured(op.regions)
    graphs: Sequence[Graph] = [ctx.subgraph("branch", region.blocks[0], captures) for region in op.regions]
    if not graphs[0].outputs:
        return [None] * len(op.results)
    return _with_tokens(op, ctx.add_many(type, which, ctx.captured_values(captures), subgraphs=list(graphs)))


def _inlined(ctx: Context, op: Any, index: int) -> list[Value | None]:
    return ctx.lower_block(op.regions[index].blocks[0], [])


def _scalar(value: Value, what: str) -> Value:
    if value.shape != ():
        raise Unsupported(f"{what} must be one value on npu, not an array: use select (jnp.where)")
    return value


def _with_tokens(op: Any, values: Sequence[Value]) -> list[Value | None]:
    """A value for each result, None in the places of tokens; values beyond the results are dropped."""
    given: Iterator[Value] = iter(values)
    return [None if is_token(result.type) else next(given) for result in op.results]
