"""`titan-npu train launcher.nproc=2`: what several ranks print and leave, and what happens when one dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Titan

pytestmark = pytest.mark.slow

Metrics = Callable[[Path], list[dict[str, Any]]]

SMALL = ("training.local_batch_size=2", "training.seq_len=64", "metrics.enable_tensorboard=false")
STEPS = 6
FAILING = '''
"""A recipe whose rank 1 comes to grief in step FAIL_AT, in the way that the variable HOW says."""

import os
import signal
from dataclasses import dataclass

from titan_npu.recipes.config_registry import llama3_debug
from titan_npu.trainer import NpuTrainer
from torchtitan.config.override import derive


class FailingTrainer(NpuTrainer):
    @dataclass(kw_only=True, slots=True)
    class Config(NpuTrainer.Config):
        pass

    def train_step(self, data_iterator):
        if self.step == int(os.environ.get("FAIL_AT", "0")) and os.environ["RANK"] == "1":
            if os.environ["HOW"] == "exception":
                raise RuntimeError("a bug of rank one")
            os.kill(os.getpid(), getattr(signal, os.environ["HOW"]))
        super().train_step(data_iterator)


def failing():
    return derive(llama3_debug(), FailingTrainer.Config)
'''


@pytest.fixture(scope="module")
def words(titan: Titan) -> tuple[str, ...]:
    """The run that every test here starts, two ranks that save every second step."""
    (titan.cwd / "failing.py").write_text(FAILING)
    titan.environ["PYTHONPATH"] = str(titan.cwd)
    return (*SMALL, "recipe=failing.failing", f"training.steps={STEPS}", "checkpoint.interval=2")


@pytest.fixture(scope="module")
def uninterrupted(
    titan: Titan, words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    return folder, titan("titan-npu", "train", *words, "launcher.nproc=2", f"dump_folder={folder}")


def logs(run: Path) -> Path:
    (folder,) = (run / "logs").iterdir()
    return folder


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def started(titan: Titan, step: int, *words: str) -> subprocess.Popen[str]:
    """A run that has shown that step."""
    process = titan.popen("titan-npu", "train", *words)
    assert process.stdout is not None
    for line in process.stdout:
        if re.match(rf"step: +{step} ", line):
            return process
    process.kill()
    raise AssertionError(f"step {step} did not come: {process.communicate()}")


def test_two_ranks(uninterrupted: tuple[Path, subprocess.CompletedProcess[str]], metrics: Metrics) -> None:
    """The console has rank 0's lines and where the logs are; both ranks' batches count."""
    run, done = uninterrupted
    assert (done.returncode, done.stderr) == (0, "")
    assert f"2 ranks; their logs: {logs(run)}" in done.stdout
    assert done.stdout.count("loss:") == STEPS
    assert {path.name for path in logs(run).iterdir()} == {"rank_0.log", "rank_1.log"}
    assert (logs(run) / "rank_0.log").read_text().count("loss:") == STEPS
    quiet = (logs(run) / "rank_1.log").read_text()
    assert " M parameters on 2 ranks, 4 x 64 tokens a step" in quiet and "loss:" not in quiet
    records = metrics(run)
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert [record["tokens_seen"] for record in records] == [256 * step for step in range(1, STEPS + 1)]


def test_an_exception_in_one_rank(titan: Titan, words: tuple[str, ...], tmp_path: Path) -> None:
    done = titan(
        "titan-npu", "train", *words, "launcher.nproc=2", f"dump_folder={tmp_path}",
        HOW="exception", FAIL_AT="2",
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.count("loss:") == 1 and "Traceback" not in done.stdout
    traceback, sentence = done.stderr.rstrip().rsplit("\n", 1)
    assert traceback.startswith("Traceback") and "RuntimeError: a bug of rank one" in traceback
    assert "HCCL" not in done.stdout + done.stderr and "Hccl" not in done.stdout + done.stderr
    # No status where the other rank was gone first, and the agent ended this one on its way out.
    assert re.match(
        r"titan-npu: rank 1 failed( with exit status 1)? \(RuntimeError: a bug of rank one\)", sentence
    )
    assert str(logs(tmp_path) / "rank_1.log") in sentence
    assert "a bug of rank one" in (logs(tmp_path) / "rank_1.log").read_text()
    assert "lost rank 1" in (logs(tmp_path) / "rank_0.log").read_text()  # what became of the other


def test_a_killed_rank_and_the_run_after_it(
    titan: Titan,
    words: tuple[str, ...],
    uninterrupted: tuple[Path, subprocess.CompletedProcess[str]],
    metrics: Metrics,
    tmp_path: Path,
) -> None:
    """kill -9 in step 4: the same command goes on from the checkpoint of step 2 as if nothing had been."""
    run = ("titan-npu", "train", *words, "launcher.nproc=2", f"dump_folder={tmp_path}")
    done = titan(*run, HOW="SIGKILL", FAIL_AT="4")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "titan-npu: rank 1 was killed by SIGKILL" in done.stderr
    again = titan(*run)
    assert again.returncode == 0, again.stderr
    assert re.findall(r"step: +(\d+)", again.stdout) == ["3", "4", "5", "6"]
    assert metrics(tmp_path) == metrics(uninterrupted[0])


def test_restarts_by_itself(
    titan: Titan,
    words: tuple[str, ...],
    uninterrupted: tuple[Path, subprocess.CompletedProcess[str]],
    metrics: Metrics,
    tmp_path: Path,
) -> None:
    """A rank that dies in the first attempt only."""
    source = FAILING.replace('os.environ["RANK"] == "1"', 'os.environ["RANK"] == "1" and first()') + (
        '\n\ndef first():\n    return os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"\n'
    )
    (titan.cwd / "once.py").write_text(source)
    done = titan(
        "titan-npu", "train", *words, "recipe=once.failing", "launcher.nproc=2", "launcher.max_restarts=1",
        f"dump_folder={tmp_path}", HOW="SIGKILL", FAIL_AT="4",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "restart 1 of 1" in done.stdout
    assert re.findall(r"step: +(\d+)", done.stdout) == ["1", "2", "3", "3", "4", "5", "6"]
    assert metrics(tmp_path) == metrics(uninterrupted[0])
    assert {"rank_1.log", "rank_1.attempt_1.log"} <= {path.name for path in logs(tmp_path).iterdir()}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupts(
    titan: Titan,
    words: tuple[str, ...],
    uninterrupted: tuple[Path, subprocess.CompletedProcess[str]],
    metrics: Metrics,
    tmp_path: Path,
    number: signal.Signals,
    status: int,
) -> None:
    """The ranks agree on a step, leave its checkpoint, and the same command goes on."""
    run = (*words, "launcher.nproc=2", f"dump_folder={tmp_path}")
    process = started(titan, 2, *run)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=300)
    assert (process.returncode, stderr) == (status, "")
    stopped = re.search(rf"Stopped by {number.name} after step (\d) of {STEPS}", stdout)
    assert stopped, stdout
    assert (tmp_path / f"checkpoint/step-{stopped[1]}/.metadata").is_file()
    done = titan("titan-npu", "train", *run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss:") == STEPS - int(stopped[1])
    assert metrics(tmp_path) == metrics(uninterrupted[0])


@pytest.mark.parametrize("how", ["a second Ctrl-C", "the launcher killed"])
def test_nobody_is_left_behind(titan: Titan, words: tuple[str, ...], tmp_path: Path, how: str) -> None:
    process = started(
        titan, 1, *words, "training.steps=500", "launcher.nproc=2", f"dump_folder={tmp_path}",
        "dataloader.num_workers=1",
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ranks = [int(pid) for pid in children if "titan_npu" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert len(ranks) == 2
    workers = [
        int(pid) for rank in ranks for pid in Path(f"/proc/{rank}/task/{rank}/children").read_text().split()
    ]
    if how == "the launcher killed":
        process.kill()
    else:
        process.send_signal(signal.SIGINT)
        os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGKILL, 130)
    deadline = time.monotonic() + 20  # loading workers look every five seconds whether their parent lives
    while any(map(alive, ranks + workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in ranks + workers if alive(pid)] == []


def test_what_the_user_can_act_on_stays_one_sentence(
    titan: Titan, words: tuple[str, ...], tmp_path: Path
) -> None:
    """TorchTitan finds this one out inside the ranks."""
    done = titan(
        "titan-npu", "train", *words, "launcher.nproc=2", "training.global_batch_size=6",
        f"dump_folder={tmp_path}",
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("titan-npu: global batch size must be multiple of local batch size")


def test_dry_run_leaves_nothing(titan: Titan, words: tuple[str, ...], tmp_path: Path) -> None:
    done = titan("titan-npu", "train", *words, "launcher.nproc=2", "--dry-run", f"dump_folder={tmp_path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing was trained" in done.stdout and "loss:" not in done.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_as_a_rank_of_torchrun(
    titan: Titan,
    words: tuple[str, ...],
    uninterrupted: tuple[Path, subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    """An outside launcher's ranks train, and launch nothing themselves."""
    done = titan(
        "python", "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "titan_npu", "train", *words,
        "launcher.nproc=2", "training.steps=2", f"dump_folder={tmp_path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss:") == 2 and not (tmp_path / "logs").exists()
    first = [json.loads(line)["loss"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    ours = (uninterrupted[0] / "metrics.jsonl").read_text().splitlines()[:2]
    assert first == [json.loads(line)["loss"] for line in ours]
