"""A test whose graph failed on the device must not fail those after it; and the handlers of custom calls."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_common.runtime import Device


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.excinfo is not None and call.when == "call":
        Device(0).reset()
    return report


@pytest.fixture(scope="session")
def ffi_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """ffi_handler.cpp, compiled as a user would."""
    import jax

    file = tmp_path_factory.mktemp("ffi") / "handler.so"
    source = Path(__file__).with_name("ffi_handler.cpp")
    command = [
        os.environ.get("CXX", "c++"),
        "-std=c++17",
        "-w",
        "-shared",
        "-fPIC",
        f"-I{jax.ffi.include_dir()}",
    ]
    subprocess.run([*command, str(source), "-o", str(file)], check=True, timeout=300)
    return ctypes.CDLL(str(file))
