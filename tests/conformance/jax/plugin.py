"""The pytest plugin inside a process that runs JAX's tests: adds npu to the tests' devices, logs each outcome.

NPU_JAX_LOG names the log: a JSON line when a test starts and one when it ends, so that a process that dies says
where. NPU_JAX_SKIP names a file of node ids that an earlier process has dealt with.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from jax._src import test_util

_log = Path(os.environ["NPU_JAX_LOG"]).open("a", buffering=1)  # noqa: SIM115 (lives as long as the process)
_original = test_util.run_on_devices


def _run_on_devices(*devices: str, **arguments: Any) -> Any:
    """JAX's decorator, with npu among the devices: a name that JAX does not know skips what it could run."""
    return _original(*devices, "npu", **arguments)


test_util.run_on_devices = _run_on_devices

_MOST_PLATFORMS = {"cpu", "gpu"}
_matches = test_util.test_device_matches


def _device_matches(device_types: Iterable[str]) -> bool:
    """JAX's question for the device; where a test goes on only on cpu and gpu (and tpu), npu too."""
    named = list(device_types)
    return _matches(named) or set(named) >= _MOST_PLATFORMS


test_util.test_device_matches = _device_matches


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    done = set(Path(os.environ["NPU_JAX_SKIP"]).read_text().splitlines())
    wanted = (
        set(Path(os.environ["NPU_JAX_ONLY"]).read_text().splitlines())
        if os.environ.get("NPU_JAX_ONLY")
        else None
    )
    items[:] = [i for i in items if i.nodeid not in done and (wanted is None or i.nodeid in wanted)]
    _write(collected=len(items))


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(start=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _write(
            test=report.nodeid, outcome=_outcome(report), why=_why(report), seconds=round(report.duration, 3)
        )


def _outcome(report: pytest.TestReport) -> str:
    return "passed" if hasattr(report, "wasxfail") and report.outcome == "skipped" else str(report.outcome)


def _why(report: pytest.TestReport) -> str:
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:400]
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)[:1200]


def _write(**row: Any) -> None:
    _log.write(json.dumps(row) + "\n")
