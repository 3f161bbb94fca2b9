"""Making and ending communicators many times leaves memory, descriptors and threads as they were."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left_in_shared_memory")]


@pytest.mark.parametrize("program", ["library_cycles", "torch_cycles"])
def test_cycles_leave_nothing_behind(ranks, program) -> None:
    for status, out, err in ranks(2, f"resources.{program}"):
        assert status == 0 and out.endswith("done\n"), out + err


ORDINARY = """
import sys
import torch, torch.distributed as dist, torch_npu
rank = int(sys.argv[1])
torch.npu.set_device(rank)
dist.init_process_group("hccl", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
x = torch.ones(5, device="npu")
dist.all_reduce(x)
dist.isend(x, 1 - rank)  # nobody receives it
print(x.tolist())
"""


def test_a_program_that_just_ends_ends(tmp_path) -> None:
    """Nothing is destroyed by the user: Python's shutdown comes with communicators alive and a message under way."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ORDINARY, str(rank), str(tmp_path / "store")],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, "[2.0, 2.0, 2.0, 2.0, 2.0]\n"), err
