"""Prints, as JSON, what a compiled graph of dynamic shape takes from torch_npu's own allocator, which torchair registers.

A line a size: bytes of the result, bytes that the allocator counts while it lives and once it is gone, and whether
the values are right.
"""

from __future__ import annotations

import json

import torch

import torchair


class Residual(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.relu(x) * 2 + x


backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
compiled = torch.compile(Residual(), backend=backend, dynamic=True, fullgraph=True)
for rows in (100, 1000, 3000):
    x = torch.randn(rows, 257).npu()
    before = torch.npu.memory_allocated()
    y = compiled(x)
    torch.npu.synchronize()
    held = torch.npu.memory_allocated() - before
    right = torch.equal(y.cpu(), torch.relu(x.cpu()) * 2 + x.cpu())
    size = y.numel() * y.element_size()
    del y
    left = torch.npu.memory_allocated() - before
    print(json.dumps({"bytes": size, "held": held, "left": left, "right": right}), flush=True)
