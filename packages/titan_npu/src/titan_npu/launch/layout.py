"""Do the ranks fit the NPUs and the parallel degrees? Asked before any rank starts."""

from __future__ import annotations

import math
import os

import torch
from torchtitan.config import ParallelismConfig

from titan_npu.errors import ConfigError
from titan_npu.launch.config import Launcher

DEGREES = (
    "data_parallel_replicate_degree",
    "data_parallel_shard_degree",
    "context_parallel_degree",
    "tensor_parallel_degree",
    "pipeline_parallel_degree",
)
"""Their product is the number of ranks; experts spread over ranks that these already count."""


def world_size(launcher: Launcher) -> int:
    """The ranks of this run: those of an outside launcher where this process is one of its ranks."""
    return int(os.environ.get("WORLD_SIZE", launcher.world_size))


def check_devices(launcher: Launcher, devices: int) -> None:
    """Raise ConfigError when this machine has fewer NPUs than ranks."""
    if launcher.nproc > devices:
        raise ConfigError(
            f"launcher.nproc={launcher.nproc} is more than the {devices} NPUs that CANN reports here: lower it "
            f"(the emulator has as many as NPU_EMULATOR_DEVICES says, 8 by default and at most 64)."
        )


def check_parallelism(parallelism: ParallelismConfig, ranks: int) -> None:
    """Raise ConfigError when the degrees do not multiply to ``ranks``, or the backend cannot shard."""
    degrees = {name: getattr(parallelism, name) for name in DEGREES}
    for name, degree in degrees.items():
        free = name == "data_parallel_shard_degree"
        if degree < 1 and not (free and degree == -1):
            raise ConfigError(
                f"parallelism.{name} is {degree}, and must be at least 1"
                + (", or -1 for all ranks that the others leave." if free else ".")
            )
    rest = math.prod(degree for degree in degrees.values() if degree != -1)
    free = degrees["data_parallel_shard_degree"] == -1
    if ranks % rest if free else rest != ranks:
        factors = " x ".join(f"{name} {degree}" for name, degree in degrees.items() if degree not in (1, -1))
        way_out = (
            "" if free else ", or parallelism.data_parallel_shard_degree=-1 to take what the others leave"
        )
        raise ConfigError(
            f"The parallel degrees ({factors or 'all 1'}) multiply to {rest}, which does not "
            f"{'divide' if free else 'equal'} the {_count(ranks)} of this run: change one of them, or "
            f"launcher.nproc{way_out}."
        )
    # TorchTitan's default hands FSDP plain parameters with annotations, which FSDP learns to read in torch
    # 2.14; earlier ones stop in the middle of building the model ("all parameters must be DTensors").
    sharded = ranks // degrees["pipeline_parallel_degree"] > 1
    if sharded and parallelism.spmd_backend == "spmd_types" and torch.__version__ < (2, 14):
        raise ConfigError(
            f"parallelism.spmd_backend=spmd_types shards on several ranks from torch 2.14 on, and this is torch "
            f"{torch.__version__}: set parallelism.spmd_backend=partial_dtensor (or full_dtensor)."
        )


def _count(ranks: int) -> str:
    return f"{ranks} rank{'s' if ranks > 1 else ''}"
