"""Runs JAX's test files in processes that may die or hang without ending the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_POLL = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """`outcome`: passed, skipped, failed, crashed or hung."""

    outcome: str
    why: str = ""
    seconds: float = 0.0


def run_file(
    tests: Path, file: str, platforms: str, cases: int, patience: float, only: Iterable[str] | None = None
) -> dict[str, Outcome]:
    """Outcomes of a file's tests by node id.

    Args:
        tests: JAX's `tests` folder.
        platforms: JAX_PLATFORMS.
        cases: JAX_NUM_GENERATED_CASES.
        patience: seconds that one test may take.
        only: node ids; None is all.
    """
    done: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, name) for name in ("log", "skip", "only")}
        environ = {
            **os.environ,
            "JAX_PLATFORMS": platforms,
            "JAX_NUM_GENERATED_CASES": str(cases),
            "NPU_JAX_LOG": str(paths["log"]),
            "NPU_JAX_SKIP": str(paths["skip"]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        if only is not None:
            paths["only"].write_text("\n".join(only))
            environ["NPU_JAX_ONLY"] = str(paths["only"])
        while True:
            paths["skip"].write_text("\n".join(done))
            paths["log"].write_text("")
            died = _run(tests, file, environ, paths["log"], patience)
            before = len(done)
            running = _read(paths["log"], done)
            if not died:
                return done
            if running is not None:
                done[running] = died
            if len(done) == before:  # it dies before its first test: not again
                done[f"{file}::collection"] = died
                return done


def _run(tests: Path, file: str, environ: Mapping[str, str], log: Path, patience: float) -> Outcome | None:
    """One process over what is left of the file. None if it came to its end."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.conformance.jax.plugin", "-p", "no:cacheprovider",
        "-p", "no:faulthandler", "--rootdir", str(tests), "-c", os.devnull, "--no-header", "--tb=line", "-W", "ignore",
        f"{file}.py",
    ]  # fmt: skip
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=tests, env=dict(environ), stdout=output, stderr=output, start_new_session=True
        )
        size, since = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(_POLL)
            if log.stat().st_size != size:
                size, since = log.stat().st_size, time.monotonic()
            elif time.monotonic() - since > patience:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return Outcome("hung", f"nothing for {patience:.0f} s")
        if process.returncode in (0, 1, 5):  # pytest: passed, failed, nothing collected
            return None
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()[-4:]
    return Outcome("crashed", f"exit status {process.returncode}: " + " | ".join(lines))


def _read(log: Path, done: dict[str, Outcome]) -> str | None:
    """Takes the log's outcomes into `done`; returns the test that had started and not ended."""
    running = None
    for line in log.read_text().splitlines():
        row = json.loads(line)
        if "start" in row:
            running = row["start"]
        elif "test" in row:
            done[row["test"]] = Outcome(row["outcome"], row["why"], row["seconds"])
            running = None
    return running
