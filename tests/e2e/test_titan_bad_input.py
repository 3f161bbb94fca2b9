"""What `titan-npu train` answers to bad input: one clear sentence, a failure as exit status, nothing lost."""

from __future__ import annotations

import re
import subprocess
import venv
from pathlib import Path

import pytest

from tests.e2e.conftest import BIN, SMALL, Titan

pytestmark = pytest.mark.slow


TORCH_NPU_ALLOCATOR = re.compile(r"E\d{4} .*NPUCachingAllocator")  # its own log line, before it raises


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a failed command says."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if not TORCH_NPU_ALLOCATOR.match(line)]
    assert line.startswith("titan-npu: ")
    return line


def test_no_data_set(titan: Titan, tmp_path: Path) -> None:
    said = sentence(
        titan.train(
            "data=jsonl", f"dataloader.dataset_path={tmp_path}/mine.jsonl", f"dump_folder={tmp_path}/run"
        )
    )
    assert f"There is no data at {tmp_path}/mine.jsonl" in said
    assert "titan-npu data prepare" in said and "dataloader.dataset_path" in said


def test_wrong_tokenizer_path(titan: Titan, tmp_path: Path) -> None:
    said = sentence(titan.train(f"hf_assets_path={tmp_path}/tokens", f"dump_folder={tmp_path}/run"))
    assert f"There is no tokenizer at {tmp_path}/tokens" in said and "hf_assets_path" in said


def test_unknown_recipe(titan: Titan) -> None:
    said = sentence(titan.train("recipe=llama3_debugg"))
    assert "llama3_debugg" in said and "llama3_8b" in said and "Nearest: llama3_debug" in said


def test_model_larger_than_the_device(titan: Titan, tmp_path: Path) -> None:
    said = sentence(titan.train(f"dump_folder={tmp_path}", NPU_EMULATOR_HBM_GB="0.1"))
    assert "Out of device memory" in said
    assert "102 MiB" in said  # the device: 0.1 GB in binary units
    assert "5.8 M parameters take 88 MiB" in said  # weights, gradients and two moments, 4 bytes each
    assert "training.local_batch_size (1)" in said and "NPU_EMULATOR_HBM_GB" in said


def test_checkpoint_cut_in_half(titan: Titan, tmp_path: Path) -> None:
    words = ("checkpoint.interval=2", f"dump_folder={tmp_path}")
    assert titan.train("training.steps=4", *words).returncode == 0
    shard = tmp_path / "checkpoint/step-4/__0_0.distcp"
    whole = shard.stat().st_size
    with shard.open("r+b") as file:
        file.truncate(whole // 2)
    metrics = (tmp_path / "metrics.jsonl").read_bytes()

    said = sentence(titan.train("training.steps=6", *words))
    assert str(shard) in said and f"{whole // 2:,} bytes" in said
    assert "step-2" in said and "checkpoint.load_step=2" in said
    assert shard.stat().st_size == whole // 2 and (tmp_path / "metrics.jsonl").read_bytes() == metrics

    done = titan.train("training.steps=6", *words, "checkpoint.load_step=2")  # the way out that it names
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss:") == 4


@pytest.fixture(scope="module")
def without_torch_npu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment like this one in which torch_npu was not installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (theirs,) = (folder / "lib").glob("python3*/site-packages")
    (ours,) = (BIN.parent / "lib").glob("python3*/site-packages")
    for entry in ours.iterdir():
        if not entry.name.startswith("torch_npu"):
            (theirs / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def test_torch_npu_missing(titan: Titan, without_torch_npu: Path) -> None:
    said = sentence(titan(str(without_torch_npu), "-m", "titan_npu", "train", *SMALL))
    assert "torch_npu is not installed" in said and "pip install torch_npu==2.13.0" in said


def test_torch_npu_of_another_version(titan: Titan, tmp_path: Path) -> None:
    info = tmp_path / "torch_npu-2.9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.9.0\n")
    said = sentence(titan.train(PYTHONPATH=str(tmp_path)))
    assert "torch_npu 2.9.0 is installed" in said and "2.13.0" in said


def test_no_npu_allowed(titan: Titan) -> None:
    said = sentence(titan.train(NPU_EMULATOR="off"))
    assert "NPU_EMULATOR=off allows only CANN" in said and "unset NPU_EMULATOR" in said
