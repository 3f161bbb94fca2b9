"""Communicators leave nothing behind: memory, file descriptors, threads."""

from __future__ import annotations

from ctypes import c_uint64
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from ..launcher import Place
from ..library import TYPES
from .distributed import distributed
from .failures import by_root_info, library

MiB = 1 << 20


@dataclass
class Held:
    descriptors: int
    threads: int
    resident: int  # bytes

    @classmethod
    def now(cls) -> Held:
        status = Path("/proc/self/status").read_text()
        resident = int(status.split("VmRSS:")[1].split()[0]) * 1024
        return cls(
            len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir())), resident
        )

    def check(self, before: Held, memory: int, slack: int = 0) -> None:
        """Fails where more is held than before; `slack`: descriptors and threads that come and go."""
        assert self.descriptors <= before.descriptors + slack, (before, self)
        assert self.threads <= before.threads + slack, (before, self)
        assert self.resident <= before.resident + memory, (before, self)


def library_cycles(place: Place) -> None:
    """200 communicators, one after another, each of which is used; the root information travels by the first one."""
    hccl = library()
    first = by_root_info(place)
    size, fp32 = c_uint64(50_000), TYPES[np.dtype("float32")]
    x = first.upload(np.ones(50_000, np.float32))

    def once() -> None:
        info = hccl.root_info() if place.rank == 0 else None
        carried = first.upload(np.frombuffer(bytes(info) if info else bytes(4108), np.int8))
        first.call("HcclBroadcast", carried.pointer, c_uint64(4108), TYPES[np.dtype("int8")], 0)
        root = bytes(first.download(carried))
        rank = hccl.rank(
            place.rank, lambda comm: hccl.call("HcclCommInitRootInfo", place.n, root, place.rank, comm)
        )
        rank.call("HcclAllReduce", x.pointer, x.pointer, size, fp32, 2)
        rank.synchronize()
        rank.destroy()

    for _ in range(20):
        once()
    before = Held.now()
    for _ in range(200):
        once()
    Held.now().check(before, 2 * MiB)
    first.destroy()
    print("done")


@distributed
def torch_cycles(rank: int, n: int, device: torch.device) -> None:
    """The same through process groups, which have streams and threads of their own."""

    def once() -> None:
        group = dist.new_group(backend="hccl")
        x = torch.ones(10_000, device=device)
        dist.all_reduce(x, group=group)
        torch.npu.synchronize()
        dist.destroy_process_group(group)

    for _ in range(5):
        once()
    before = Held.now()
    for _ in range(40):
        once()
    Held.now().check(before, 16 * MiB, slack=5)  # threads of a group's watchdog end a little later
