"""Makes the development environment: .venv with the pinned packages and ours, editable (`make setup`).

Each step leaves a stamp, a hash of what it depends on; a step whose stamp is still right is skipped, so that
a second run takes seconds. Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "set_up_stamps.json"
CONSTRAINTS = ROOT / "versions" / "constraints.txt"
NATIVE = ROOT / "native"
BUILD = ROOT / "build" / "native"
PACKAGES = ("npu_common", "titan_npu", "xla_npu")
MEMORY_PER_COMPILER = 2 * 2**30  # bytes: a translation unit that includes ATen's headers


class SetUpError(Exception):
    """What keeps the environment from being made, and what to do."""


@dataclass(frozen=True)
class Step:
    name: str
    inputs: Callable[[], Iterable[Path | str]]  # files and words whose change makes the step due again
    run: Callable[[], None]


def pin(name: str) -> str:
    """The pinned requirement of a package, "torch==2.13.0"."""
    for line in CONSTRAINTS.read_text().splitlines():
        if line.startswith(f"{name}=="):
            return line.strip()
    raise SetUpError(f"{CONSTRAINTS} pins no version of {name}")


def say(text: str) -> None:
    print(f"[setup] {text}", flush=True)


def pip(*arguments: str) -> None:
    """pip of the .venv, kept to the pinned versions.

    Raises:
        SetUpError: pip failed; its own output stands above.
    """
    # The start-up hook of an npu_common that is being replaced has no business in its own build.
    environ = {**os.environ, "NPU_COMMON_HOOK": "0", "CMAKE_BUILD_PARALLEL_LEVEL": str(compilers())}
    command = [str(PYTHON), "-m", "pip", *arguments]
    if subprocess.run(command, env=environ, check=False, cwd=ROOT).returncode != 0:
        raise SetUpError(f"this failed, see above: pip {' '.join(arguments)}")


def install(*arguments: str) -> None:
    pip("install", "-qq", "--disable-pip-version-check", "--constraint", str(CONSTRAINTS), *arguments)


def compilers() -> int:
    """How many compilers may run at once: the cores, as far as there is memory for them."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // MEMORY_PER_COMPILER))


def check_machine() -> None:
    """Raises SetUpError when this machine lacks what no Python package brings."""
    if sys.version_info[:2] != (3, 11):
        raise SetUpError(
            f"Python 3.11 is needed (the pinned wheels are for it), this is {sys.version.split()[0]}: "
            "make setup PYTHON=python3.11"
        )
    if shutil.which("c++") is None and shutil.which("g++") is None:
        raise SetUpError(
            "a C++20 compiler is needed, and there is no c++ or g++: on Debian, apt-get install g++"
        )


def make_venv() -> None:
    if subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False).returncode != 0:
        raise SetUpError("python -m venv failed: on Debian, apt-get install python3.11-venv")
    install(pin("pip"))


def install_torch() -> None:
    """The CPU build of torch: the CUDA build of the usual index takes gigabytes, and torch_npu refuses it.

    Raises:
        SetUpError: the index serves no CPU build and TORCH_INDEX_URL names no other one, or what came is a
            CUDA build.
    """
    wanted = pin("torch")
    index = os.environ.get("TORCH_INDEX_URL", "").strip()
    if cpu_build_offered(wanted):
        say(f"{wanted}: pip's own sources offer a CPU build")
        install("--no-deps", wanted)
    elif index:
        say(f"{wanted}: pip's own sources offer no CPU build, so it is taken from TORCH_INDEX_URL={index}")
        install("--no-deps", "--index-url", index, wanted)  # what torch needs comes with the dependencies
    else:
        raise SetUpError(
            f"pip's own sources offer {wanted} only as a build that is not marked +cpu, which is the CUDA "
            "build (gigabytes, and torch_npu refuses it). Set TORCH_INDEX_URL to PyTorch's index of CPU "
            "builds, or to any index that serves one, and "
            "run make setup again; or put a +cpu wheel where pip looks (PIP_FIND_LINKS)."
        )
    check_torch()


def cpu_build_offered(wanted: str) -> bool:
    """Whether pip would take a +cpu wheel for `wanted`. Reads the index, downloads no wheel."""
    command = [str(PYTHON), "-m", "pip", "index", "versions", "--json", "torch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetUpError(f"pip finds no torch at all:\n{done.stderr.strip()}")
    return f"{wanted.split('==')[1]}+cpu" in json.loads(done.stdout)["versions"]


def check_torch() -> None:
    """Raises SetUpError when the torch that was installed is a CUDA build, and removes it."""
    found = list((VENV / "lib").glob("python3*/site-packages/torch/version.py"))
    text = found[0].read_text() if found else ""
    if not text:
        raise SetUpError("pip reported success, but .venv has no torch")
    build = re.search(
        r"^cuda\b[^=]*=\s*'([^']+)'", text, re.MULTILINE
    )  # torch.version.cuda, None in a CPU build
    if build:
        pip("uninstall", "--yes", "--quiet", "torch")
        raise SetUpError(
            f"the torch that was installed is a build for CUDA {build[1]}, which torch_npu refuses; it "
            "was removed. Set TORCH_INDEX_URL to an index that serves the CPU build."
        )


def requirements() -> list[str]:
    """What our packages need, less our packages themselves."""
    names: dict[str, None] = {}
    for package in present():
        project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text())["project"]
        extras = project.get("optional-dependencies", {})
        names |= dict.fromkeys([*project.get("dependencies", []), *extras.get("torch", [])])
    return [name for name in names if name.split("[")[0] not in PACKAGES]


def present() -> list[str]:
    return [package for package in PACKAGES if (ROOT / "packages" / package / "pyproject.toml").is_file()]


def install_dependencies() -> None:
    install("--group", f"{ROOT / 'pyproject.toml'}:dev", *requirements())
    check_torch()


def install_npu_common() -> None:
    """Builds native/ in build/native, which is kept; the toolkit goes into .venv, Python edits are live."""
    install(
        "--no-build-isolation",
        "--no-deps",
        f"--config-settings=build-dir={BUILD}",
        "--config-settings=cmake.define.CMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "--config-settings=cmake.define.NPU_TESTS=ON",
        "--editable",
        str(ROOT / "packages" / "npu_common"),
    )


def install_pure(package: str) -> None:
    """A package of ours that is all Python."""
    install("--no-build-isolation", "--no-deps", "--editable", str(ROOT / "packages" / package))


def files(*patterns: str) -> list[Path]:
    found = (path for pattern in patterns for path in ROOT.glob(pattern))
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def steps() -> list[Step]:
    """The steps, in order; one that is due makes those after it look again, as their inputs hold its name."""
    manifests = [CONSTRAINTS, ROOT / "pyproject.toml", *files("packages/*/pyproject.toml")]
    result = [
        Step("virtual environment", lambda: [sys.version, str(VENV), pin("pip")], make_venv),
        Step("torch, CPU build", lambda: [pin("torch")], install_torch),
        Step("dependencies and tools", lambda: manifests, install_dependencies),
        Step(
            "npu_common with the native libraries",
            lambda: [
                CONSTRAINTS,
                *files("native/**/*", "packages/npu_common/*", "packages/npu_common/src/npu_common/*.pth"),
            ],
            install_npu_common,
        ),
    ]
    for package in present():
        if package != "npu_common":
            inputs = [CONSTRAINTS, ROOT / "packages" / package / "pyproject.toml"]
            result.append(Step(package, lambda i=inputs: i, lambda p=package: install_pure(p)))  # type: ignore[misc]
    return result


def digest(inputs: Iterable[Path | str]) -> str:
    total = hashlib.sha256()
    for item in inputs:
        total.update(f"{item}\0".encode())
        if isinstance(item, Path):
            total.update(item.read_bytes())
    return total.hexdigest()


def main() -> None:
    check_machine()
    stamps: dict[str, str] = {}
    if PYTHON.exists() and STAMPS.is_file():
        stamps = json.loads(STAMPS.read_text())
    began = time.monotonic()
    for index, step in enumerate(steps()):
        stamp = digest(step.inputs())
        if stamps.get(step.name) == stamp:
            say(f"{step.name}: up to date")
            continue
        say(f"{step.name} ...")
        start = time.monotonic()
        if index == 0:
            stamps = {}
        step.run()
        stamps[step.name] = stamp
        STAMPS.write_text(json.dumps(stamps, indent=1))
        say(f"{step.name}: done in {time.monotonic() - start:.0f} s")
    say(
        f"ready in {time.monotonic() - began:.0f} s: {VENV.relative_to(ROOT)}/bin holds python, npu and "
        "titan-npu"
    )


if __name__ == "__main__":
    try:
        main()
    except SetUpError as error:
        sys.exit(f"[setup] {error}")
