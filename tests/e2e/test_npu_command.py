"""`npu doctor`, `npu env`, `npu run`, `npu ops`, and plain python, on the real torch and torch_npu."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
ADD_ONE = "import torch; print((torch.ones(2, device='npu') + 1).cpu().tolist())"
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.slow  # each process imports torch and torch_npu: seconds


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command of this environment as a new shell would: `run("npu", "doctor", NPU_EMULATOR="off")`."""

    def start(command: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        ours = ("NPU_", "ASCEND_", "TORCH_", "PYTHON", "LD_")
        environ = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        path = command if "/" in command else str(BIN / command)
        return subprocess.run(
            [path, *arguments],
            env=environ | variables,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            check=False,
        )

    return start


def test_plain_python_with_nothing_set(run: Run) -> None:
    done = run("python", "-c", ADD_ONE)
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\n"), done.stderr


def test_torch_npu_imported_first_and_by_name(run: Run) -> None:
    done = run("python", "-c", f"import torch_npu; {ADD_ONE}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\n"), done.stderr


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_children_of_multiprocessing(method: str, run: Run, tmp_path: Path) -> None:
    script = tmp_path / "children.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "def work(value):\n"
        "    import torch\n"
        "    return (torch.full((2,), float(value), device='npu') + 1).sum().item()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:\n"
        "        print(pool.map(work, [1, 2]))\n"
    )
    done = run("python", str(script), method)
    assert (done.returncode, done.stdout) == (0, "[4.0, 6.0]\n"), done.stderr


def test_torch_imports_where_no_cann_is_allowed(run: Run) -> None:
    done = run("python", "-c", "import torch; print(torch.ones(2).sum().item())", NPU_EMULATOR="off")
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    (line,) = done.stderr.splitlines()
    assert "torch is imported without torch_npu" in line and "NPU_EMULATOR=off" in line


class TestRun:
    def test_code(self, run: Run) -> None:
        code = "import torch; x = torch.eye(8, device='npu'); print((x @ x).relu().sum().item())"
        done = run("npu", "run", "-c", code)
        assert (done.returncode, done.stdout) == (0, "8.0\n"), done.stderr

    def test_arguments_are_python_s_own(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "show.py").write_text("import sys; print(__name__, sys.argv[1:])")
        arguments = ["--help", "-m", "--", "a b", "-c"]
        for command in (["show.py"], ["-m", "show"]):
            done = run("npu", "run", *command, *arguments)
            assert done.stdout == f"__main__ {arguments}\n", done.stderr
        assert run("npu", "run", "-c", "import sys; print(sys.argv)", "--help").stdout == "['-c', '--help']\n"

    def test_cann_is_loaded_before_the_script_starts(self, run: Run) -> None:
        code = (
            "import ctypes; n = ctypes.c_uint32(); "
            "print(ctypes.CDLL('libascendcl.so').aclrtGetDeviceCount(ctypes.byref(n)), n.value > 0)"
        )
        assert run("npu", "run", "-c", code, NPU_COMMON_HOOK="0").stdout == "0 True\n"

    def test_exit_status_and_traceback(self, run: Run, tmp_path: Path) -> None:
        assert run("npu", "run", "-c", "import sys; sys.exit(7)").returncode == 7
        (tmp_path / "fails.py").write_text("def f():\n    raise ValueError('mine')\n\n\nf()\n")
        done = run("npu", "run", "fails.py")
        assert done.returncode == 1
        assert done.stderr == run("python", "fails.py").stderr  # no frame of ours

    def test_no_arguments(self, run: Run) -> None:
        done = run("npu", "run")
        assert done.returncode == 2
        assert "script.py" in done.stderr


class TestBadInput:
    @pytest.mark.parametrize("arguments", [("run", "-c", "print('ran')"), ("env",)])
    def test_empty_folder_and_no_emulator(self, arguments: tuple[str, ...], run: Run, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        done = run("npu", *arguments, ASCEND_HOME_PATH=str(tmp_path / "empty"), NPU_EMULATOR="off")
        assert done.returncode == 1
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert (
            "NPU_EMULATOR=off" in line and f"{tmp_path / 'empty'}" in line and "lib64/libascendcl.so" in line
        )

    def test_unknown_mode(self, run: Run) -> None:
        done = run("npu", "env", NPU_EMULATOR="ja")
        assert done.returncode == 1
        assert done.stderr == "npu: NPU_EMULATOR=ja is not a choice; it is auto (the default), on or off.\n"

    def test_junk_for_cann_is_said_and_the_emulator_taken(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "junk" / "lib64").mkdir(parents=True)
        for name in ("ascendcl", "hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel", "opapi"):
            (tmp_path / "junk" / "lib64" / f"lib{name}.so").write_bytes(b"\x7fELF junk")
        done = run("python", "-c", ADD_ONE, ASCEND_HOME_PATH=str(tmp_path / "junk"))
        assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\n"), done.stderr
        assert "junk/lib64/libascendcl.so" in done.stderr and "emulator is taken instead" in done.stderr


class TestDoctor:
    def test_report(self, run: Run) -> None:
        done = run("npu", "doctor", "--json", NPU_EMULATOR_DEVICES="3")
        assert done.returncode == 0, done.stdout
        report = json.loads(done.stdout)
        assert report["problems"] == []
        assert report["smoke"] == "right"
        assert len(report["devices"]) == 3
        assert all(0 < device["free"] <= device["total"] for device in report["devices"])
        assert report["environment"] == {"NPU_EMULATOR_DEVICES": "3"}
        assert {p["name"]: p["installed"] for p in report["packages"]}["torch_npu"] == "2.13.0"

    def test_for_people(self, run: Run) -> None:
        done = run("npu", "doctor")
        assert done.returncode == 0, done.stdout
        for word in ("Toolkit", "reason", "torch_npu", "npu:0", "GiB free", "Nothing is missing."):
            assert word in done.stdout

    def test_smoke_tries_every_layer(self, run: Run) -> None:
        done = run("npu", "doctor", "--smoke", "--json")
        layers = {each["layer"]: each for each in json.loads(done.stdout)["layers"]}
        assert done.returncode == 0, layers
        assert len(layers) == 7
        assert {each["status"] for each in layers.values()} == {"right"}, layers

    def test_failure_is_an_exit_status(self, run: Run) -> None:
        done = run("npu", "doctor", NPU_EMULATOR="off")
        assert done.returncode == 1
        assert "Problem: NPU_EMULATOR=off allows only CANN" in done.stdout


class TestOps:
    def test_one_operator(self, run: Run) -> None:
        done = run("npu", "ops", "Add")
        assert done.returncode == 0, done.stderr
        assert "input x1 (required)" in done.stdout

    def test_unknown(self, run: Run) -> None:
        done = run("npu", "ops", "aclnnSofmax")
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert "did you mean aclnnSoftmax" in line


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of another environment: it has torch and torch_npu and all else, but nothing of ours."""
    folder = tmp_path_factory.mktemp("other environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (theirs,) = (folder / "lib").glob("python3*/site-packages")
    (ours,) = (BIN.parent / "lib").glob("python3*/site-packages")
    for entry in ours.iterdir():
        if "npu_common" not in entry.name and "titan_npu" not in entry.name and entry.suffix != ".pth":
            (theirs / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


class TestEnv:
    def test_other_environment_works_after_eval(self, run: Run, other_python: Path) -> None:
        without = run(str(other_python), "-c", ADD_ONE)
        assert without.returncode == 1
        assert "libascendcl.so" in without.stderr or "libhccl.so" in without.stderr
        npu = BIN / "npu"
        script = f'eval "$("{npu}" env)"; exec "{other_python}" -c "$CODE"'
        done = run("/bin/sh", "-c", script, CODE=f"{ADD_ONE}; import sys; print('npu_common' in sys.modules)")
        assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\nFalse\n"), done.stderr
