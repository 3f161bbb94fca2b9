"""Objects, parts of the world, and functional collectives."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from .distributed import distributed, same


@distributed
def objects(rank: int, n: int, device: torch.device) -> None:
    """Pickled on the device, since HCCL is asked: the group has no other backend for these."""
    group = dist.new_group(backend="hccl")
    mine = {"rank": rank, "text": "x" * (10 + 1000 * rank)}
    theirs = [{"rank": peer, "text": "x" * (10 + 1000 * peer)} for peer in range(n)]
    gathered: list[object] = [None] * n
    dist.all_gather_object(gathered, mine, group=group)
    assert gathered == theirs
    sent = [mine, rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, src=0, group=group, device=device)
    assert sent == [theirs[0], 0]
    received: list[object] = [None]
    dist.scatter_object_list(received, theirs if rank == 0 else None, src=0, group=group)
    assert received == [theirs[rank]]
    collected: list[object] | None = [None] * n if rank == 0 else None
    dist.gather_object(mine, collected, dst=0, group=group)
    assert collected == (theirs if rank == 0 else None)


@distributed
def parts(rank: int, n: int, device: torch.device) -> None:
    even = dist.new_group(list(range(0, n, 2)))
    if rank % 2 == 0:
        x = torch.ones(10, device=device)
        dist.all_reduce(x, group=even)
        same(x, torch.full((10,), float((n + 1) // 2)), "even ranks")
    last_two = dist.new_group([n - 2, n - 1])
    if rank >= n - 2:
        x = torch.full((5,), float(rank), device=device)
        dist.broadcast(x, src=n - 1, group=last_two)
        same(x, torch.full((5,), n - 1.0), "the last two")
    dist.barrier()


@distributed
def opposite_orders(rank: int, n: int, device: torch.device) -> None:
    """Two groups of all ranks, used in opposite orders on streams of their own."""
    first, second = dist.new_group(), dist.new_group()
    for group in (first, second):  # the first use makes the communicator, which is collective
        dist.all_reduce(torch.ones(1, device=device), group=group)
    for _ in range(5):
        order = (first, second) if rank % 2 == 0 else (second, first)
        values = [torch.full((50_000,), float(rank), device=device) for _ in order]
        works = [dist.all_reduce(x, group=g, async_op=True) for x, g in zip(values, order, strict=True)]
        for work in works:
            work.wait()
        for x in values:
            same(x, torch.full((50_000,), n * (n - 1) / 2), "orders")


@distributed
def functional_collectives(rank: int, n: int, device: torch.device) -> None:
    group = dist.group.WORLD
    x = torch.arange(6, dtype=torch.float32) + rank
    total = n * torch.arange(6, dtype=torch.float32) + n * (n - 1) / 2
    y = x.to(device)
    same(functional.all_reduce(y, "sum", group), total, "all_reduce")
    same(functional.all_reduce(y, "avg", group), total / n, "avg")
    everyone = torch.cat([x - rank + peer for peer in range(n)])
    same(functional.all_gather_tensor(y, 0, group), everyone, "all_gather_tensor")
    whole = torch.cat([y + i for i in range(n)])
    same(functional.reduce_scatter_tensor(whole, "sum", 0, group), total + n * rank, "reduce_scatter_tensor")
    same(functional.broadcast(y, n - 1, group), x - rank + n - 1, "broadcast")
    swapped = functional.all_to_all_single(whole, None, None, group)
    same(swapped, torch.cat([x - rank + peer + rank for peer in range(n)]), "all_to_all_single")
    several = functional.all_reduce_coalesced([y, 2 * y], "sum", group)
    same([t + 0 for t in several], [total, 2 * total], "all_reduce_coalesced")
    same(y, x, "the input")


@distributed
def coalesced(rank: int, n: int, device: torch.device) -> None:
    """HcclGroupStart and HcclGroupEnd, around collectives of one kind and of another."""
    xs = [torch.full((size,), float(rank), device=device) for size in (3, 5000, 30_000)]
    with dist._coalescing_manager(device=device):
        for x in xs:
            dist.all_reduce(x)
    same(xs, [torch.full((len(x),), n * (n - 1) / 2) for x in xs], "all_reduce")
    outs = [x.new_empty(n * len(x)) for x in xs]
    with dist._coalescing_manager(device=device):
        for out, x in zip(outs, xs, strict=True):
            dist.all_gather_into_tensor(out, x)
    same(outs, [torch.full((len(out),), n * (n - 1) / 2) for out in outs], "all_gather")
