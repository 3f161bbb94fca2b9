"""What the doctor finds wrong, and the way out it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from npu_common import doctor, toolkit, versions

RUNTIME_OF_A_CARD = """
#include <stddef.h>
#include <stdint.h>
const char *aclrtGetSocName(void) { return "Ascend910B9"; }
int aclrtSetDevice(int32_t device) { return device < 2 ? 0 : 107001; }
int aclrtResetDevice(int32_t device) { (void)device; return 0; }
int aclrtGetMemInfo(int attr, size_t *free, size_t *total) { *free = 5; *total = attr == 1 ? 7 : 0;
    return 0; }
"""


@pytest.fixture
def emulator(make_toolkit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_toolkit("emulator", extra=RUNTIME_OF_A_CARD)
    (root / toolkit.EMULATOR_MARK).touch()
    monkeypatch.setattr(toolkit, "emulator_folder", lambda: root)
    return root


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """Versions as the doctor sees them; a test changes them."""
    table: dict[str, str | None] = {"torch": "2.13.0+cpu", "torch_npu": "2.13.0"}
    monkeypatch.setattr(versions, "installed", lambda name: table.get(name))
    monkeypatch.setattr(
        versions, "torch_build", lambda: versions.TorchBuild(Path("/torch"), table["torch"] or "", None)
    )
    monkeypatch.setattr(doctor, "SMOKE", "print('ok')")
    return table


def test_a_sound_environment_has_no_problems(emulator: Path, installed: dict[str, str | None]) -> None:
    report = doctor.examine()
    assert report.problems == []
    assert report.devices == [{"name": "Ascend910B9", "total": 7, "free": 5}] * 2
    assert report.smoke == "right"
    assert json.loads(report.as_json())["toolkit"]["root"] == str(emulator)


def test_missing_torch_npu(emulator: Path, installed: dict[str, str | None]) -> None:
    installed["torch_npu"] = None
    (problem,) = doctor.examine().problems
    assert "torch_npu is not installed" in problem.what
    assert "torch_npu==2.13.0" in problem.way_out


def test_another_version_of_torch_npu(emulator: Path, installed: dict[str, str | None]) -> None:
    installed["torch_npu"] = "2.12.0"
    text = doctor.examine().as_json()
    assert "torch_npu 2.12.0 is installed, and 2.13.0 is what this was built for" in text


def test_a_cuda_build_of_torch(
    emulator: Path, installed: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        versions, "torch_build", lambda: versions.TorchBuild(Path("/torch"), "2.13.0", "13.0")
    )
    (problem,) = doctor.examine().problems
    assert "CUDA 13.0" in problem.what and "refuses" in problem.what
    assert "TORCH_INDEX_URL" in problem.way_out


def test_no_cann_where_only_cann_is_allowed(
    emulator: Path, installed: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPU_EMULATOR", "off")
    report = doctor.examine()
    assert report.toolkit is None and report.smoke == "not tried"
    assert "NPU_EMULATOR=off allows only CANN" in report.problems[0].what


def test_devices_that_answer_an_error(
    make_toolkit: Callable[..., Path], installed: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_toolkit(
        "broken", devices=3, extra=RUNTIME_OF_A_CARD
    )  # its third device does not exist: ACL 107001
    (root / toolkit.EMULATOR_MARK).touch()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(root))
    (problem,) = doctor.examine().problems
    assert "aclrtSetDevice answered 107001" in problem.what


def test_a_computation_that_fails(
    emulator: Path, installed: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SMOKE", "raise RuntimeError('aclnnMatmul is not implemented')")
    (problem,) = doctor.examine().problems
    assert "aclnnMatmul is not implemented" in problem.what
