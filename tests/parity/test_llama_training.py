"""The same model, weights and batches on device cpu and npu, all in float32."""

from __future__ import annotations

import pytest
import torch

from benchmarks.llama import Twin, batches


@pytest.mark.slow
def test_losses_of_twenty_steps_agree() -> None:
    data = batches(20, rows=2, length=256)
    cpu, npu = Twin("cpu"), Twin("npu")
    expected = [cpu.step(batch).item() for batch in data]
    actual = [npu.step(batch).item() for batch in data]
    assert actual[0] == pytest.approx(expected[0], rel=1e-6)
    assert actual == pytest.approx(expected, rel=1e-5)
    assert len(set(expected)) == 20  # it trains: no two losses alike


def test_the_twins_start_with_the_same_weights() -> None:
    cpu, npu = Twin("cpu"), Twin("npu")
    for (name, ours), theirs in zip(cpu.model.named_parameters(), npu.model.parameters(), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours, rtol=0, atol=0, msg=name)
