"""`titan-npu train`: what a run leaves, and that a run stopped anywhere goes on as if it had not been."""

from __future__ import annotations

import json
import math
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import SMALL, VOCABULARY, Titan

pytestmark = pytest.mark.slow

Metrics = Callable[[Path], list[dict[str, Any]]]

STEPS = 12
NOISY = '''
"""A recipe of one's own: each step changes the weights by numbers from every generator of the process."""

import random
from dataclasses import dataclass

import torch
from titan_npu.recipes.config_registry import llama3_debug
from titan_npu.trainer import NpuTrainer
from torchtitan.config.override import derive

random.seed(7)


class NoisyTrainer(NpuTrainer):
    @dataclass(kw_only=True, slots=True)
    class Config(NpuTrainer.Config):
        pass

    def train_step(self, data_iterator):
        super().train_step(data_iterator)  # first: after a validation FSDP still holds gathered copies
        size = 1e-2 * (random.random() + torch.rand(()).item())
        with torch.no_grad():
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        parameter.add_(torch.randn_like(parameter), alpha=size)


def noisy():
    return derive(llama3_debug(), NoisyTrainer.Config)
'''


@pytest.fixture(scope="module")
def noisy(titan: Titan) -> tuple[str, ...]:
    """Words of a run whose losses depend on the place in the data, optimizer, schedule and all generators."""
    (titan.cwd / "noisy.py").write_text(NOISY)
    titan.environ["PYTHONPATH"] = str(titan.cwd)
    return (
        "recipe=noisy.noisy",
        "checkpoint.interval=4",
        "validator.enable=true",
        "validator.freq=4",
        "validator.steps=1",
    )


@pytest.fixture(scope="module", params=[0, 2], ids=["loading in the process", "two loading workers"])
def workers(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def uninterrupted(
    titan: Titan, noisy: tuple[str, ...], workers: int, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = titan.train(
        *noisy, f"training.steps={STEPS}", f"dataloader.num_workers={workers}", f"dump_folder={folder}"
    )
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    return folder


def test_a_run_of_the_recipe(titan: Titan, metrics: Metrics, tmp_path: Path) -> None:
    """One `loss:` a step, the first near ln(vocabulary); metrics, TensorBoard and a checkpoint are left."""
    done = titan.train(
        "recipe=llama3_debug",
        "training.steps=3",
        f"dump_folder={tmp_path}",
        "metrics.enable_tensorboard=true",
    )
    assert (done.returncode, done.stderr) == (0, "")
    losses = [float(text) for text in re.findall(r"loss: +([0-9.]+)", done.stdout)]
    assert len(losses) == done.stdout.count("loss:") == 3
    assert losses[0] == pytest.approx(math.log(VOCABULARY), abs=0.1)
    assert "\x1b" not in done.stdout  # plain lines where there is no terminal

    records = metrics(tmp_path)
    assert [record["step"] for record in records] == [1, 2, 3]
    assert [record["tokens_seen"] for record in records] == [128, 256, 384]
    assert [record["loss"] for record in records] == pytest.approx(losses, abs=1e-5)

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = tmp_path.glob("tb/*/events.out.tfevents.*")
    board = EventAccumulator(str(events)).Reload()
    scalars = board.Scalars("loss_metrics/global_avg_loss")
    assert [(s.step, s.value) for s in scalars] == [(r["step"], pytest.approx(r["loss"])) for r in records]

    named = re.search(r"checkpoint: (\S+)", done.stdout)
    assert (
        named
        and Path(named[1]) == tmp_path / "checkpoint/step-3"
        and (Path(named[1]) / ".metadata").is_file()
    )


class TestResume:
    def test_uninterrupted_run(self, uninterrupted: Path, metrics: Metrics) -> None:
        records = metrics(uninterrupted)
        trained = [record for record in records if "loss" in record]
        assert [record["step"] for record in trained] == list(range(1, STEPS + 1))
        assert len({record["loss"] for record in trained}) == STEPS
        assert [r["step"] for r in records if "validation_loss" in r] == [1, 4, 8, 12]
        assert (uninterrupted / "stdout").read_text().count("loss:") == STEPS

    def test_twice(
        self,
        titan: Titan,
        noisy: tuple[str, ...],
        workers: int,
        uninterrupted: Path,
        metrics: Metrics,
        tmp_path: Path,
    ) -> None:
        """4 + 4 + 4 steps are the 12 steps, every figure bit for bit."""
        for steps in (4, 8, 12):
            done = titan.train(
                *noisy,
                f"training.steps={steps}",
                f"dataloader.num_workers={workers}",
                f"dump_folder={tmp_path}",
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.count("loss:") == 4
        assert metrics(tmp_path) == metrics(uninterrupted)


def stop_after(step: int, number: signal.Signals, titan: Titan, *words: str) -> tuple[int, str]:
    """Start a run, send it the signal once it shows that step; its exit status and all it said."""
    process = titan.popen("titan-npu", "train", *SMALL, *words)
    assert process.stdout is not None and process.stderr is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if re.match(rf"step: +{step} ", line):
                time.sleep(0.03)  # into the next step
                process.send_signal(number)
                break
        stdout, stderr = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, "".join(said) + stdout + stderr


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_interrupts(
    titan: Titan,
    noisy: tuple[str, ...],
    workers: int,
    uninterrupted: Path,
    metrics: Metrics,
    tmp_path: Path,
) -> None:
    """Ctrl-C and SIGTERM within a step each leave a checkpoint that continues as the uninterrupted run."""
    words = (
        *noisy,
        f"training.steps={STEPS}",
        f"dataloader.num_workers={workers}",
        f"dump_folder={tmp_path}",
    )
    reached = 0
    for after, number, status in ((2, signal.SIGINT, 130), (6, signal.SIGTERM, 143)):
        code, said = stop_after(after, number, titan, *words)
        assert code == status, said
        assert "Traceback" not in said
        stopped = re.search(
            rf"Stopped by {number.name} after step (\d+) of {STEPS}; run the same command", said
        )
        assert stopped, said
        reached = int(stopped[1])
        assert after <= reached < STEPS
        assert (tmp_path / f"checkpoint/step-{reached}/.metadata").is_file()
    done = titan.train(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss:") == STEPS - reached
    assert metrics(tmp_path) == metrics(uninterrupted)


def test_dry_run_builds_and_leaves_nothing(titan: Titan, tmp_path: Path) -> None:
    done = titan.train("--dry-run", f"dump_folder={tmp_path}", "metrics.enable_tensorboard=true")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a batch has 1 rows of 128 tokens" in done.stdout and "nothing was trained" in done.stdout
    assert "loss:" not in done.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_torchtitan_s_own_command_line(titan: Titan, tmp_path: Path) -> None:
    done = titan(
        "python", "-m", "torchtitan.train", "--module", "titan_npu.recipes", "--config", "llama3_debug",
        "--training.steps", "2", "--training.local-batch-size", "1", "--training.seq-len", "128",
        "--dump-folder", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [1, 2]
    assert records[0]["loss"] == pytest.approx(math.log(VOCABULARY), abs=0.1)
    assert (tmp_path / "checkpoint/step-2/.metadata").is_file()
