"""A rank that dies, does not come, or calls something else: the others hear of it, by its number."""

from __future__ import annotations

import re
import time

import pytest

from .programs.failures import HEARD, STEPS, plan

KILLED = -9


pytestmark = pytest.mark.usefixtures("nothing_left_in_shared_memory")


def hear(outcome, victim: int, pattern: str) -> None:
    for rank, (status, out, err) in enumerate(outcome):
        if rank == victim:
            assert status == KILLED, (rank, status, out, err)
        else:
            assert status == HEARD and re.search(pattern, out), (rank, status, out, err)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_survivors_of_a_kill_name_the_rank_and_the_call(ranks, seed) -> None:
    """SIGKILL at a random moment (seeded) of each collective in turn; rank 0 is a victim as often as the others."""
    step = list(STEPS)[seed % len(STEPS)]
    victim, _ = plan(seed)
    start = time.monotonic()
    outcome = ranks(3, "failures.killed", SEED=str(seed), STEP=step, HCCL_EXEC_TIMEOUT="20")
    assert time.monotonic() - start < 15  # they notice the death, and do not wait for the time-out
    hear(outcome, victim, f"{STEPS[step][1]} lost rank {victim}: its process .* async error [1-9]")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_survivors_of_a_kill_while_the_group_comes_together(ranks, seed) -> None:
    victim, _ = plan(seed)
    outcome = ranks(3, "failures.killed_while_meeting", SEED=str(seed), HCCL_CONNECT_TIMEOUT="3")
    told = (
        rf"lost rank {victim}|rank {victim} died while|ranks? (\d, )*{victim}(, \d)* did not come within 3 s"
    )
    # Who comes when rank 0 has ended, as the victim or because it heard of the victim, finds nothing of it.
    told += "|which made rootInfo .in most programs rank 0., has ended"
    hear(outcome, victim, told)


def test_nothing_is_left_of_ranks_that_all_die_before_they_met(ranks) -> None:
    for status, out, err in ranks(3, "failures.all_killed_while_meeting"):
        assert status == KILLED, out + err


@pytest.mark.parametrize(
    ("step", "named"),
    # In the ring of messages rank 0 waits for rank 2, which waits for rank 1: whoever gives up first names its own.
    [("all_reduce", {"1"}), ("send_receive", {"1", "2"})],
    ids=["all_reduce", "send_receive"],
)
def test_a_rank_that_does_not_come_is_named_at_the_time_out(ranks, step, named) -> None:
    start = time.monotonic()
    outcome = ranks(3, "failures.late", STEP=step, HCCL_EXEC_TIMEOUT="2")
    assert 2 < time.monotonic() - start < 2 + 5
    waited = [
        re.search(r"Hccl\w+ waited 2 s \(HCCL_EXEC_TIMEOUT\) for rank (\d)", outcome[r][1]) for r in (0, 2)
    ]
    lost = [re.search(r"lost rank (\d)", outcome[r][1]) for r in (0, 2)]
    assert {w[1] for w in waited if w} and {w[1] for w in waited if w} <= named, outcome
    assert all(w or gone for w, gone in zip(waited, lost, strict=True)), outcome


def test_torch_raises_what_hccl_found(ranks) -> None:
    outcome = ranks(3, "failures.killed_under_torch")
    hear(outcome, 1, "HcclAllReduce lost rank 1: its process")


def test_ranks_that_call_different_collectives_hear_of_it(ranks) -> None:
    for status, out, err in ranks(2, "failures.different"):
        assert status == HEARD, out + err
        assert "the ranks do not call the same collective" in out
        assert "HcclAllReduce of 10 float32" in out and "HcclAllReduce of 11 float32" in out
