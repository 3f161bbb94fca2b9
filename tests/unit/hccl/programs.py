"""What one rank of the tests does: python programs.py PROGRAM RANKS STORE RANK."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32)
# Inside the group's memory, at its limit, beyond it, and odd numbers that no rank divides.
SIZES = (0, 1, 7, 1000, 4096, 5000, 300_001)


def same(actual: torch.Tensor, expected: torch.Tensor, what: object) -> None:
    """gloo works on float64 here, where the type is a short one: our sums are of float32, rounded once."""
    assert actual.dtype == expected.dtype, what
    tolerance = TOLERANCE.get(actual.dtype, 0)
    torch.testing.assert_close(
        actual.cpu().double(), expected.double(), rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}"
    )


def reduced(x: torch.Tensor, op: dist.ReduceOp) -> torch.Tensor:
    wide = x.double() if x.is_floating_point() else x.clone()
    dist.all_reduce(wide, op)
    return wide.to(x.dtype)


def collectives(rank: int, n: int, device: torch.device) -> None:
    for dtype in DTYPES:
        for size in SIZES:
            source = torch.Generator().manual_seed(1000 * rank + size)
            x = (torch.randn(size, generator=source) * 3).to(dtype)
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
                y = x.to(device)
                dist.all_reduce(y, op)
                same(y, reduced(x, op), ("all_reduce", op, dtype, size))
            gathered = [torch.empty_like(x) for _ in range(n)]
            dist.all_gather(gathered, x)
            everything = torch.cat(gathered)
            y = torch.empty(n * size, dtype=dtype, device=device)
            dist.all_gather_into_tensor(y, x.to(device))
            same(y, everything, ("all_gather", dtype, size))
            y = x.to(device)
            dist.broadcast(y, n - 1)
            same(y, gathered[n - 1], ("broadcast", dtype, size))
            y = torch.empty(size, dtype=dtype, device=device)
            dist.reduce_scatter_tensor(y, (everything + rank).to(device))
            total = reduced(everything + rank, dist.ReduceOp.SUM)
            same(y, total.view(n, size)[rank], ("reduce_scatter", dtype, size))
            parts = torch.cat([x + i for i in range(n)])
            expected, y = torch.empty_like(parts), torch.empty_like(parts, device=device)
            dist.all_to_all_single(expected, parts)
            dist.all_to_all_single(y, parts.to(device))
            same(y, expected, ("all_to_all", dtype, size))
            y = x.to(device)
            dist.reduce(y, 0)
            if rank == 0:
                same(y, reduced(x, dist.ReduceOp.SUM), ("reduce", dtype, size))
            else:
                reduced(x, dist.ReduceOp.SUM)
            y = torch.empty(size, dtype=dtype, device=device)
            pieces = [(x + i).to(device) for i in range(n)] if rank == 0 else None
            dist.scatter(y, pieces, src=0)
            same(y, gathered[0] + rank, ("scatter", dtype, size))


def uneven(rank: int, n: int, device: torch.device) -> None:
    sent = [(rank + 1) * peer * 700 for peer in range(n)]  # some of them nothing
    received = [(peer + 1) * rank * 700 for peer in range(n)]
    x = torch.randn(sum(sent))
    expected, y = torch.empty(sum(received)), torch.empty(sum(received), device=device)
    dist.all_to_all_single(expected, x, received, sent)
    dist.all_to_all_single(y, x.to(device), received, sent)
    same(y, expected, "all_to_all_single")
    mine = torch.full((100 * (rank + 1),), float(rank))
    got = [torch.empty(100 * (peer + 1), device=device) for peer in range(n)]
    dist.all_gather(got, mine.to(device))
    for peer, part in enumerate(got):
        same(part, torch.full((100 * (peer + 1),), float(peer)), "all_gather")


def messages(rank: int, n: int, device: torch.device) -> None:
    after, before = (rank + 1) % n, (rank - 1) % n
    for size in (0, 3, 1024, 100_000):
        x = torch.arange(size, dtype=torch.float32) + rank
        y = torch.full((size,), -1.0, device=device)
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, x.to(device), after), dist.P2POp(dist.irecv, y, before)]
        ):
            work.wait()
        same(y, x - rank + before, ("ring", size))
        if n == 2:  # both send first: nobody receives until the sends went on
            y = torch.full((size,), -1.0, device=device)
            sending = dist.isend(x.to(device), after)
            dist.irecv(y, before).wait()
            sending.wait()
            same(y, x - rank + before, ("both send", size))
    if rank == 0:  # many in a row, more than there are places for
        for i in range(30):
            dist.send(torch.full((2000,), float(i), device=device), 1)
    elif rank == 1:
        for i in range(30):
            y = torch.empty(2000, device=device)
            dist.recv(y, 0)
            same(y, torch.full((2000,), float(i)), ("row", i))


def groups(rank: int, n: int, device: torch.device) -> None:
    objects: list[object] = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": peer} for peer in range(n)]
    even = dist.new_group(list(range(0, n, 2)))
    if rank % 2 == 0:
        x = torch.ones(10, device=device)
        dist.all_reduce(x, group=even)
        same(x, torch.full((10,), float((n + 1) // 2)), "group")
    # Two groups of all ranks, used in opposite orders on streams of their own.
    first, second = dist.new_group(), dist.new_group()
    for group in (first, second):  # the first use makes the communicator, which is collective
        dist.all_reduce(torch.ones(1, device=device), group=group)
    order = (first, second) if rank % 2 == 0 else (second, first)
    values = [torch.full((50_000,), float(rank), device=device) for _ in order]
    works = [dist.all_reduce(x, group=g, async_op=True) for x, g in zip(values, order, strict=True)]
    for work in works:
        work.wait()
    for x in values:
        same(x, torch.full((50_000,), n * (n - 1) / 2), "orders")
    dist.barrier()


def cycles(rank: int, n: int, device: torch.device) -> None:
    """Communicators leave nothing behind."""

    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))

    def once() -> None:
        group = dist.new_group(backend="hccl")
        x = torch.ones(10_000, device=device)
        dist.all_reduce(x, group=group)
        torch.npu.synchronize()
        dist.destroy_process_group(group)

    for _ in range(5):
        once()
    before = held()
    for _ in range(20):
        once()
    after = held()
    assert after[0] <= before[0] + 2 and after[1] <= before[1] + 2, (before, after)


def killed(rank: int, n: int, device: torch.device) -> None:
    x = torch.ones(1_000_000, device=device)
    for step in range(10_000):
        if rank == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(x)
            torch.npu.synchronize()
        except RuntimeError as error:
            print(error, flush=True)
            os._exit(7)


def late(rank: int, n: int, device: torch.device) -> None:
    x = torch.ones(10, device=device)
    dist.all_reduce(x)
    torch.npu.synchronize()
    if rank == 1:
        dist.monitored_barrier(dist.new_group(backend="gloo"))  # never reached by the others
    dist.new_group(backend="gloo")
    try:
        dist.all_reduce(x)
        torch.npu.synchronize()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(7)


def different(rank: int, n: int, device: torch.device) -> None:
    x = torch.ones(10 if rank == 0 else 11, device=device)
    try:
        dist.all_reduce(x)
        torch.npu.synchronize()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(7)


def main() -> None:
    program, n, store, rank = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    torch.npu.set_device(rank)
    dist.init_process_group("cpu:gloo,npu:hccl", init_method=f"file://{store}", rank=rank, world_size=n)
    globals()[program](rank, n, torch.device("npu", rank))
    torch.npu.synchronize()
    dist.destroy_process_group()
    print("done")


if __name__ == "__main__":
    main()
