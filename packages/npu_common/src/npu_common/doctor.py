"""`npu doctor`: what a maintainer needs to know about an environment, and what in it is wrong."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from npu_common import toolkit, versions

REQUIRED = ("torch", "torch_npu")
OPTIONAL = ("torchtitan", "triton", "titan_npu", "xla_npu")
PREFIXES = ("ASCEND_", "NPU_", "HCCL_", "TORCH_NPU", "PYTORCH_NPU", "TORCH_DEVICE", "TORCHDYNAMO", "ACL_")
NAMES = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONPATH",
    "OMP_NUM_THREADS",
    "TASK_QUEUE_ENABLE",
    "TORCH_INDEX_URL",
)
SMOKE = (
    "import torch; x = torch.arange(4, dtype=torch.float32, device='npu:0'); "
    "y = (x.reshape(2, 2) @ x.reshape(2, 2) + 1).cpu().tolist(); assert y == [[3.0, 4.0], [7.0, 12.0]], "
    "y; print('ok')"
)
SMOKE_TIMEOUT = 300  # seconds


@dataclass(frozen=True)
class Package:
    name: str
    installed: str | None
    pinned: str | None
    required: bool


@dataclass(frozen=True)
class Problem:
    """Something that keeps the NPU from being used, and the way out."""

    what: str
    way_out: str


@dataclass
class Report:
    host: dict[str, str]
    packages: list[Package]
    hook: str
    environment: dict[str, str]
    toolkit: dict[str, str] | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)  # name; total, free: bytes
    smoke: str = "not tried"
    problems: list[Problem] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def examine() -> Report:
    """Looks at this environment. CANN and torch are loaded in other processes: neither can end this one."""
    report = Report(host=_host(), packages=_packages(), hook=_hook(), environment=_environment())
    _judge_packages(report)
    _judge_toolkit(report)
    if report.toolkit is not None and not report.problems:
        _try_torch(report)
    return report


def _host() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "python": f"{platform.python_version()} ({sys.executable})",
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.1f} GiB",
        "npu_common": versions.installed("npu_common") or "not installed",
    }


def _packages() -> list[Package]:
    pins = versions.pinned()
    return [
        Package(name, versions.installed(name), pins.get(versions.normalised(name)), name in REQUIRED)
        for name in (*REQUIRED, *OPTIONAL)
    ]


def _environment() -> dict[str, str]:
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith(PREFIXES) or k in NAMES}


def _hook() -> str:
    value = os.environ.get("NPU_COMMON_HOOK", "1")
    if value == "0":
        return "switched off by NPU_COMMON_HOOK=0"
    if "_npu_common_hook" not in sys.modules:
        return "not running: no npu_common.pth in a site-packages folder of this python, or it ran with -S"
    return "on"


def _judge_packages(report: Report) -> None:
    for package in report.packages:
        if package.installed is None:
            if package.required:
                report.problems.append(
                    Problem(
                        f"{package.name} is not installed in {sys.prefix}.",
                        f"pip install {package.name}=={package.pinned} (torch: the CPU build; `make "
                        f"setup` does it all).",
                    )
                )
        elif package.pinned and versions.release(package.installed) != versions.release(package.pinned):
            what = (
                f"{package.name} {package.installed} is installed, and {package.pinned} is what this was "
                "built for."
            )
            report.problems.append(Problem(what, f"pip install {package.name}=={package.pinned}"))
    torch = versions.torch_build()
    if torch is not None:
        report.host["torch build"] = f"CUDA {torch.cuda}" if torch.cuda else "CPU"
    mismatch = versions.torch_npu_mismatch()
    if mismatch:
        way_out = (
            "`TORCH_INDEX_URL=<PyTorch's index of CPU builds> make setup`"
            if torch and torch.cuda
            else "`make setup`"
        )
        report.problems.append(
            Problem(mismatch[0].upper() + mismatch[1:], f"In a clone of this repository: {way_out}.")
        )


def _judge_toolkit(report: Report) -> None:
    try:
        found = toolkit.find()
    except toolkit.ToolkitError as error:
        report.problems.append(
            Problem(str(error), "See the sentence itself; `NPU_EMULATOR=on npu doctor` tries the emulator.")
        )
        return
    report.toolkit = {
        "provider": found.provider,
        "root": str(found.root),
        "version": found.version,
        "reason": found.reason,
    }
    answer = toolkit.probe(found.root, memory=True)
    if "error" in answer:
        what = f"The devices of {found.describe()} cannot be used: {answer['error']}."
        way_out = (
            "Check the driver (npu-smi info) and ASCEND_RT_VISIBLE_DEVICES; for the emulator, install "
            "npu_common again."
        )
        report.problems.append(Problem(what, way_out))
    report.devices = answer.get("devices", [])
    if "error" not in answer and not report.devices:
        way_out = "Check ASCEND_RT_VISIBLE_DEVICES and NPU_EMULATOR_DEVICES."
        report.problems.append(Problem(f"{found.describe()} counts no device.", way_out))


def _try_torch(report: Report) -> None:
    environ = {**os.environ, "NPU_COMMON_HOOK": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    command = [sys.executable, "-c", SMOKE]
    try:
        done = subprocess.run(
            command,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SMOKE_TIMEOUT,
            check=False,
            cwd=Path(sys.prefix),
        )
    except subprocess.TimeoutExpired:
        report.smoke = f"no answer in {SMOKE_TIMEOUT} s"
    else:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        report.smoke = "right" if done.returncode == 0 and done.stdout.strip().endswith("ok") else last
    if report.smoke != "right":
        report.problems.append(
            Problem(
                f"A small computation on npu:0 failed: {report.smoke}",
                f"Run it by hand: {sys.executable} -c {SMOKE!r}",
            )
        )
