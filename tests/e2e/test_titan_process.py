"""What `titan-npu train` leaves to threads and to the reader of a crash."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import SMALL, Titan

pytestmark = pytest.mark.slow

# An audit hook sees every variable that Python hands to the C library.
ADDED_LATE = """
import os, pathlib, sys

def threads():
    return {(task / "comm").read_text().strip() for task in pathlib.Path("/proc/self/task").iterdir()}

def hook(event, arguments):
    if event == "os.putenv" and os.fsdecode(arguments[0]) not in os.environ and "acl_thread" in threads():
        print("added late:", os.fsdecode(arguments[0]))

sys.addaudithook(hook)
from titan_npu.cli import main
status = main(sys.argv[1:])
print("queue ran:", "acl_thread" in threads())
sys.exit(status)
"""


@pytest.mark.parametrize(
    "words", [(), ("debug.deterministic=true", "debug.seed=3", "dataloader.num_workers=1")]
)
def test_no_variable_is_added_beside_the_queue(titan: Titan, tmp_path: Path, words: tuple[str, ...]) -> None:
    """getenv on the queue's thread would crash, now and then."""
    done = titan(
        sys.executable,
        "-c",
        ADDED_LATE,
        "train",
        *SMALL,
        "training.steps=1",
        f"dump_folder={tmp_path}",
        *words,
    )
    assert done.returncode == 0, done.stderr
    assert "queue ran: True" in done.stdout
    assert "added late" not in done.stdout


def test_a_native_crash_shows_native_frames(titan: Titan, tmp_path: Path) -> None:
    process = titan.popen("titan-npu", "train", *SMALL, "training.steps=500", f"dump_folder={tmp_path}")
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "loss:" in line:
                break
        process.send_signal(signal.SIGSEGV)
        _, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in stderr  # where Python was
    assert "frame #" in stderr  # and where native code was
