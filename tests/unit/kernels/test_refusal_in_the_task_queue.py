"""With TASK_QUEUE_ENABLE=2 torch_npu prepares operators on its queue's thread, which does not survive an error: it
would drop what follows in silence. A refusal there fails on the device, and no stale memory can be read."""

import os
import subprocess
import sys

SCRIPT = """
import torch, torch_npu
x = torch.ones(64, device="npu")
rows = torch.ones(4, 64, device="npu", dtype=torch.float16)
zeros = torch.zeros(64, device="npu", dtype=torch.int32)
torch.npu.synchronize()
torch_npu.npu_add_rms_norm_quant(rows, rows, rows[0], x, zeros)
for attempt in range(3):
    x.add_(1)
    try:
        print("value", x.cpu()[0].item())
    except RuntimeError as error:
        print("refused" if "aclnnAddRmsNormQuantV2" in str(error) else error)
"""


def test_every_read_after_an_operator_that_is_missing_fails_with_its_name():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"TASK_QUEUE_ENABLE": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout.split() == ["refused"] * 3, run.stdout + run.stderr
