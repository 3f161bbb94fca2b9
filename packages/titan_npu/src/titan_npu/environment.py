"""The process's environment variables, settled while one thread runs.

The C library's getenv on one thread crashes when another thread adds a variable at that moment: the array of
variables moves. torch_npu reads its variables from the thread of its queue at the first operator, just when
TorchTitan's ``set_determinism`` adds its own. A variable that is there already changes its value in place.
"""

from __future__ import annotations

import os
import socket

from torchtitan.trainer import Trainer


def settle(config: Trainer.Config) -> None:
    """Add every variable that a run of ``config`` will set. Call it before the first tensor on an NPU.

    Values that the user gave stay, as far as TorchTitan does not overwrite them.
    """
    if "RANK" not in os.environ and "WORLD_SIZE" not in os.environ:
        _single_process_rendezvous()
    # set_determinism gives both their final values.
    os.environ.setdefault("PYTHONHASHSEED", "random")
    if config.debug.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if getattr(config.dataloader, "num_workers", 0):
        # The tokenizer's own threads do not survive the fork into the workers.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _single_process_rendezvous() -> None:
    """The variables of a single rank, for a process that no launcher started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(
        RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
