"""The same training on every parallel layout, and a checkpoint of one layout on another.

Five layouts here; ``python -m tests.e2e.layouts`` trains on all of the table.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.e2e.layouts.runs import LOSS, NORM, Runs, run_ranks
from tests.e2e.layouts.table import LAYOUTS, MOE, Layout
from titan_npu.data.loader import LocalTextDataLoader
from titan_npu.recipes import config_registry

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(titan, tmp_path_factory: pytest.TempPathFactory, module_monkeypatch: pytest.MonkeyPatch) -> Runs:
    module_monkeypatch.setenv("TITAN_NPU_DATA", titan.environ["TITAN_NPU_DATA"])
    return Runs(tmp_path_factory.mktemp("layouts"))


@pytest.fixture(scope="module")
def module_monkeypatch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_the_table_is_whole() -> None:
    """Each dimension alone, products, and three dimensions on eight ranks; five of them in CI."""
    alone = {next(iter(layout.degrees)) for layout in LAYOUTS if len(layout.degrees) == 1}
    assert alone >= {"fsdp", "tp", "pp", "cp"}
    assert len(LAYOUTS) >= 14
    assert len({layout.name for layout in LAYOUTS}) == len(LAYOUTS)
    assert any(layout.ranks == 8 and len(layout.degrees) == 3 for layout in LAYOUTS)
    assert sum(layout.in_ci for layout in LAYOUTS) == 5


def test_documents_straddle_the_shards(runs: Runs, module_monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows that every layout trains on: some document goes on over the middle of its row."""
    config = config_registry.llama3_debug()
    assert isinstance(config.dataloader, LocalTextDataLoader.Config)
    loader = config.dataloader.build(
        dp_world_size=1,
        dp_rank=0,
        tokenizer=config.tokenizer.build(tokenizer_path=config.hf_assets_path),
        seq_len=128,
        local_batch_size=8,
    )
    positions = torch.cat([batch["positions"] for (batch, _), _ in zip(loader, range(10), strict=False)])
    assert (positions[:, 64] != 0).float().mean() > 0.5
    assert (positions[:, 1:] == 0).any(dim=1).any()  # and rows hold more than one document


@pytest.mark.parametrize("layout", [pytest.param(one, id=one.name) for one in LAYOUTS if one.in_ci])
def test_layout_trains_as_one_rank_does(runs: Runs, layout: Layout) -> None:
    outcome = runs.compare(layout)
    assert not outcome.failure, outcome.failure
    assert outcome.loss <= LOSS and outcome.norm <= NORM, outcome


@pytest.mark.parametrize(
    ("saved", "resumed"),
    [
        (Layout("fsdp2 x tp2", {"fsdp": 2, "tp": 2}), Layout("pp2", {"pp": 2})),
        (Layout("moe ep2", {"fsdp": 2, "ep": 2}, recipe=MOE), Layout("moe tp2", {"tp": 2}, recipe=MOE)),
    ],
    ids=lambda layout: layout.name,
)
def test_a_checkpoint_goes_on_on_another_layout(
    runs: Runs, tmp_path: Path, saved: Layout, resumed: Layout
) -> None:
    reference = runs.reference(saved.recipe)
    keep = ["checkpoint.enable=true", "checkpoint.interval=5", "validator.enable=false"]
    run_ranks(
        [*saved.command, *keep, *runs.from_seed(saved.recipe), "training.steps=5"], saved.ranks, tmp_path
    )
    run_ranks([*resumed.command, *keep], resumed.ranks, tmp_path)
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    expected = [record for record in reference if "loss" in record]
    assert [record["step"] for record in records] == list(range(1, 11))
    for ours, theirs in zip(records, expected, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=LOSS), ours["step"]
        assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=NORM), ours["step"]
