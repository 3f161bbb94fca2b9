"""What `npu env` prints, run by a shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from npu_common import toolkit
from npu_common.exports import shell_exports


def shell(exports: str, variable: str, **environ: str) -> str:
    script = f'eval "$EXPORTS"; printf %s "${variable}"'
    done = subprocess.run(
        ["sh", "-euc", script],
        env={"EXPORTS": exports, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def found(tmp_path: Path) -> toolkit.Toolkit:
    root = tmp_path / "it's a folder; with $signs"
    root.mkdir()
    return toolkit.Toolkit("cann", root, "8.5.0", "asked for")


def test_paths_survive_the_shell(found: toolkit.Toolkit) -> None:
    exports = shell_exports(found)
    assert shell(exports, "ASCEND_HOME_PATH", PATH="/bin") == str(found.root)
    assert shell(exports, "ASCEND_OPP_PATH", PATH="/bin") == str(found.root / "opp")


def test_the_library_path_is_added_to_and_names_nothing_of_torch(found: toolkit.Toolkit) -> None:
    exports = shell_exports(found)
    assert (
        shell(exports, "LD_LIBRARY_PATH", PATH="/bin", LD_LIBRARY_PATH="/mine")
        == f"{found.root / 'lib64'}:/mine"
    )
    alone = shell(exports, "LD_LIBRARY_PATH", PATH="/bin")
    assert alone == str(found.root / "lib64")  # no empty entry, which would mean the current folder


def test_cann_s_own_script_is_sourced_where_there_is_one(found: toolkit.Toolkit) -> None:
    (found.root / "set_env.sh").write_text("export FROM_SET_ENV=yes\n")
    assert shell(shell_exports(found), "FROM_SET_ENV", PATH="/bin") == "yes"
