"""torch.distributed over torch_npu's ProcessGroupHCCL on several ranks, against gloo."""

from __future__ import annotations

from pathlib import Path

import pytest


def finished(outcome) -> None:
    for status, out, err in outcome:
        assert status == 0 and out.endswith("done\n"), out + err


@pytest.mark.parametrize("program", ["collectives", "uneven", "messages", "groups"])
def test_two_ranks(ranks, program) -> None:
    finished(ranks(2, program))


@pytest.mark.slow
@pytest.mark.parametrize("program", ["collectives", "uneven", "messages", "groups", "cycles"])
def test_three_ranks(ranks, program) -> None:
    finished(ranks(3, program))


@pytest.mark.slow
@pytest.mark.parametrize("program", ["collectives", "uneven", "messages"])
def test_where_peers_cannot_be_read(ranks, program) -> None:
    """A system that forbids process_vm_readv: payloads travel as copies."""
    finished(ranks(2, program, NPU_EMULATOR_HCCL_TRANSPORT="copy"))


def test_a_killed_rank_is_named_by_the_others(ranks) -> None:
    before = set(Path("/dev/shm").iterdir())
    first, killed, last = ranks(3, "killed")
    assert killed[0] == -9
    for status, out, err in (first, last):
        assert status == 7, out + err
        assert "HcclAllReduce lost rank 1: its process" in out, out
    assert set(Path("/dev/shm").iterdir()) <= before


def test_a_rank_that_does_not_come_is_named_at_the_time_out(ranks) -> None:
    outcome = ranks(3, "late", HCCL_EXEC_TIMEOUT="3")
    for rank in (0, 2):
        assert "HcclAllReduce waited 3 s (HCCL_EXEC_TIMEOUT) for rank 1" in outcome[rank][1], outcome[rank]


def test_ranks_that_call_different_collectives_hear_of_it(ranks) -> None:
    for status, out, err in ranks(2, "different"):
        assert status == 7, out + err
        assert "the ranks do not call the same collective" in out
        assert "HcclAllReduce of 10 float32" in out and "HcclAllReduce of 11 float32" in out
