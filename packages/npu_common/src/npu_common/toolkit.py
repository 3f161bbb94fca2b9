"""Finds this machine's CANN, or the host emulator that npu_common ships, and loads it once.

    toolkit = activate()
    print(toolkit.describe())

NPU_EMULATOR decides between the two: `auto` (the default) takes CANN where it loads and has a device, the
emulator otherwise; `on` takes the emulator, `off` CANN or nothing. Which one it was is for reports: no other
code may branch on it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import npu_common
from npu_common import _loader, versions

# Where CANN's installers put the toolkit when nobody says otherwise; after `source set_env.sh`
# ASCEND_HOME_PATH names it.
USUAL_FOLDERS = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/latest",
)
# Only the emulator has this library: how an emulated toolkit folder is told from CANN's.
EMULATOR_MARK = "lib64/libnpu_emulator_kernels.so"
PROBE_TIMEOUT = 120  # seconds
_VERSION_FILES = ("version.info", "runtime/version.info", "compiler/version.info", "version.cfg")
_VERSION = re.compile(r"^\s*(?:\w*_)?version\s*=\s*\[?([^\]\s:]+)", re.IGNORECASE | re.MULTILINE)

_active: Toolkit | None = None
_lock = threading.Lock()


class ToolkitError(RuntimeError):
    """No usable toolkit, in one sentence: what was asked, what was found, what to do."""


@dataclass(frozen=True)
class Toolkit:
    """A toolkit folder and why it was taken."""

    provider: Literal["cann", "emulator"]
    root: Path
    version: str
    reason: str
    overlooked: bool = False  # ASCEND_HOME_PATH named a folder that could not be used
    libraries: tuple[str, ...] = ()  # SONAMEs loaded, in order; empty until activate() has loaded them
    skipped: tuple[str, ...] = ()  # "libopapi.so: why"

    def describe(self) -> str:
        what = "CANN" if self.provider == "cann" else "the host emulator of CANN"
        return f"{what} {self.version} at {self.root} ({self.reason})"


def activate(*, emulator_root: Path | None = None) -> Toolkit:
    """Finds the toolkit and loads its libraries into this process; later calls return the same one.

    Sets ASCEND_HOME_PATH and ASCEND_OPP_PATH, which torch_npu reads, for this process and its children.

    Args:
        emulator_root: the emulator's folder, for tests of this module; normally the one inside this package.

    Raises:
        ToolkitError: neither CANN nor the emulator may or can be used.
    """
    global _active
    with _lock:
        if _active is None:
            found = find(emulator_root=emulator_root)
            if found.provider == "emulator" and found.overlooked:
                logging.getLogger("npu_common").warning(
                    "npu_common: %s: the host emulator is taken instead (NPU_EMULATOR=on says that "
                    "this is meant, NPU_EMULATOR=off forbids it).",
                    found.reason,
                )
            before = {name: os.environ.get(name) for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")}
            os.environ.update(variables(found.root))
            torch = versions.torch_build()
            try:
                loaded = _loader.load(found.root, torch.folder if torch else None)
            except _loader.LoadError as error:
                for name, value in before.items():
                    os.environ.pop(name) if value is None else os.environ.update({name: value})
                raise ToolkitError(f"{found.describe()} does not load: {error}.") from error
            skipped = tuple(f"{name}: {why}" for name, why in loaded.skipped.items())
            _active = replace(found, libraries=tuple(loaded.libraries), skipped=skipped)
        return _active


def loaded() -> Toolkit | None:
    """The toolkit that activate() loaded into this process, or None."""
    return _active


def find(*, environ: Mapping[str, str] | None = None, emulator_root: Path | None = None) -> Toolkit:
    """Decides which toolkit to use, and loads nothing into this process.

    Raises:
        ToolkitError: NPU_EMULATOR has an unknown value, or nothing that it allows can be used.
    """
    environ = os.environ if environ is None else environ
    mode = environ.get("NPU_EMULATOR", "auto").strip().lower() or "auto"
    if mode not in ("auto", "on", "off"):
        raise ToolkitError(
            f"NPU_EMULATOR={environ['NPU_EMULATOR']} is not a choice; it is auto (the default), on or off."
        )

    home = environ.get("ASCEND_HOME_PATH", "").strip()
    named = Path(home) if home else None
    if named is not None and is_emulator(
        named
    ):  # a build tree, or inherited from the process that started this one
        if mode == "off":
            raise ToolkitError(
                f"NPU_EMULATOR=off, but ASCEND_HOME_PATH={home} is an emulator; name CANN's folder or "
                "unset NPU_EMULATOR."
            )
        return Toolkit("emulator", named, version(named), "ASCEND_HOME_PATH names it")

    why_not = "NPU_EMULATOR=on"
    if mode != "on":
        found, why_not = _find_cann(named)
        if found is not None:
            return found
        if mode == "off":
            raise ToolkitError(
                f"NPU_EMULATOR=off allows only CANN, and there is none to use: {why_not}. Install CANN "
                "and its driver and `source set_env.sh`, or unset NPU_EMULATOR to run on the host emulator."
            )
    root = emulator_root or emulator_folder()
    if root is None:
        raise ToolkitError(
            f"no CANN to use ({why_not}), and this npu_common was installed without its emulator (no "
            f"cann/lib64 in {', '.join(npu_common.__path__)}); install the package again: "
            "pip install ./packages/npu_common."
        )
    return Toolkit("emulator", root, version(root), why_not, overlooked=mode == "auto" and named is not None)


def variables(root: Path) -> dict[str, str]:
    """The variables by which torch_npu and CANN's own libraries find their way in the toolkit `root`."""
    opp = os.environ.get("ASCEND_OPP_PATH", "")
    own = (
        os.environ.get("ASCEND_HOME_PATH") == str(root) and Path(opp).is_dir()
    )  # somebody sourced set_env.sh
    return {"ASCEND_HOME_PATH": str(root), "ASCEND_OPP_PATH": opp if opp and own else str(root / "opp")}


def is_emulator(root: Path) -> bool:
    """Whether a toolkit folder is a build of our emulator."""
    return (root / EMULATOR_MARK).exists()


def emulator_folder() -> Path | None:
    """The emulator's toolkit folder inside this package (an editable one has several folders), or None."""
    candidates = (Path(folder, "cann") for folder in npu_common.__path__)
    return next((root for root in candidates if (root / "lib64" / _loader.RUNTIME).is_file()), None)


def version(root: Path) -> str:
    """The version that a toolkit folder's own files state, or "of unknown version"."""
    files = [root / name for name in _VERSION_FILES] + sorted(
        root.glob("*-linux/ascend_toolkit_install.info")
    )
    for file in files:
        if file.is_file():
            stated = _VERSION.search(file.read_text(errors="replace"))
            if stated:
                return stated[1]
    return "of unknown version"


def probe(root: Path, *, memory: bool = False) -> dict[str, Any]:
    """Loads a toolkit in a process of its own.

    Returns:
        {"count": n}; with `memory` {"devices": [...]}, see _loader.device_memory; or {"error": sentence}.
    """
    command = [sys.executable, "-I", "-S", _loader.__file__, str(root), *(["--memory"] if memory else [])]
    environ = {**os.environ, **variables(root)}
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=PROBE_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"loading it took more than {PROBE_TIMEOUT} s"}
    except OSError as error:
        return {"error": f"no process to try it in: {error}"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"the process that loaded it ended with status {done.returncode}"}
    return answer


def _find_cann(named: Path | None) -> tuple[Toolkit | None, str]:
    """CANN, from ASCEND_HOME_PATH if set or else from the usual folders; or None and why there is none."""
    if named is not None:
        roots, origin = [named], "ASCEND_HOME_PATH"
    else:
        roots, origin = (
            [Path(folder) for folder in USUAL_FOLDERS if Path(folder).is_dir()],
            "the usual folder",
        )
    why_not = "ASCEND_HOME_PATH is not set and no CANN is installed under /usr/local/Ascend"
    for root in roots:
        absent = _loader.missing(root)
        if not root.is_dir():
            why_not = f"{origin}={root} does not exist"
        elif absent:
            why_not = f"{root} ({origin}) has no lib64/{absent[0]}"
        else:
            answer = probe(root)
            if answer.get("count"):
                reason = f"{origin}, {answer['count']} device{'s' if answer['count'] > 1 else ''}"
                return Toolkit("cann", root, version(root), reason), ""
            why_not = f"{root} ({origin}) " + (
                f"does not load: {answer['error']}" if "error" in answer else "loads but counts no device"
            )
    return None, why_not
