"""Collectives of float32: torch.distributed's hccl on the NPU against gloo on CPU tensors, in the same ranks."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

WORLDS = (2, 4)
SIZES = tuple(4**power * 1024 for power in range(10))  # 1 KiB to 256 MiB
ROUNDS = 5
COLLECTIVES = ("all_reduce", "all_gather_into_tensor", "all_to_all_single")


@dataclass(frozen=True)
class Case:
    """One collective. `size`: bytes of the tensor that each rank brings (its input)."""

    collective: str
    world: int
    size: int

    @property
    def goal(self) -> float | None:
        """The ratio ours / gloo's that must not be exceeded."""
        if self.size <= 16 << 10:
            return 1.5
        if self.size < 1 << 20:
            return None
        return 1.0 if self.size < 64 << 20 else 0.5

    @property
    def repetitions(self) -> int:
        """Calls in one round: enough to time small ones, few of the large ones."""
        return max(1, min(100, (16 << 20) // self.size))

    @property
    def moved(self) -> int:
        """Bytes that a rank has to take from its peers, with whichever algorithm."""
        others = self.world - 1
        if self.collective == "all_gather_into_tensor":
            return self.size * others
        return self.size * others // self.world * (2 if self.collective == "all_reduce" else 1)


@dataclass(frozen=True)
class Timing:
    """Seconds per call in each round, of the slowest rank."""

    case: Case
    ours: list[float]
    peer: list[float]

    @property
    def ratio(self) -> float:
        """Median of the rounds' own ratios."""
        return statistics.median(a / b for a, b in zip(self.ours, self.peer, strict=True))

    @property
    def missed(self) -> bool:
        return self.case.goal is not None and self.ratio > self.case.goal


def _collective(case: Case, device: str, rank: int) -> tuple[Callable[[], None], Any, Any]:
    """A function that does one call and waits for it, the tensor it reads and the one it writes."""
    import torch
    import torch.distributed as dist

    elements = case.size // 4
    x = (torch.arange(elements, dtype=torch.float32) % 1021 + rank).to(device)
    y = x
    if case.collective != "all_reduce":
        factor = case.world if case.collective == "all_gather_into_tensor" else 1
        y = torch.empty(elements * factor, device=device)
    function = getattr(dist, case.collective)
    arguments = (x,) if y is x else (y, x)
    wait = torch.npu.synchronize if device == "npu" else lambda: None

    def work() -> None:
        function(*arguments)
        wait()

    return work, x, y


def _time(case: Case, rank: int, rounds: int) -> Timing:
    import torch
    import torch.distributed as dist

    sides = [_collective(case, device, rank) for device in ("npu", "cpu")]
    for work, _, _ in sides:
        work()
    (_, _, ours), (_, _, peers) = sides
    if not torch.equal(ours.cpu(), peers):  # sums of small whole numbers: exact in any order
        raise RuntimeError(f"{case}: hccl and gloo differ on rank {rank}")
    for _, x, _ in sides:
        x.zero_()  # what all_reduce sums again and again
    times: list[list[float]] = [[], []]
    for _ in range(rounds + 1):  # the first one is left out
        for side, (work, _, _) in zip(times, sides, strict=True):
            dist.all_reduce(torch.zeros(1))  # start together
            start = time.perf_counter()
            for _ in range(case.repetitions):
                work()
            mine = torch.tensor([(time.perf_counter() - start) / case.repetitions], dtype=torch.float64)
            dist.all_reduce(mine, dist.ReduceOp.MAX)
            side.append(mine.item())
    return Timing(case, times[0][1:], times[1][1:])


def _rank(
    rank: int, world: int, store: str, cases: list[Case], rounds: int, cores: list[int], wire: Any
) -> None:
    os.sched_setaffinity(0, cores)
    warnings.simplefilter("ignore", FutureWarning)  # of all_gather_into_tensor, deprecated by torch 2.13
    import torch
    import torch.distributed as dist
    import torch_npu  # noqa: F401

    dist.init_process_group("cpu:gloo,npu:hccl", init_method=f"file://{store}", rank=rank, world_size=world)
    for case in cases:
        timing = _time(case, rank, rounds)
        torch.npu.empty_cache()
        if rank == 0:
            wire.send(timing)
    dist.destroy_process_group()


def measure(cases: list[Case], cores: list[int], rounds: int = ROUNDS) -> Iterator[Timing]:
    """Time cases of one world size. Raises EOFError when a rank dies (its traceback is on stderr)."""
    context = multiprocessing.get_context("spawn")
    os.environ["OMP_NUM_THREADS"] = "1"  # as torchrun starts ranks
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    here, there = context.Pipe()
    world = cases[0].world
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            context.Process(
                target=_rank,
                args=(rank, world, f"{folder}/store", cases, rounds, cores, there if rank == 0 else None),
                daemon=True,
            )
            for rank in range(world)
        ]
        for rank in ranks:
            rank.start()
        there.close()
        try:
            for _ in cases:
                yield here.recv()
            for rank in ranks:
                rank.join()
        finally:
            for rank in ranks:
                rank.kill()


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def run(cores: list[int]) -> bool:
    """Print the table; true when a ratio is beyond its goal."""
    print(
        f"collectives of float32; size: the tensor that each rank brings; medians of {ROUNDS} rounds; "
        "GB/s: what a rank takes from its peers"
    )
    beyond = False
    for world in WORLDS:
        cases = [Case(collective, world, size) for collective in COLLECTIVES for size in SIZES]
        for timing in measure(cases, cores):
            case = timing.case
            ours, peer = statistics.median(timing.ours), statistics.median(timing.peer)
            beyond |= timing.missed
            print(
                f"{case.world} ranks  {case.collective:<23}{_bytes(case.size):>8}   "
                f"hccl {ours * 1e6:10.0f} us {case.moved / ours / 1e9:6.2f} GB/s   "
                f"gloo {peer * 1e6:10.0f} us {case.moved / peer / 1e9:6.2f} GB/s   ratio {timing.ratio:5.2f}"
                f"{'' if case.goal is None else f' (goal {case.goal:.2f})'}"
                f"{'  BEYOND THE GOAL' if timing.missed else ''}",
                flush=True,
            )
    return beyond
