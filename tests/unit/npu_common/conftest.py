"""Stand-ins for a machine we are not on: a toolkit folder of tiny libraries, a torch of a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npu_common import _loader, toolkit

MakeToolkit = Callable[..., Path]

RUNTIME = """
#include <stdint.h>
{extra}
int aclInit(const char *config) {{ (void)config; return 0; }}
int aclrtGetDeviceCount(uint32_t *count) {{ *count = {devices}; return 0; }}
"""


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins without a toolkit and without the variables that choose one."""
    monkeypatch.setattr(toolkit, "_active", None)
    monkeypatch.setattr(toolkit, "USUAL_FOLDERS", ())
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "NPU_EMULATOR"):
        monkeypatch.delenv(name, raising=False)
    yield


def compile_library(path: Path, source: str, *link: str) -> Path:
    """A shared library of that C source, with its file name as SONAME."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-x",
        "c",
        "-",
        "-x",
        "none",
        "-o",
        str(path),
        f"-Wl,-soname,{path.name}",
        *link,
    ]
    subprocess.run(command, input=source, text=True, check=True)
    return path


@pytest.fixture
def make_toolkit(tmp_path: Path) -> MakeToolkit:
    """A toolkit folder with every required library; `extra` goes into the source of its runtime."""

    def make(name: str = "cann", devices: int = 2, extra: str = "") -> Path:
        root = tmp_path / name
        for folder in ("opp", "runtime", "compiler"):
            (root / folder).mkdir(parents=True)
        (root / "version.info").write_text("Version=8.5.0\n")
        compile_library(root / "lib64" / _loader.RUNTIME, RUNTIME.format(devices=devices, extra=extra))
        for library in _loader.REQUIRED:
            if library != _loader.RUNTIME:
                compile_library(root / "lib64" / library, "")
        return root

    return make


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs this python on `code`, as a new shell would: `python("import torch", NPU_EMULATOR="off")`."""

    def run(code: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("NPU_", "ASCEND_", "TORCH_", "PYTHON", "LD_"))
        }
        return subprocess.run(
            [sys.executable, *options, "-c", code],
            env=environ | variables,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            check=False,
        )

    return run


@pytest.fixture
def make_torch(tmp_path: Path) -> Callable[..., Path]:
    """A folder for PYTHONPATH: a torch that autoloads torch_npu as the real one does, and tells of it."""

    def make(torch: str = "2.13.0+cpu", torch_npu: str | None = "2.13.0", cuda: str = "None") -> Path:
        site = tmp_path / "site"
        (site / "torch").mkdir(parents=True)
        (site / "torch" / "version.py").write_text(f"__version__ = '{torch}'\ncuda: Optional[str] = {cuda}\n")
        (site / "torch" / "__init__.py").write_text(
            "import os\n"
            "autoload = os.getenv('TORCH_DEVICE_BACKEND_AUTOLOAD', '1')\n"
            "print('autoload', autoload)\n"
            "if autoload == '1':\n"
            "    from importlib.metadata import entry_points\n"
            "    for point in entry_points(group='torch.backends'):\n"
            "        try:\n"
            "            point.load()()\n"
            "        except Exception as error:\n"
            "            raise RuntimeError(f'Failed to load the backend extension: {point.name}') from "
            "error\n"
        )
        if torch_npu is not None:
            info = site / f"torch_npu-{torch_npu}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch_npu\nVersion: {torch_npu}\n")
            (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
            (site / "torch_npu").mkdir()
            (site / "torch_npu" / "__init__.py").write_text(
                "import os\nprint('torch_npu sees', os.environ.get('ASCEND_HOME_PATH'))\n\n\ndef "
                "_autoload(): pass\n"
            )
        return site

    return make
