"""torch.distributed over torch_npu's ProcessGroupHCCL on several ranks, against gloo."""

from __future__ import annotations

import pytest


def finished(outcome) -> None:
    for status, out, err in outcome:
        assert status == 0 and out.endswith("done\n"), out + err


PROGRAMS = (
    "collectives.every_size", "collectives.short_integers", "messages.ring", "messages.many",
    "messages.everyone", "groups.objects", "groups.parts", "groups.opposite_orders",
    "groups.functional_collectives", "groups.coalesced",
)  # fmt: skip


@pytest.mark.parametrize("program", [*PROGRAMS, "messages.both_first"])
def test_two_ranks(ranks, program) -> None:
    finished(ranks(2, program))


@pytest.mark.slow
@pytest.mark.parametrize("program", [*PROGRAMS, "collectives.large"])
def test_three_ranks(ranks, program) -> None:
    finished(ranks(3, program))


@pytest.mark.slow
@pytest.mark.parametrize("program", ["collectives.few_sizes", *PROGRAMS[2:]])
def test_eight_ranks(ranks, program) -> None:
    finished(ranks(8, program))


@pytest.mark.slow
@pytest.mark.parametrize("program", ["collectives.every_size", "messages.ring", "messages.both_first"])
def test_where_peers_cannot_be_read(ranks, program) -> None:
    """A system that forbids process_vm_readv: payloads travel as copies."""
    finished(ranks(2, program, NPU_EMULATOR_HCCL_TRANSPORT="copy"))
