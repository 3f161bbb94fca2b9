"""TorchTitan's validator, a subclass where packed documents, pipelines and DTensor losses need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.tensor import DTensor
from torchtitan.components.validate import Validator

from titan_npu.compat import pipelining
from titan_npu.parallel.context import Method
from titan_npu.parallel.inputs import shard_context


class NpuValidator(Validator):
    """Validator on any layout that NpuTrainer trains on."""

    @dataclass(kw_only=True, slots=True)
    class Config(Validator.Config):
        context_parallel: Method = "all_gather"
        """How context parallelism exchanges tokens; NpuTrainer sets it to its own"""

    config: Config

    def __init__(self, config: Config, **settings: Any) -> None:
        schedule = settings.pop("pp_schedule", None)
        loss_fn = settings.pop("loss_fn")
        super().__init__(
            config,
            loss_fn=LocalLoss(loss_fn),
            pp_schedule=EvaluatedSchedule(schedule) if schedule is not None else None,
            **settings,
        )

    def post_dataloading_process(
        self, input_dict: dict[str, torch.Tensor], labels: torch.Tensor, model_parts: list[nn.Module]
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        if not self.parallel_dims.cp_enabled:
            return super().post_dataloading_process(input_dict, labels, model_parts)
        return shard_context(
            input_dict, labels, self.parallel_dims, self.parallelism, self.config.context_parallel
        )


class LocalLoss:
    """A loss whose value is this rank's part as a plain tensor: TorchTitan clones it and adds parts up, and
    torch 2.13's clone of a partial DTensor has the sum over all ranks already."""

    def __init__(self, loss_fn: Any) -> None:
        self._loss_fn = loss_fn

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        loss, metrics = self._loss_fn(*args, **kwargs)
        return local_part(loss), metrics


class EvaluatedSchedule:
    """The ``eval`` that TorchTitan's validator calls, with microbatches, over a schedule of torch 2.13."""

    def __init__(self, schedule: _PipelineSchedule) -> None:
        self._schedule = schedule

    def eval(
        self,
        *,
        arg_mbs: list[tuple[Any, ...]] | None,
        kwarg_mbs: list[dict[str, Any]],
        target_mbs: list[Any] | None,
        losses: list[torch.Tensor] | None,
    ) -> None:
        """Forward only; ``losses`` is filled on the last stage."""
        pipelining.run_microbatches(
            self._schedule,
            arg_mbs=arg_mbs,
            kwarg_mbs=kwarg_mbs,
            target_mbs=target_mbs,
            losses=losses,
            backward=False,
        )
        if losses is not None:
            losses[:] = [local_part(loss) for loss in losses]


def local_part(loss: torch.Tensor) -> torch.Tensor:
    """This rank's part of a loss that is a partial DTensor; any other loss as it is."""
    return loss.to_local() if isinstance(loss, DTensor) else loss
