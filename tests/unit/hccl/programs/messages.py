"""Messages between two ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .distributed import distributed, same


@distributed
def ring(rank: int, n: int, device: torch.device) -> None:
    """Every rank sends to the next one: batched, and one by one with the even ranks first."""
    after, before = (rank + 1) % n, (rank - 1) % n
    for size, dtype in (
        (0, torch.float32),
        (3, torch.bfloat16),
        (1024, torch.int64),
        (100_000, torch.float32),
    ):
        x = (torch.arange(size) % 100 + rank).to(dtype)
        expected = (torch.arange(size) % 100 + before).to(dtype)
        y = torch.full((size,), -1, dtype=dtype, device=device)
        operations = [dist.P2POp(dist.isend, x.to(device), after), dist.P2POp(dist.irecv, y, before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        same(y, expected, ("batch", size))
        y = torch.full((size,), -1, dtype=dtype, device=device)
        if rank % 2 == 0:
            dist.send(x.to(device), after)
            dist.recv(y, before)
        else:
            dist.recv(y, before)
            dist.send(x.to(device), after)
        same(y, expected, ("one by one", size))


@distributed
def both_first(rank: int, n: int, device: torch.device) -> None:
    """Both of two ranks send first, 64 MiB too: nobody receives until the sends went on."""
    for size in (0, 3, 1024, 100_000, 16 << 20):
        y = torch.full((size,), -1.0, device=device)
        sending = dist.isend(torch.full((size,), float(rank), device=device), 1 - rank)
        dist.irecv(y, 1 - rank).wait()
        sending.wait()
        same(y, torch.full((size,), 1.0 - rank), ("both send", size))


@distributed
def many(rank: int, n: int, device: torch.device) -> None:
    """More in a row than there are places for, with a receiver that comes late."""
    if rank == 0:
        for i in range(30):
            dist.send(torch.full((2000,), float(i), device=device), 1)
    elif rank == 1:
        torch.npu.synchronize()
        for i in range(30):
            y = torch.empty(2000, device=device)
            dist.recv(y, 0)
            same(y, torch.full((2000,), float(i)), ("row", i))


@distributed
def everyone(rank: int, n: int, device: torch.device) -> None:
    """One batch: each rank sends to and receives from every other one, two of each, of different sizes."""
    sizes = (5, 3000)
    operations, received = [], []
    for peer in (p for p in range(n) if p != rank):
        for size in sizes:
            out = torch.full((size,), float(100 * rank + peer + size), device=device)
            received.append((peer, size, torch.empty(size, device=device)))
            operations += [
                dist.P2POp(dist.isend, out, peer),
                dist.P2POp(dist.irecv, received[-1][2], peer),
            ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for peer, size, y in received:
        same(y, torch.full((size,), float(100 * peer + rank + size)), ("everyone", peer, size))
