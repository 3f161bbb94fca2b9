"""What the programs over torch.distributed share: gloo for tensors of the host, HCCL for those of the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import torch
import torch.distributed as dist

from ..launcher import Place

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}
Tensors = torch.Tensor | Sequence[torch.Tensor] | None


def distributed(body: Callable[[int, int, torch.device], None]) -> Callable[[Place], None]:
    """Makes a program of body(rank, n, device), run within a process group of both backends."""

    @wraps(body)
    def program(place: Place) -> None:
        torch.npu.set_device(place.rank)
        dist.init_process_group(
            "cpu:gloo,npu:hccl",
            init_method=f"file://{place.folder}/store",
            rank=place.rank,
            world_size=place.n,
        )
        body(place.rank, place.n, torch.device("npu", place.rank))
        torch.npu.synchronize()
        dist.destroy_process_group()
        print("done")

    return program


def wide(x: torch.Tensor) -> torch.Tensor:
    """What gloo computes with: short floating-point types would be rounded at each of its steps."""
    if x.is_floating_point():
        return x.double()
    return x.int() if x.dtype in (torch.bool, torch.uint8, torch.int8) else x.clone()


def same(actual: Tensors, expected: Tensors, what: object) -> None:
    """Compares what the device has with gloo's result, in the wider type of the two."""
    if actual is None or isinstance(actual, torch.Tensor):
        actual, expected = [actual], [expected]
    assert len(actual) == len(expected), what
    for a, e in zip(actual, expected, strict=True):
        if e is None:
            assert a is None, what
            continue
        tolerance = TOLERANCE.get(a.dtype, 0)
        e = e.to(a.dtype)
        torch.testing.assert_close(
            a.cpu().double(), e.double(), rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}"
        )


def numbers(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """`size` numbers, the same ones for a rank at each call: small ones, whose products do not overflow."""
    source = torch.Generator().manual_seed(1000 * rank + size)
    if dtype == torch.bool:
        return torch.rand(size, generator=source) < 0.7
    if dtype.is_floating_point:
        return torch.randn(size, generator=source).to(dtype)
    low = 0 if dtype == torch.uint8 else -2
    return torch.randint(low, 3, (size,), generator=source, dtype=dtype)
