"""Generators in the checkpoint, and damage found before anything is loaded."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from titan_npu.checkpoint.integrity import damage, last_good_step, saved_steps
from titan_npu.checkpoint.rng import RngState, ranks_with_generators


def draw(npu: torch.device) -> list[float]:
    return [
        random.random(),
        random.gauss(0, 1),
        *torch.rand(3).tolist(),
        *torch.randn(3, device=npu).cpu().tolist(),
    ]


@pytest.mark.usefixtures("one_rank")
def test_generators_go_on_where_they_were(npu: torch.device, tmp_path: Path) -> None:
    draw(npu)  # into the middle of each sequence
    dcp.save({"rng": RngState(0)}, checkpoint_id=tmp_path / "step-1")
    expected = draw(npu)
    assert draw(npu) != expected
    dcp.load({"rng": RngState(0)}, checkpoint_id=tmp_path / "step-1")
    assert draw(npu) == expected


@pytest.mark.usefixtures("one_rank")
def test_ranks_that_left_their_generators(tmp_path: Path) -> None:
    states = {"rng": {f"rank_{rank}": {"cpu": torch.zeros(3)} for rank in range(12)}, "weight": torch.ones(2)}
    dcp.save(states, checkpoint_id=tmp_path / "step-1")
    assert ranks_with_generators(tmp_path / "step-1", "rng") == 12


@pytest.fixture
def folder(one_rank: None, tmp_path: Path) -> Path:
    """Whole checkpoints of steps 2, 4 and 10."""
    del one_rank
    for step in (2, 4, 10):
        dcp.save({"weight": torch.full((1000,), float(step))}, checkpoint_id=tmp_path / f"step-{step}")
    return tmp_path


class TestIntegrity:
    def test_whole(self, folder: Path) -> None:
        assert saved_steps(folder) == [2, 4, 10]
        assert all(damage(folder / f"step-{step}") is None for step in (2, 4, 10))
        assert last_good_step(folder) == 10
        assert last_good_step(folder, below=10) == 4

    def test_cut_file(self, folder: Path) -> None:
        shard = folder / "step-10" / "__0_0.distcp"
        half = shard.stat().st_size // 2
        with shard.open("r+b") as file:
            file.truncate(half)
        said = damage(folder / "step-10")
        assert said and said.startswith(f"{shard} has {half:,} bytes of ")
        assert last_good_step(folder) == 4

    def test_missing_file(self, folder: Path) -> None:
        shard = folder / "step-10" / "__0_0.distcp"
        shard.unlink()
        assert damage(folder / "step-10") == f"{shard} is missing"

    @pytest.mark.parametrize("keep", [0, 0.5])
    def test_cut_index(self, folder: Path, keep: float) -> None:
        index = folder / "step-10" / ".metadata"
        index.write_bytes(index.read_bytes()[: int(keep * index.stat().st_size)])
        said = damage(folder / "step-10")
        assert said and said.startswith(f"{index} cannot be read")

    def test_save_that_did_not_finish(self, folder: Path) -> None:
        (folder / "step-10" / ".metadata").unlink()
        said = damage(folder / "step-10")
        assert said and "did not finish" in said
        assert saved_steps(folder) == [2, 4]

    def test_other_things_in_the_folder(self, folder: Path) -> None:
        (folder / "step-12.tmp").mkdir()
        (folder / "notes").write_text("")
        assert saved_steps(folder) == [2, 4, 10]
        assert saved_steps(folder / "nothing") == []
