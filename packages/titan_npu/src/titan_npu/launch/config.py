"""Config group ``launcher``: how many ranks, on which machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(kw_only=True, slots=True)
class Launcher:
    """How many processes train, and how they find each other."""

    nproc: int = 1
    """Processes (ranks) on this machine, each on an NPU of its own"""

    nnodes: int = 1
    """Machines; start the same command on each of them"""

    node_rank: int | None = None
    """Number of this machine, from 0. Backend static needs it; with c10d, machine 0 holds the rendezvous"""

    rdzv_backend: Literal["c10d", "static"] = "c10d"
    """How machines meet: c10d (ranks are numbered as machines arrive) or static (by node_rank)"""

    rdzv_endpoint: str | None = None
    """host:port of one of the machines, where all meet; needed with several machines"""

    rdzv_id: str | None = None
    """Name of the run, the same on all machines (default: none, the endpoint alone tells runs apart)"""

    max_restarts: int = 0
    """How often all ranks start again from the last checkpoint after one of them failed"""

    log_folder: str | None = None
    """Where each run makes its folder of log files, one a rank (default: logs in the dump folder)"""

    def __post_init__(self) -> None:
        for name, what, least in (
            ("nproc", "the number of ranks on this machine", 1),
            ("nnodes", "the number of machines", 1),
            ("max_restarts", "how often a failed run starts again", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {what}, at least {least}, not {getattr(self, name)}.")
        if self.node_rank is not None and not 0 <= self.node_rank < self.nnodes:
            raise ValueError(
                f"node_rank={self.node_rank} is no machine of nnodes={self.nnodes}: they count from 0."
            )
        if self.nnodes > 1:
            self._check_meeting()

    def _check_meeting(self) -> None:
        if self.rdzv_endpoint is None:
            raise ValueError(
                f"nnodes={self.nnodes} needs launcher.rdzv_endpoint=HOST:PORT, an address of one of the "
                "machines that all of them reach."
            )
        host, _, port = self.rdzv_endpoint.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"rdzv_endpoint={self.rdzv_endpoint} is not of the form HOST:PORT.")
        if self.rdzv_backend == "static" and self.node_rank is None:
            raise ValueError("rdzv_backend=static needs launcher.node_rank, the number of this machine.")

    @property
    def world_size(self) -> int:
        """All ranks of the run."""
        return self.nproc * self.nnodes
