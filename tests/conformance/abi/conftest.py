"""The ABI as data, and what the libraries export."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FACTS = ROOT / "native" / "cann" / "facts"


def facts(name: str) -> dict[str, Any]:
    return json.loads((FACTS / name).read_text())


@cache
def symbols(library: Path, *options: str) -> dict[str, str]:
    """Name -> kind letter of `nm` for the dynamic symbols of a library, without versions."""
    out = subprocess.run(
        ["nm", "-D", *options, str(library)], capture_output=True, text=True, check=True
    ).stdout
    return {words[-1].split("@")[0]: words[-2] for words in map(str.split, out.splitlines())}


def exported(library: Path) -> dict[str, str]:
    return symbols(library, "--defined-only")


def dependencies(library: Path) -> list[str]:
    out = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    return [line.split("[")[1].rstrip("]") for line in out.splitlines() if "(NEEDED)" in line]


class Toolkit:
    """The emulator's libraries by SONAME, and where a name is found when it is looked up in one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, soname: str) -> Path:
        return self.folder / "lib64" / soname

    def found_in(self, soname: str, name: str) -> str | None:
        """The library that dlsym on `soname` finds the name in: breadth first, as the dynamic linker does."""
        queue, seen = [soname], set[str]()
        while queue:
            library = queue.pop(0)
            if library in seen or not self.path(library).is_file():
                continue
            seen.add(library)
            if name in exported(self.path(library)):
                return library
            queue += dependencies(self.path(library))
        return None


@pytest.fixture(scope="session")
def toolkit(toolkit_folder: Path) -> Toolkit:
    return Toolkit(toolkit_folder)
