"""The random number generators as a part of the checkpoint."""

from __future__ import annotations

import ast
import random
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.stateful import Stateful


class RngState(Stateful):
    """Torch's generators of the CPU and of the current NPU, and Python's: per rank.

    state_dict holds, under ``rank_<r>``, uint8 CPU tensors "cpu" and "npu" and Python's state as a string
    "python".
    """

    def __init__(self, rank: int) -> None:
        self._key = f"rank_{rank}"

    def state_dict(self) -> dict[str, Any]:
        return {
            self._key: {
                "cpu": torch.get_rng_state(),
                "npu": torch.npu.get_rng_state(),
                "python": repr(random.getstate()),
            }
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = state_dict[self._key]
        torch.set_rng_state(state["cpu"])
        torch.npu.set_rng_state(state["npu"])
        random.setstate(ast.literal_eval(state["python"]))


def ranks_with_generators(checkpoint: Path, key: str) -> int:
    """How many ranks left their generators in a checkpoint where RngState is saved under ``key``."""
    names = FileSystemReader(checkpoint).read_metadata().state_dict_metadata
    return len({name.split(".")[1] for name in names if name.startswith(f"{key}.rank_")})
