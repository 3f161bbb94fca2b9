"""Every collective of torch.distributed, once over gloo and once over HCCL with the same numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.distributed as dist

from .distributed import Tensors, distributed, numbers, same, wide

Operation = Callable[[torch.Tensor, int, int], Tensors]  # of the rank's numbers, its rank and their number
SUM, PRODUCT, MIN, MAX = dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX


def all_reduce(x: torch.Tensor, rank: int, n: int, op: dist.ReduceOp = SUM) -> Tensors:
    dist.all_reduce(x, op)
    return x


def reduce(x: torch.Tensor, rank: int, n: int, op: dist.ReduceOp = SUM) -> Tensors:
    dist.reduce(x, n - 1, op)
    return x if rank == n - 1 else None


def average(x: torch.Tensor, rank: int, n: int) -> Tensors:
    """gloo has no AVG."""
    if x.device.type == "cpu":
        dist.all_reduce(x)
        return x / n
    dist.all_reduce(x, dist.ReduceOp.AVG)
    return x


def all_gather(x: torch.Tensor, rank: int, n: int) -> Tensors:
    out = [torch.empty_like(x) for _ in range(n)]
    dist.all_gather(out, x)
    return out


def all_gather_into_tensor(x: torch.Tensor, rank: int, n: int) -> Tensors:
    out = x.new_empty(n * len(x))
    dist.all_gather_into_tensor(out, x)
    return out


def all_gather_uneven(x: torch.Tensor, rank: int, n: int) -> Tensors:
    """gloo gathers equal sizes only: there, parts are padded to the size of the greatest."""
    sizes = [len(x) * (peer + 1) // n for peer in range(n)]
    mine = x[: sizes[rank]].contiguous()
    if x.device.type == "cpu":
        return [part[:size] for part, size in zip(all_gather(x, rank, n), sizes, strict=True)]
    out = [x.new_empty(size) for size in sizes]
    dist.all_gather(out, mine)
    return out


def reduce_scatter_tensor(x: torch.Tensor, rank: int, n: int, op: dist.ReduceOp = SUM) -> Tensors:
    out = torch.empty_like(x)
    dist.reduce_scatter_tensor(out, torch.cat([x + i for i in range(n)]), op)
    return out


def reduce_scatter(x: torch.Tensor, rank: int, n: int) -> Tensors:
    out = torch.empty_like(x)
    dist.reduce_scatter(out, [x + i for i in range(n)])
    return out


def reduce_scatter_uneven(x: torch.Tensor, rank: int, n: int) -> Tensors:
    parts = [(x[: len(x) * (peer + 1) // n] + peer).contiguous() for peer in range(n)]
    if x.device.type == "cpu":
        for part in parts:
            dist.all_reduce(part)
        return parts[rank]
    out = torch.empty_like(parts[rank])
    dist.reduce_scatter(out, parts)
    return out


def broadcast(x: torch.Tensor, rank: int, n: int) -> Tensors:
    dist.broadcast(x, n - 1)
    return x


def scatter(x: torch.Tensor, rank: int, n: int) -> Tensors:
    out = torch.empty_like(x)
    dist.scatter(out, [torch.roll(x, i) for i in range(n)] if rank == 0 else None, src=0)
    return out


def gather(x: torch.Tensor, rank: int, n: int) -> Tensors:
    out = [torch.empty_like(x) for _ in range(n)] if rank == 0 else None
    dist.gather(x, out, dst=0)
    return out


def all_to_all_single(x: torch.Tensor, rank: int, n: int) -> Tensors:
    parts = torch.cat([torch.roll(x, i) for i in range(n)])
    out = torch.empty_like(parts)
    dist.all_to_all_single(out, parts)
    return out


def all_to_all_uneven(x: torch.Tensor, rank: int, n: int) -> Tensors:
    sent = [len(x) * (rank + peer) // (2 * n) for peer in range(n)]  # some of them nothing
    received = [len(x) * (peer + rank) // (2 * n) for peer in range(n)]
    out = x.new_empty(sum(received))
    dist.all_to_all_single(out, torch.cat([x[:size] for size in sent]), received, sent)
    return out


def all_to_all_list(x: torch.Tensor, rank: int, n: int) -> Tensors:
    """gloo has no all_to_all of lists."""
    if x.device.type == "cpu":
        return list(all_to_all_single(x, rank, n).chunk(n)) if len(x) else [x] * n
    out = [torch.empty_like(x) for _ in range(n)]
    dist.all_to_all(out, [torch.roll(x, i) for i in range(n)])
    return out


def barrier(x: torch.Tensor, rank: int, n: int) -> Tensors:
    dist.barrier()
    return x


MOVES: tuple[Operation, ...] = (
    all_gather, all_gather_into_tensor, all_gather_uneven, broadcast, scatter, gather,
    all_to_all_single, all_to_all_uneven, all_to_all_list, barrier,
)  # fmt: skip
REDUCTIONS: tuple[Operation, ...] = (
    *(functools.partial(all_reduce, op=op) for op in (SUM, PRODUCT, MIN, MAX)),
    *(functools.partial(reduce, op=op) for op in (SUM, MAX)),
    *(functools.partial(reduce_scatter_tensor, op=op) for op in (SUM, MIN)),
    reduce_scatter, reduce_scatter_uneven,
)  # fmt: skip


def against_gloo(operation: Operation, x: torch.Tensor, rank: int, n: int, device: torch.device) -> None:
    expected = operation(wide(x), rank, n)
    same(operation(x.to(device), rank, n), expected, (operation, x.dtype, len(x)))


def run(rank: int, n: int, device: torch.device, sizes: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        for size in sizes:
            for operation in (*MOVES, *REDUCTIONS):
                against_gloo(operation, numbers(rank, size, dtype), rank, n, device)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        against_gloo(average, numbers(rank, 1001, dtype), rank, n, device)


@distributed
def every_size(rank: int, n: int, device: torch.device) -> None:
    """Sizes inside the group's memory, at its limit, beyond it, and odd ones that no rank divides."""
    run(rank, n, device, (0, 1, 7, 4096, 5001, 100_003))


@distributed
def few_sizes(rank: int, n: int, device: torch.device) -> None:
    run(rank, n, device, (0, 7, 9001))


@distributed
def short_integers(rank: int, n: int, device: torch.device) -> None:
    """What ProcessGroupHCCL takes of bool, uint8, int8 and int32."""
    for size in (0, 1, 1001, 40_001):
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int32):
            for operation in MOVES:
                against_gloo(operation, numbers(rank, size, dtype), rank, n, device)
        for dtype in (torch.uint8, torch.int8, torch.int32):
            for op in (SUM, MIN, MAX, PRODUCT):
                against_gloo(
                    functools.partial(all_reduce, op=op), numbers(rank, size, dtype), rank, n, device
                )
        for op in (SUM, MIN, MAX):  # of bools: or, and, or
            against_gloo(
                functools.partial(all_reduce, op=op), numbers(rank, size, torch.bool), rank, n, device
            )


@distributed
def large(rank: int, n: int, device: torch.device) -> None:
    """64 MiB a rank (a part of it for those whose input is n times that)."""
    whole, part = 64 << 20 >> 2, 64 // n << 20 >> 2
    x = torch.arange(whole, dtype=torch.int32).remainder_(1000).float().add_(rank)
    total = n * (x - rank) + n * (n - 1) / 2
    everyone = [x[:part] - rank + peer for peer in range(n)]
    y = x[:part].to(device)
    results = (
        ("all_reduce", all_reduce(x.to(device), rank, n), total),
        ("broadcast", broadcast(x.to(device), rank, n), x - rank + n - 1),
        ("all_gather", all_gather_into_tensor(y, rank, n), torch.cat(everyone)),
        ("reduce_scatter", reduce_scatter_tensor(y, rank, n), total[:part] + n * rank),
        ("all_to_all", all_to_all_single(y, rank, n), torch.cat([torch.roll(p, rank) for p in everyone])),
        ("scatter", scatter(y, rank, n), torch.roll(everyone[0], rank)),
    )
    for name, actual, expected in results:
        assert torch.equal(actual.cpu(), expected), name  # whole numbers: exact
    reduced = reduce(y.clone(), rank, n)
    assert reduced is None or torch.equal(reduced.cpu(), total[:part])
    gathered = gather(y, rank, n)
    assert gathered is None or all(torch.equal(a.cpu(), e) for a, e in zip(gathered, everyone, strict=True))
