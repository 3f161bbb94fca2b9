"""`make setup`: which torch it takes, and what makes a step due again.

pip runs for real, on package indices of this test's own with a torch of two files in them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import venv
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path
from types import ModuleType

import pip
import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script ci/set_up.py, set on a repository of its own: nothing but a pin of torch."""
    spec = importlib.util.spec_from_file_location("set_up", REPOSITORY / "ci" / "set_up.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "set_up", module)
    spec.loader.exec_module(module)
    for name, path in {
        "ROOT": tmp_path,
        "VENV": tmp_path / ".venv",
        "PYTHON": tmp_path / ".venv" / "bin" / "python",
        "STAMPS": tmp_path / ".venv" / "stamps.json",
        "CONSTRAINTS": tmp_path / "constraints.txt",
    }.items():
        monkeypatch.setattr(module, name, path)
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "TORCH_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")  # this machine's own indices
    return module


def make_index(folder: Path, version: str, cuda: str) -> str:
    """A package index with one wheel of torch; returns its address."""
    page = folder / "torch"
    page.mkdir(parents=True)
    contents = {
        "torch/__init__.py": "",
        "torch/version.py": f"__version__ = '{version}'\ncuda: Optional[str] = {cuda}\n",
        f"torch-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        f"torch-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"torch-{version}.dist-info/RECORD"
    digests = {
        name: urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for name, text in contents.items()
    }
    lines = [f"{name},sha256={digests[name]},{len(text)}" for name, text in contents.items()]
    contents[record] = "\n".join([*lines, f"{record},,", ""])
    wheel = page / f"torch-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    (page / "index.html").write_text(f'<a href="{wheel.name.replace("+", "%2B")}">{wheel.name}</a>')
    return folder.as_uri()


@pytest.fixture
def installed(set_up: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """set_up with a .venv that has this pip; the usual index serves a CUDA build, as the real one does."""
    venv.create(set_up.VENV, with_pip=False, symlinks=True)
    (theirs,) = (set_up.VENV / "lib").glob("python3*/site-packages")
    for entry in Path(pip.__file__).parent.parent.glob("pip*"):
        (theirs / entry.name).symlink_to(entry)
    monkeypatch.setenv("PIP_INDEX_URL", make_index(set_up.ROOT / "usual", "2.13.0", "'13.0'"))
    return set_up


def torch_in(set_up: ModuleType) -> str | None:
    found = list((set_up.VENV / "lib").glob("python3*/site-packages/torch/version.py"))
    return found[0].read_text() if found else None


@pytest.mark.slow
def test_a_cuda_build_is_refused_before_it_is_installed(installed: ModuleType) -> None:
    with pytest.raises(installed.SetUpError, match="TORCH_INDEX_URL"):
        installed.install_torch()
    assert torch_in(installed) is None


@pytest.mark.slow
def test_the_index_that_is_named_serves_the_cpu_build(
    installed: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    index = make_index(installed.ROOT / "cpu", "2.13.0+cpu", "None")
    monkeypatch.setenv("TORCH_INDEX_URL", index)
    installed.install_torch()
    assert "'2.13.0+cpu'" in (torch_in(installed) or "")
    assert f"TORCH_INDEX_URL={index}" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cpu_build_beside_the_usual_one_is_taken(
    installed: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", make_index(installed.ROOT / "beside", "2.13.0+cpu", "None"))
    installed.install_torch()
    assert "'2.13.0+cpu'" in (torch_in(installed) or "")


@pytest.mark.slow
def test_a_cuda_build_from_the_named_index_is_removed_again(
    installed: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_INDEX_URL", make_index(installed.ROOT / "cuda", "2.13.0+cu130", "'13.0'"))
    with pytest.raises(
        installed.SetUpError, match=r"build for CUDA 13\.0, which torch_npu refuses; it was removed"
    ):
        installed.install_torch()
    assert torch_in(installed) is None


def test_a_step_runs_when_its_inputs_change_and_only_then(
    set_up: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []
    source = tmp_path / "source.cpp"
    source.write_text("1")

    def make_venv() -> None:
        set_up.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        set_up.PYTHON.touch()
        ran.append("venv")

    steps = [
        set_up.Step("venv", lambda: ["3.11"], make_venv),
        set_up.Step("native", lambda: [source], lambda: ran.append("native")),
    ]
    monkeypatch.setattr(set_up, "steps", lambda: steps)
    set_up.main()
    set_up.main()
    assert ran == ["venv", "native"]
    source.write_text("2")
    set_up.main()
    assert ran == ["venv", "native", "native"]


def test_a_step_that_failed_is_due_again(set_up: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up.PYTHON.parent.mkdir(parents=True)
    set_up.PYTHON.touch()
    set_up.STAMPS.write_text(json.dumps({}))

    def fail() -> None:
        raise set_up.SetUpError("no compiler")

    monkeypatch.setattr(set_up, "steps", lambda: [set_up.Step("venv", lambda: [], fail)])
    for _ in range(2):
        with pytest.raises(set_up.SetUpError, match="no compiler"):
            set_up.main()
    assert json.loads(set_up.STAMPS.read_text()) == {}
