"""A pipeline schedule run on microbatches that are split already, for torch 2.13.

torchtitan 0.3.0 calls ``schedule.step(arg_mbs=..., kwarg_mbs=..., target_mbs=...)`` (torchtitan/trainer.py and
components/validate.py); torch 2.13's public ``step`` splits a whole batch itself and takes these names for
arguments of the model. What it does around its own ``_step_microbatches`` is done here. A forward alone leaves
out the backward actions of schedules with several stages a rank, where torch's ``eval`` runs into them: it stops
in V-shaped schedules ("can't steal_bwd_input if this stage doesn't have backward"). Remove this file when
the pinned torch takes them: tests/unit/titan_npu/test_compat.py fails then and says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from torch.distributed.pipelining.schedules import (
    FORWARD,
    OVERLAP_F_B,
    RECV_F,
    RESHARD,
    SEND_F,
    UNSHARD,
    PipelineScheduleSingle,
    _Action,
    _PipelineSchedule,
    _PipelineScheduleRuntime,
)


def needed() -> bool:
    """Whether the installed torch's schedules lack microbatch arguments."""
    return "arg_mbs" not in inspect.signature(PipelineScheduleSingle.step).parameters


def run_microbatches(
    schedule: _PipelineSchedule,
    *,
    arg_mbs: list[tuple[Any, ...]] | None,
    kwarg_mbs: list[dict[str, Any]],
    target_mbs: list[Any] | None,
    losses: list[Any] | None,
    loss_kwargs: dict[str, Any] | None = None,
    backward: bool = True,
) -> None:
    """One iteration of ``schedule``: ``arg_mbs`` on the first stage, ``target_mbs`` and ``losses`` (filled) on
    the last, None elsewhere; forward only without ``backward``."""
    stages = [schedule._stage] if isinstance(schedule, PipelineScheduleSingle) else schedule._stages
    before = schedule._has_backward
    schedule._has_backward = before and backward
    actions = None
    if not backward and isinstance(schedule, _PipelineScheduleRuntime):
        actions = schedule.pipeline_order_with_comms
        schedule.pipeline_order_with_comms = {
            rank: list(_forward_actions(theirs)) for rank, theirs in actions.items()
        }
    try:
        for stage in stages:
            stage.has_backward = schedule._has_backward
            stage.clear_runtime_states()
        schedule._step_microbatches(
            arg_mbs, kwarg_mbs, target_mbs, losses, return_outputs=False, loss_kwargs=loss_kwargs
        )
    finally:
        schedule._has_backward = before
        if actions is not None:
            schedule.pipeline_order_with_comms = actions


def _forward_actions(actions: Iterable[_Action]) -> Iterator[_Action]:
    for action in actions:
        if action.computation_type == OVERLAP_F_B:
            yield from _forward_actions(action.sub_actions or ())
        elif action.computation_type in (FORWARD, SEND_F, RECV_F, UNSHARD, RESHARD):
            yield action
