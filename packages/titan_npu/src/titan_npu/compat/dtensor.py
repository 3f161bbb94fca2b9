"""The sharding of gather's backward on DTensors, where torch_npu 2.13's rule gives a wrong shape.

torch_npu registers a rule for its own operator ``npu_gather_backward`` (torch_npu/distributed/tensor/_math_ops.py)
that lets every dimension but the gathered one stay sharded, and hands the operator the size of the whole input
nevertheless: each rank's gradient then has the whole size. The router of a mixture of experts meets it under
tensor parallelism and full_dtensor. The rule here computes it replicated, which is right, and costs a gather of
the router's small gradient. Remove this file when torch_npu gives the operator its local size:
tests/unit/titan_npu/test_compat.py fails then and says so.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch_npu  # noqa: F401  (its own rule is registered first)
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.experimental import register_sharding


@functools.cache
def install() -> None:
    """Register the rule, once a process."""
    register_sharding(torch.ops.npu.npu_gather_backward.default)(_replicated)


def _replicated(
    grad: Any, input_shape: Any, dim: int, index: Any, sparse_grad: bool = False
) -> list[tuple[list[Any], list[Any]]]:
    del grad, input_shape, dim, index, sparse_grad
    return [([Replicate()], [Replicate(), None, None, Replicate(), None])]
