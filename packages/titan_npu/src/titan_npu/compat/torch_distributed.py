"""``torch.distributed.set_timeout`` for torch 2.13.

torchtitan 0.3.0 calls it after the first step (torchtitan/distributed/utils.py, ``set_pg_timeouts``); torch
got it in 2.14. It is the only function of another package that titan_npu supplies. Remove this file when the
pinned torch is 2.14 or later: tests/unit/titan_npu/test_compat.py fails then and says so.
"""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist
from torch.distributed import distributed_c10d


def needed() -> bool:
    """Whether the installed torch lacks ``torch.distributed.set_timeout``."""
    return not hasattr(dist, "set_timeout")


def set_timeout(timeout: timedelta, group: dist.ProcessGroup | None = None) -> None:
    """Set the time-out of ``group`` (None: the default group) for collectives started from now on."""
    distributed_c10d._set_pg_timeout(timeout, group)


def install() -> None:
    """Give torch 2.13 the function of 2.14; does nothing where torch has it."""
    if needed():
        dist.set_timeout = set_timeout
