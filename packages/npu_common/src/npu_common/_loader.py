"""Loads the shared libraries of a CANN toolkit folder, real or emulated, and counts its devices.

Also a script, `python -I -S _loader.py ROOT [--memory]`: what `toolkit` runs in a process of its own to see
whether a toolkit works, because a library once loaded cannot be taken out again, and a broken one can take
the process with it. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# In the order they are loaded: each before those that link to it. They are the names that
# libtorch_npu.so links against and those it looks up while it runs.
RUNTIME = "libascendcl.so"
OPERATORS = "libopapi.so"
REQUIRED = (
    RUNTIME,
    "libhccl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
    OPERATORS,
)
LOAD_ORDER = (
    RUNTIME,
    "libruntime.so",
    "libacl_rt.so",
    "libacl_mdl.so",
    "libmsprofiler.so",
    "libascend_dump.so",
    "libhccl.so",
    "libhcomm.so",
    "libascend_protobuf.so",
    "libgraph_base.so",
    "libgraph.so",
    "libfmk_parser.so",
    "libge_compiler.so",
    "libge_runner.so",
    "libge_runner_v2.so",
    "libacl_tdt_queue.so",
    "libacl_tdt_channel.so",
    "libacl_op_compiler.so",
    OPERATORS,
)
# Where the driver package puts what the toolkit's libraries link to (its set_env.sh adds them to
# LD_LIBRARY_PATH).
DRIVER_FOLDERS = ("/usr/local/Ascend/driver/lib64/driver", "/usr/local/Ascend/driver/lib64/common")
HBM = 1  # aclrtMemAttr ACL_HBM_MEM
_MISSING = re.compile(r"^(lib[^/\s:]+\.so[.\d]*): cannot open shared object file")


class LoadError(OSError):
    """A library of the toolkit is missing or does not load; the message is the loader's own."""


@dataclass
class Loaded:
    libraries: list[str] = field(default_factory=list)  # SONAMEs, in the order they were loaded
    skipped: dict[str, str] = field(default_factory=dict)  # file name -> why


def missing(root: Path, names: Sequence[str] = REQUIRED) -> list[str]:
    """The libraries of `names` that the toolkit folder `root` does not have."""
    return [name for name in names if not (root / "lib64" / name).is_file()]


def open_library(path: Path, folders: Sequence[Path], depth: int = 8) -> ctypes.CDLL:
    """dlopen, which also finds what `path` links to in `folders`, as LD_LIBRARY_PATH would have.

    Raises:
        LoadError: the library does not load.
    """
    while True:
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            wanted = _MISSING.match(str(error))
            candidates = [f / wanted[1] for f in folders if (f / wanted[1]).is_file()] if wanted else []
            if not candidates or depth == 0:
                raise LoadError(str(error)) from None
            open_library(candidates[0], folders, depth - 1)
            depth -= 1


def load(root: Path, torch_folder: Path | None, names: Sequence[str] = LOAD_ORDER) -> Loaded:
    """Loads those of the libraries `names` that the toolkit folder `root` has, and their dependencies.

    With `torch_folder`, torch's libraries are loaded first: the emulator's operators link to them by SONAME.
    Nothing enters the global scope, as nothing does when Python imports torch_npu with LD_LIBRARY_PATH set: a
    library that is loaded already is found by its SONAME.

    Raises:
        LoadError: a required library is missing, or any does not load.
    """
    absent = missing(root, [name for name in names if name in REQUIRED])
    if absent:
        raise LoadError(f"{root / 'lib64'} has no {', '.join(absent)}")
    folders = [root / "lib64", *map(Path, DRIVER_FOLDERS)]
    if torch_folder is not None:
        for file in (torch_folder / "lib" / name for name in ("libc10.so", "libtorch_cpu.so")):
            if file.is_file():
                open_library(file, folders)
    result = Loaded()
    for name in names:
        file = root / "lib64" / name
        if not file.is_file():
            continue
        try:
            open_library(file, folders)
        except LoadError as error:
            if torch_folder is None and re.match(r"lib(torch\w*|c10)\.so", str(error)):
                result.skipped[name] = (
                    f"it needs torch's libraries, and torch is not installed here ({error})"
                )
                continue
            raise
        result.libraries.append(name)
    return result


def check(call: Callable[..., int], *arguments: object) -> None:
    status = call(*arguments)
    if status != 0:
        raise LoadError(f"{call.__name__} answered {status}")


def device_count(root: Path) -> int:
    """aclrtGetDeviceCount of the toolkit loaded into this process.

    Raises:
        LoadError: the runtime answered an error (no driver, for one).
    """
    acl = ctypes.CDLL(str(root / "lib64" / RUNTIME))
    count = ctypes.c_uint32()
    if acl.aclrtGetDeviceCount(ctypes.byref(count)) != 0:
        acl.aclInit(None)
        check(acl.aclrtGetDeviceCount, ctypes.byref(count))
    return count.value


def device_memory(root: Path) -> list[dict[str, object]]:
    """One record per device: its name, total and free memory in bytes. Takes a context on each in turn.

    Raises:
        LoadError: the runtime answered an error.
    """
    acl = ctypes.CDLL(str(root / "lib64" / RUNTIME))
    acl.aclrtGetSocName.restype = ctypes.c_char_p
    count = device_count(root)
    acl.aclInit(None)
    devices: list[dict[str, object]] = []
    for index in range(count):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        check(acl.aclrtSetDevice, index)
        name = acl.aclrtGetSocName()
        check(acl.aclrtGetMemInfo, HBM, ctypes.byref(free), ctypes.byref(total))
        check(acl.aclrtResetDevice, index)
        devices.append(
            {"name": name.decode() if name else "unknown", "total": total.value, "free": free.value}
        )
    return devices


def main(root: Path, memory: bool) -> dict[str, object]:
    if memory:
        load(root, None, [RUNTIME])
        return {"devices": device_memory(root)}
    load(root, None, [name for name in REQUIRED if name != OPERATORS])
    return {"count": device_count(root)}


if __name__ == "__main__":
    try:
        answer = main(Path(sys.argv[1]), "--memory" in sys.argv)
    except Exception as problem:
        answer = {"error": str(problem)}
    print(json.dumps(answer), flush=True)
    os._exit(0)  # the libraries' own destructors are not what is asked about
