"""Every name that torch_npu links against or looks up is exported, by the library that it asks."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from .conftest import Toolkit, dependencies, exported, facts, symbols


def package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def clients() -> list[Path]:
    """The libraries of the torch_npu wheel that link against CANN."""
    folder = package_folder("torch_npu")
    found = [
        p for p in sorted(folder.rglob("*.so")) if p.name != "libop_plugin_atb.so"
    ]  # needs ATB, not CANN
    assert found, "torch_npu is not installed"
    return found


def test_every_name_the_wheel_links_against_is_exported_by_a_library_it_names(toolkit: Toolkit) -> None:
    """Taken from the wheel itself: what is undefined there and in no library of torch or of the system."""
    libraries = clients()
    torch_libraries = sorted((package_folder("torch") / "lib").glob("*.so"))
    elsewhere = set().union(*(exported(p) for p in [*libraries, *torch_libraries]))
    # libnpu_profiler.so names none itself and takes what libtorch_npu.so loaded.
    named = sorted({n for p in libraries for n in dependencies(p) if toolkit.path(n).is_file()})
    missing = []
    for library in libraries:
        # What a system library exports carries a version in nm's output; the linker's own are weak.
        undefined = {n for n, kind in symbols(library, "--undefined-only").items() if kind == "U"}
        wanted = undefined - elsewhere - system_names(library)
        missing += [
            (library.name, n) for n in wanted if not any(toolkit.found_in(soname, n) for soname in named)
        ]
    assert not missing


def system_names(library: Path) -> set[str]:
    names = set[str]()
    for soname in dependencies(library):
        if re.match(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux", soname):
            names |= set(exported(where_is(soname)))
    return names | {n for n in symbols(library, "--undefined-only") if n.startswith(("Py", "_Py"))}


def where_is(soname: str) -> Path:
    """The file that the dynamic linker takes for a system library: it is loaded in this process already or now."""
    ctypes.CDLL(soname)
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split()[-1]
        if Path(path).name == soname or Path(path).name.startswith(soname + "."):
            return Path(path)
    raise AssertionError(f"{soname} is loaded but not in the memory map")


#: Libraries that torch_npu probes for, and whose absence it takes as "this part is not installed". An empty one
#: would claim a feature, so the emulator does not have them.
NOT_INSTALLED = {
    "libascend_hal.so": "the driver's own; asked only to choose between two ways of querying it",
    "libascend_ml.so": "hardware diagnosis (torch_npu.npu.stress_detect)",
    "libascendsk.so": "super kernels",
    "libdcmi.so": "the driver's management library, for CPU affinity",
    "liblcal.so": "collectives for inference (set_lccl)",
    "libms_tools_ext.so": "markers of the profiler",
    "libmspti.so": "the profiler's tracing interface",
    "libshmem.so": "symmetric memory",
    "libnnopbase.so": "part of libopapi here",
}


@pytest.mark.parametrize("record", facts("torch_npu_dlsym.json")["libraries"], ids=lambda r: r["library"])
def test_every_name_torch_npu_looks_up_is_found_in_the_library_it_asks(
    toolkit: Toolkit, record: dict
) -> None:
    if record["library"] in NOT_INSTALLED:
        assert not toolkit.path(record["library"]).exists()
        return
    missing = [name for name in record["names"] if toolkit.found_in(record["library"], name) is None]
    assert not missing


def test_every_function_of_the_facts_is_exported_once(toolkit: Toolkit) -> None:
    """aclop's compiler functions by their own library only: libascendcl is searched first."""
    runtime, compiler = (
        exported(toolkit.path("libascendcl.so")),
        exported(toolkit.path("libacl_op_compiler.so")),
    )
    for function in facts("acl_runtime.json")["functions"]:
        owner = compiler if function["header"] == "acl_op_compiler.h" else runtime
        other = runtime if owner is compiler else compiler
        assert function["name"] in owner, function["name"]
        assert function["name"] not in other, function["name"]
    for function in facts("hccl.json")["functions"]:
        assert toolkit.found_in("libhcomm.so", function["name"]) == "libhccl.so"


def test_the_graph_engine_is_where_cann_has_it(toolkit: Toolkit) -> None:
    for symbol in facts("ge_symbols.json")["symbols"]:
        assert symbol["mangled"] in exported(toolkit.path(symbol["library"] + ".so")), symbol


def test_the_libraries_export_nothing_by_accident(toolkit: Toolkit) -> None:
    """C names of CANN and the emulator's own namespace; weak C++ leftovers of the standard library are harmless."""
    known = {f["name"] for f in facts("acl_runtime.json")["functions"]}
    for name, kind in exported(toolkit.path("libascendcl.so")).items():
        if kind in "TDB" and not name.startswith(("_ZN3npu8emulator", "_ZN3npu2ge6engineEv")):
            plain = name in known or name.startswith(("Msprof", "aclop", "rt")) or name.endswith("_s")
            assert plain, f"{name} ({kind})"


def test_each_library_carries_its_own_soname(toolkit: Toolkit) -> None:
    for library in sorted((toolkit.folder / "lib64").glob("*.so")):
        out = subprocess.run(
            ["readelf", "-d", str(library)], capture_output=True, text=True, check=True
        ).stdout
        assert f"Library soname: [{library.name}]" in out
        assert "RPATH" not in out
        for line in out.splitlines():
            assert "RUNPATH" not in line or "[$ORIGIN" in line, line
