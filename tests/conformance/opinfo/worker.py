"""Runs in a process of its own: the units of one operator, sample by sample, reporting each over a pipe."""

from __future__ import annotations

import os
import sys
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo

from . import random_ops
from .compare import Difference, differences, tolerance_of
from .outcome import Status, classify
from .samples import Sample, in_double, operators, run, samples

NPU = "npu:0"
_NO_DOUBLE = "Device do not support double dtype now"


@dataclass(frozen=True)
class Unit:
    """One operator on one dtype in one mode, from sample `start` on."""

    op: str
    dtype: str
    mode: str
    at_most: int
    layout: str
    start: int = 0


def main(units: list[Unit], connection: Connection, stderr_path: str) -> None:
    """Entry point of the process. Sends ("at", unit, sample) before and ("sample", unit, status, ...) after
    each sample, then ("end",).

    Ends early, with ("unusable",), if the device no longer computes after an error: that error has stuck to
    the device and would be blamed on the next sample.
    """
    stderr = os.open(stderr_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stderr, 2)
    os.dup2(stderr, 1)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for index, unit in enumerate(units):
        if not _run_unit(index, unit, connection, stderr_path):
            connection.send(("unusable",))
            break
    else:
        connection.send(("end",))
    connection.close()
    sys.stdout.flush()
    os._exit(0)  # leave without tearing the device down: a crash there is another test's business


def _run_unit(index: int, unit: Unit, connection: Connection, stderr_path: str) -> bool:
    op = operators()[unit.op]
    dtype = getattr(torch, unit.dtype)
    connection.send(("at", index, unit.start - 1))
    try:
        cases = samples(op, dtype, unit.mode, unit.at_most)
    except Exception as error:  # the record's own sample generator fails on the CPU
        connection.send(("note", index, f"its samples cannot be made: {type(error).__name__}: {error}"[:200]))
        return True
    for number, case in enumerate(cases[unit.start :], unit.start):
        connection.send(("at", index, number))
        started = time.monotonic()
        status, message, names = _run_sample(op, dtype, unit, case, stderr_path)
        seconds = time.monotonic() - started
        text = case.describe() if status not in (Status.PASS, None) else ""
        connection.send(("sample", index, status, message, names, text, seconds))
        if status not in (None, Status.PASS, Status.RANDOM) and not _usable():
            return False
    return True


def _run_sample(
    op: OpInfo, dtype: torch.dtype, unit: Unit, case: Sample, stderr_path: str
) -> tuple[Status | None, str, list[str]]:
    """Status (None: CPU torch refuses it), message, and operators or differences named, of one sample."""

    def on_cpu() -> Any:
        return run(op, case, unit.mode, "cpu")

    torch.manual_seed(0)
    try:
        expected = on_cpu()
        random = op.name in random_ops.RANDOM and random_ops.is_random(on_cpu, expected)
    except Exception:
        return None, "", []
    try:
        actual = run(op, case, unit.mode, NPU, unit.layout, expected)
        torch.npu.synchronize()
        if op.name in random_ops.UNINITIALISED:
            found, verdict = random_ops.check_form(expected[:1], actual[:1]), Status.RANDOM
        elif random:
            if unit.mode == "backward":
                found, verdict = random_ops.check_form(expected, actual), Status.RANDOM
            else:
                found, verdict = random_ops.check_draw(lambda: on_cpu()[0], actual[0]), Status.RANDOM
        else:
            found, verdict = _compare(op, dtype, unit, case, expected, actual), Status.PASS
    except Exception as error:
        return classify(error)
    if not found:
        return verdict, "", []
    if all(d.kind == "narrowed" for d in found) and _said(_NO_DOUBLE, stderr_path):
        return Status.REFUSED, f"torch_npu has no double and says so; {found[0].text}", []
    return Status.WRONG, "; ".join(d.text for d in found)[:600], sorted({d.kind for d in found})


def _compare(
    op: OpInfo, dtype: torch.dtype, unit: Unit, case: Sample, expected: Any, actual: Any
) -> list[Difference]:
    tolerance = tolerance_of(op, dtype)
    found = differences(expected, actual, tolerance)
    if not any(d.kind == "value" for d in found) or not (dtype.is_floating_point or dtype.is_complex):
        return found
    try:
        precise = run(op, in_double(case, dtype), unit.mode, "cpu")
    except Exception:  # no double-precision reference to ask: the plain comparison stands
        return found
    return differences(expected, actual, tolerance, precise)


def _usable() -> bool:
    """Whether the device still computes (an asynchronous error sticks to it until it is reset)."""
    try:
        return bool((torch.ones(4, device=NPU) + 1).cpu().sum() == 8)
    except Exception:
        return False


def _said(words: str, stderr_path: str) -> bool:
    """Whether the process has written these words to its standard error."""
    return words in Path(stderr_path).read_text(errors="replace")
