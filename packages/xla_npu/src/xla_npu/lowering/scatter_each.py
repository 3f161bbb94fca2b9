"""A scatter whose updates may meet and whose combiner no operator of CANN's is: a loop over the updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_common.graph import Graph, Value
from xla_npu.lowering import arrays
from xla_npu.lowering.context import Context, captured
from xla_npu.lowering.helpers import broadcast_to, sizes


def one_by_one(
    ctx: Context,
    op: Any,
    rows: Sequence[Value],
    places: Value,
    valid: Value | None,
    changes: Sequence[Value],
) -> list[Value]:
    """The rows [count, width] after every update [number, width], in order.

    Args:
        places: int[number], the row of each update where `valid` (bool[number]; None: all are).
    """
    captures = captured(op.regions)
    count = sizes(places)[0]
    known = ctx.constant(np.ones(count, np.bool_)) if valid is None else valid
    outer = ctx.captured_values(captures)
    state = [ctx.constant(np.zeros((), np.int32)), *rows, places, known, *changes, *outer]
    name = f"each_{len(ctx.builder.graph.nodes)}_{ctx.builder.graph.name}"[:120]
    condition, arguments = _start(ctx, f"{name}_condition", state)
    condition.builder.output(condition.add("Less", arguments[0], np.array(count, np.int32)))
    body, arguments = _start(ctx, name, state)
    for capture in captures:
        constant = getattr(ctx.values[capture], "constant", None)
        if constant is not None:
            body.values[capture] = body.constant(constant)
    passed = [v for v in captures if v not in body.values]
    body.values.update(zip(passed, arguments[len(arguments) - len(outer) :], strict=True))
    _turn(body, op.regions[0].blocks[0], arguments, len(rows))
    graphs: list[Graph] = [condition.builder.graph, body.builder.graph]
    return ctx.add_many("While", state, subgraphs=graphs)[1 : 1 + len(rows)]


def _start(ctx: Context, name: str, state: Sequence[Value]) -> tuple[Context, list[Value]]:
    inner = Context(name, ctx.functions)
    return inner, [
        inner.builder.input(f"state{index}", value.dtype, value.shape) for index, value in enumerate(state)
    ]


def _turn(ctx: Context, block: Any, state: list[Value], count: int) -> None:
    """One update. What is not valid writes back what row 0 holds."""
    counter, rows, places, valid = state[0], state[1 : 1 + count], state[1 + count], state[2 + count]
    changes = state[3 + count : 3 + 2 * count]
    this = arrays.reshape(ctx, counter, (1,))
    fits = ctx.add("GatherV2", valid, this, 0)
    place = ctx.add("GatherV2", places, this, 0)
    place = ctx.add("SelectV2", fits, place, np.zeros((), place.dtype))
    current = [ctx.add("GatherV2", row, place, 0) for row in rows]
    combined = ctx.lower_block(block, [*current, *(ctx.add("GatherV2", each, this, 0) for each in changes)])
    ctx.builder.output(ctx.add("Add", counter, np.array(1, np.int32)))
    for row, old, new in zip(rows, current, combined, strict=True):
        assert new is not None
        kept = ctx.add("SelectV2", arrays.reshape(ctx, fits, (1, 1)), broadcast_to(ctx, new, sizes(old)), old)
        ctx.builder.output(ctx.add("TensorScatterUpdate", row, arrays.reshape(ctx, place, (1, 1)), kept))
    for value in state[1 + count :]:
        ctx.builder.output(value)
