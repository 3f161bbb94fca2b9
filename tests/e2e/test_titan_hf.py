"""titan-npu export and import: a run of several ranks, out as safetensors and back into a run of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Titan

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("recipe", ["llama3_debug", "deepseek_v3_debug"])
def test_the_imported_run_goes_on_with_the_same_loss(
    recipe: str, titan: Titan, metrics: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    def done(*command: str) -> str:
        process = titan(*command)
        assert process.returncode == 0, process.stderr
        return process.stdout

    run, again, model = tmp_path / "run", tmp_path / "again", tmp_path / "model"
    trained = titan.train(
        f"recipe={recipe}",
        "launcher.nproc=2",
        "training.steps=2",
        f"dump_folder={run}",
        "checkpoint.interval=1",
    )
    assert trained.returncode == 0, trained.stderr

    # No CANN is named: neither command needs a device.
    assert f"{model}: " in done(
        "titan-npu", "export", f"recipe={recipe}", f"dump_folder={run}", "--out", str(model)
    )
    assert json.loads((model / "config.json").read_text())["torch_dtype"] == "float32"
    said = done("titan-npu", "import", str(model), f"recipe={recipe}", f"dump_folder={again}")
    assert (
        f"train from it: titan-npu train recipe={recipe} dump_folder={again} hf_assets_path={model}" in said
    )

    fresh_data = "checkpoint.exclude_from_loading=[dataloader]"
    words = (f"recipe={recipe}", "dataloader.shuffle_seed=1")
    for folder, step, more in ((run, 3, fresh_data), (again, 1, f"hf_assets_path={model}")):
        trained = titan.train(*words, f"training.steps={step}", f"dump_folder={folder}", more)
        assert trained.returncode == 0, trained.stderr
    (expected,) = (record for record in metrics(run) if record["step"] == 3 and "loss" in record)
    (found,) = (record for record in metrics(again) if "loss" in record)
    assert found["loss"] == expected["loss"]


def test_data_dealt_out_in_another_way(titan: Titan, tmp_path: Path) -> None:
    """The place in the rows means nothing to ranks that deal out documents."""
    for deal, status in (("rows", 0), ("documents", 1)):
        done = titan.train(
            f"training.steps={2 if deal == 'rows' else 3}",
            f"dataloader.deal={deal}",
            f"dump_folder={tmp_path}",
        )
        assert done.returncode == status, done.stderr
    assert "set dataloader.deal back" in done.stderr and done.stderr.count("\n") == 1
