"""TorchTitan's checkpoint manager with generators, saves on demand and clear words about damage."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.checkpointer.base import DATALOADER
from torchtitan.tools import filesystem

from titan_npu.checkpoint.integrity import damage, last_good_step
from titan_npu.checkpoint.rng import RngState, ranks_with_generators
from titan_npu.errors import CheckpointError, TitanNpuError

logger = logging.getLogger("titan_npu")

RNG = "rng"


class NpuCheckpointManager(CheckpointManager):
    """CheckpointManager that also saves the random number generators, so that a resumed run is the same run.

    Raises CheckpointError on load: a damaged file (named, with the last good step), or a checkpoint of
    another run.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(CheckpointManager.Config):
        def __post_init__(self) -> None:
            CheckpointManager.Config.__post_init__(self)
            if self.async_mode == "async_with_pinned_mem":
                raise ValueError(
                    "async_mode=async_with_pinned_mem pins memory through CUDA: use async or disabled."
                )

    def __init__(self, config: Config, *, states: dict[str, Any], **kwargs: Any) -> None:
        self.last_saved_step: int | None = None
        self._place: Path | None = None
        self._on_demand = False
        super().__init__(config, states={**states, RNG: RngState(dist.get_rank())}, **kwargs)

    def save_now(self, step: int) -> bool:
        """Leave a checkpoint of ``step`` from which training continues, whatever the interval; wait until it
        is whole.

        Returns whether there is one (False: checkpoints are off, or load_only).
        """
        if not self.enable or self.load_only:
            return False
        if self.last_saved_step != step:
            self._on_demand = True
            try:
                self.save(step)
            finally:
                self._on_demand = False
        self.maybe_wait_for_saving()
        return True

    def path(self, step: int) -> str:
        return str(self._create_checkpoint_id(step))

    def _should_save(self, curr_step: int, last_step: bool = False) -> bool:
        return self._on_demand or bool(super()._should_save(curr_step, last_step))

    def _save(self, curr_step: int, last_step: bool = False) -> bool:
        saved = bool(super()._save(curr_step, last_step))
        if saved and not (last_step and self.last_save_model_only):
            self.last_saved_step = curr_step
        return saved

    def _load(self, step: int = -1) -> bool:
        place = self._place = self._checkpoint_to_load(step)
        if place is not None:
            self._check_whole(place)
        try:
            return bool(super()._load(step))
        except TitanNpuError:
            raise
        except FileNotFoundError as error:
            raise CheckpointError(f"{error}.") from error
        except (Exception, CheckpointException) as error:  # DCP's is no Exception
            reason = reason_of(error)
            if f"Missing key in checkpoint state_dict: {DATALOADER}." in reason:
                raise CheckpointError(
                    f"The data loader of the checkpoint {place or self.folder} shared out its data in another "
                    "way: set dataloader.deal back (deal=documents: the data-parallel degree too), or start "
                    "the data again with checkpoint.exclude_from_loading=[dataloader]."
                ) from error
            raise CheckpointError(
                f"The checkpoint {place or self.folder} cannot be loaded: {reason}. It may "
                f"belong to another "
                "recipe or be damaged: choose another dump_folder to start afresh, or another "
                "checkpoint.load_step."
            ) from error

    def _states_to_load(self, model_only: bool) -> dict[str, Any]:
        states: dict[str, Any] = super()._states_to_load(model_only)
        if RNG in states and self._place is not None:
            saved, now = ranks_with_generators(self._place, RNG), dist.get_world_size()
            if saved != now:
                # A rank's generator belongs to its place in the layout; some of them alone would agree with
                # neither run.
                del states[RNG]
                if dist.get_rank() == 0:
                    logger.warning(
                        "The checkpoint %s was written by %d ranks and is read by %d: the random number "
                        "generators start from debug.seed again.", self._place, saved, now,
                    )  # fmt: skip
        return states

    def _checkpoint_to_load(self, step: int) -> Path | None:
        """The local checkpoint folder that a load of ``step`` reads; None when there is none, or it is
        remote."""
        if filesystem.is_remote(self.folder):
            return None
        found = self._find_load_step() if step == -1 else step
        return Path(self.path(found)) if found != -1 and Path(self.path(found)).is_dir() else None

    def _check_whole(self, place: Path) -> None:
        problem = damage(place)
        if problem is None or (place / "model.safetensors.index.json").is_file():
            return
        good = last_good_step(place.parent, below=int(place.name.removeprefix("step-")))
        way_out = (
            f"the last good checkpoint is step-{good}: delete {place}, or continue with "
            f"checkpoint.load_step={good}"
            if good is not None
            else f"there is no earlier whole checkpoint: delete {place} to start afresh"
        )
        raise CheckpointError(f"The checkpoint {place.name} is damaged: {problem}; {way_out}.")


def reason_of(error: BaseException) -> str:
    """The first line of the innermost cause: DCP wraps the real error in a report of all ranks."""
    failures = getattr(error, "failures", None)
    if failures:
        error = next(iter(failures.values()))
        error = error[0] if isinstance(error, tuple) else error
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
