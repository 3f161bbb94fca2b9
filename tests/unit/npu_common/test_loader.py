"""Loading shared libraries by path, with what they link to."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from npu_common import _loader

from .conftest import compile_library


def test_what_a_library_links_to_is_found_in_the_given_folders(tmp_path: Path) -> None:
    inner = compile_library(tmp_path / "driver" / "libnpu_test_inner.so", "int inner(void) { return 41; }")
    source = "int inner(void); int outer(void) { return inner() + 1; }"
    outer = compile_library(tmp_path / "lib64" / "libnpu_test_outer.so", source, str(inner))
    with pytest.raises(OSError, match=r"libnpu_test_inner\.so: cannot open shared object file"):
        ctypes.CDLL(str(outer))
    assert _loader.open_library(outer, [tmp_path / "driver"]).outer() == 42


def test_what_cannot_be_found_is_named(tmp_path: Path) -> None:
    inner = compile_library(tmp_path / "gone" / "libnpu_test_gone.so", "")
    outer = compile_library(tmp_path / "libnpu_test_needy.so", "", "-Wl,--no-as-needed", str(inner))
    inner.unlink()
    with pytest.raises(_loader.LoadError, match=r"libnpu_test_gone\.so"):
        _loader.open_library(outer, [tmp_path / "gone"])


def test_a_folder_that_lacks_a_required_library_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(_loader.LoadError, match=r"lib64 has no libascendcl\.so, libhccl\.so"):
        _loader.load(tmp_path, None)


def test_operators_without_torch_are_left_out_and_said_so(tmp_path: Path) -> None:
    torch = compile_library(tmp_path / "torch" / "libtorch_of_elsewhere.so", "")
    for name in _loader.REQUIRED:
        link = ["-Wl,--no-as-needed", str(torch)] if name == _loader.OPERATORS else []
        compile_library(tmp_path / "lib64" / name, "", *link)
    torch.unlink()
    loaded = _loader.load(tmp_path, None)
    assert _loader.OPERATORS not in loaded.libraries
    assert "torch is not installed" in loaded.skipped[_loader.OPERATORS]
    with pytest.raises(_loader.LoadError, match="libtorch_of_elsewhere"):
        _loader.load(tmp_path, tmp_path / "torch_folder")
