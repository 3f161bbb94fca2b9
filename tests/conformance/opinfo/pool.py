"""Runs operators in processes of their own, so that a crash, a hang or an error that sticks to the device
costs one sample.

Every operator gets a fresh process, forked from a server that has imported torch and op_db once and never
touched a device.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest.mock import patch

from .outcome import Result, Status
from .worker import Unit, main

#: After so many ends of its process, the rest of a unit's samples is not tried any more.
ENDS_ALLOWED = {Status.CRASH: 4, Status.HANG: 2, None: 12}
_FALLBACK = re.compile(
    r"operator 'aten::(\S+?)' is not currently supported on the NPU backend and will fall back"
)
#: Seconds, in addition, for the first process, which imports torch and op_db.
_START_UP = 180.0
_ROOT = str(Path(__file__).resolve().parents[__package__.count(".") + 1])
_ENVIRONMENT = {"ASCEND_LAUNCH_BLOCKING": "1", "OMP_NUM_THREADS": "1"}


@dataclass
class _Job:
    """An operator's process, and what is known of it so far."""

    results: list[Result]
    units: list[Unit]
    process: Any = None
    connection: Connection | None = None
    deadline: float = 0.0
    at: tuple[int, int] = (0, -1)  # unit and sample in progress
    ends: dict[Status | None, int] = field(default_factory=dict)
    stderr: Path = Path()


def sweep(
    units: Iterable[Unit],
    workers: int = 2,
    time_out: float = 60.0,
    finished: Callable[[list[Result]], None] = lambda results: None,
    target: Callable[[list[Unit], Connection, str], None] = main,
) -> list[Result]:
    """Runs the units, an operator's in one process, `workers` at a time; `finished` is called after each
    operator.

    `time_out` is in seconds and holds for one sample. `target` is what the processes run.
    """
    if _ROOT not in sys.path:  # the processes import this package by its full name
        sys.path.insert(0, _ROOT)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{__package__}.worker"])
    with patch.dict(os.environ, _ENVIRONMENT):  # for the processes, which the server starts; not for this one
        forkserver.ensure_running()
    by_op: dict[str, list[Unit]] = {}
    for unit in units:
        by_op.setdefault(unit.op, []).append(unit)
    waiting = deque(_Job([Result(u.op, u.dtype, u.mode) for u in group], group) for group in by_op.values())
    running: list[_Job] = []
    done: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="opinfo-") as folder:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.popleft()
                _start(job, context, target, Path(folder), time_out)
                running.append(job)
            _wait(running, time_out)
            for job in [j for j in running if j.connection is None]:
                running.remove(job)
                if job.units:
                    waiting.appendleft(job)
                else:
                    done += job.results
                    finished(job.results)
    return done


def _start(job: _Job, context: Any, target: Callable[..., None], folder: Path, time_out: float) -> None:
    ours, theirs = context.Pipe(duplex=False)
    handle, path = tempfile.mkstemp(dir=folder)
    os.close(handle)
    job.stderr = Path(path)
    job.process = context.Process(target=target, args=(job.units, theirs, path), daemon=True)
    job.process.start()
    theirs.close()
    job.connection, job.at = ours, (0, -1)
    job.deadline = time.monotonic() + time_out + _START_UP


def _wait(running: list[_Job], time_out: float) -> None:
    soonest = min(job.deadline for job in running)
    connections = [job.connection for job in running if job.connection]
    ready = wait(connections, timeout=max(0.0, soonest - time.monotonic()))
    for job in running:
        if job.connection in ready:
            _receive(job, time_out)
        elif time.monotonic() > job.deadline:
            os.kill(job.process.pid, signal.SIGKILL)
            _ended(job, Status.HANG, f"no answer within {time_out:.0f} s")


def _receive(job: _Job, time_out: float) -> None:
    assert job.connection is not None
    try:
        while job.connection is not None and job.connection.poll():
            _take(job, job.connection.recv(), time_out)
    except (EOFError, ConnectionResetError):
        job.process.join()
        code = job.process.exitcode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        last = [line for line in job.stderr.read_text(errors="replace").splitlines() if line.strip()][-3:]
        _ended(job, Status.CRASH, f"the process died: {how}; it last said: {' | '.join(last)[-400:]}")


def _take(job: _Job, message: tuple[Any, ...], time_out: float) -> None:
    job.deadline = time.monotonic() + time_out
    match message:
        case ("at", int(unit), int(sample)):
            job.at = unit, sample
        case ("sample", int(unit), status, str(text), names, str(operands), float(seconds)):
            result = _result(job, unit)
            result.seconds = round(result.seconds + seconds, 3)
            if status is None:
                result.counts["cpu refuses"] = result.counts.get("cpu refuses", 0) + 1
            else:
                result.add(status, text, operands, names)
        case ("note", int(unit), str(text)):
            _result(job, unit).notes.append(text)
        case ("unusable",):
            _ended(job, None, "")
        case ("end",):
            _close(job)
            job.units = []


def _result(job: _Job, unit: int) -> Result:
    return next(
        r for r in job.results if r.key == (job.units[unit].op, job.units[unit].dtype, job.units[unit].mode)
    )


def _ended(job: _Job, status: Status | None, message: str) -> None:
    """The process of a job is gone (or of no more use): counts its sample, and leaves in `units` what is
    still to be run.
    """
    unit, sample = job.at
    result = _result(job, unit)
    if status is not None:
        result.add(status, message, f"sample {sample} of the operator's samples")
    ends = dict(job.ends)
    ends[status] = ends.get(status, 0) + 1
    _close(job)
    rest = job.units[unit:]
    if ends[status] >= ENDS_ALLOWED[status]:
        result.notes.append(f"samples after number {sample} were not tried: the process ended too often")
        rest, ends = rest[1:], {}
    else:
        rest = [replace(rest[0], start=sample + 1), *rest[1:]]
    job.units, job.ends = rest, ends


def _close(job: _Job) -> None:
    assert job.connection is not None
    job.connection.close()
    job.connection = None
    job.process.join(10)
    if job.process.is_alive():
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.join()
    fallbacks = set(_FALLBACK.findall(job.stderr.read_text(errors="replace")))
    for result in job.results:
        result.fallbacks = sorted({*result.fallbacks, *fallbacks})
    job.stderr.unlink()
