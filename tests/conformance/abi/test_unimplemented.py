"""What is not implemented fails, by its own name, whichever library it is reached through."""

from __future__ import annotations

import json
import subprocess
import sys

from .conftest import FACTS, Toolkit, exported, facts

CALL_ALL = """
import ctypes, json, sys
library, message = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
message.aclGetRecentErrMsg.restype = ctypes.c_char_p
answers = {}
for name in json.load(sys.stdin):
    code = getattr(library, name)()
    answers[name] = [code, (message.aclGetRecentErrMsg() or b"").decode()]
print(json.dumps(answers))
"""


def call_all(toolkit: Toolkit, soname: str, names: list[str]) -> dict[str, tuple[int, str]]:
    """Each function called without arguments (they would be ignored), in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CALL_ALL, str(toolkit.path(soname)), str(toolkit.path("libascendcl.so"))],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def missing_functions(toolkit: Toolkit, soname: str, file: str) -> list[dict]:
    """Functions of the facts that the library has as weak stubs: nobody implemented them."""
    kinds = exported(toolkit.path(soname))
    return [f for f in facts(file)["functions"] if kinds.get(f["name"]) == "W"]


def test_missing_acl_functions_say_their_name(toolkit: Toolkit) -> None:
    functions = missing_functions(toolkit, "libascendcl.so", "acl_runtime.json")
    assert len(functions) > 100
    returns = {f["name"]: f["ret"] for f in functions}
    for name, (code, sentence) in call_all(toolkit, "libascendcl.so", list(returns)).items():
        assert sentence.startswith("ACL_ERROR_API_NOT_SUPPORT (200001): " + name + " "), name
        if returns[name] == "aclError":
            assert code == 200001, name


def test_missing_hccl_functions_say_their_name(toolkit: Toolkit) -> None:
    names = [f["name"] for f in missing_functions(toolkit, "libhccl.so", "hccl.json")]
    assert names
    for name, (code, sentence) in call_all(toolkit, "libhccl.so", names).items():
        assert code == 5, name  # HCCL_E_NOT_SUPPORT
        assert f"{name} is not implemented" in sentence


def test_a_name_looked_up_in_a_forwarding_library_fails_the_same_way(toolkit: Toolkit) -> None:
    for soname, name in (
        ("libacl_tdt_channel.so", "acltdtCreateDataset"),
        ("libmsprofiler.so", "aclprofMarkEx"),
        ("libascend_dump.so", "aclopStartDumpArgs"),
        ("libruntime.so", "rtKernelLaunch"),
        ("libacl_mdl.so", "aclmdlLoadFromFileWithQ"),
    ):
        ((_, sentence),) = call_all(toolkit, soname, [name]).values()
        assert f"{name} is not implemented" in sentence


THROW = r"""
#include <dlfcn.h>
#include <cxxabi.h>
#include <iostream>
#include <stdexcept>
#include <string>
int main(int, char** argv) {
    std::string library, symbol;
    while (std::cin >> library >> symbol) {
        void* handle = dlopen((std::string(argv[1]) + "/" + library + ".so").c_str(), RTLD_NOW);
        auto* function = handle == nullptr ? nullptr : reinterpret_cast<void (*)()>(dlsym(handle, symbol.c_str()));
        if (function == nullptr) { std::cout << symbol << ": not found\n"; continue; }
        try {
            function();
            std::cout << symbol << ": returned\n";
        } catch (const std::runtime_error& error) {
            char* name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr);
            if (std::string(error.what()).find(name) != 0) std::cout << symbol << ": says " << error.what() << "\n";
            std::free(name);
        }
    }
}
"""


def test_missing_functions_of_the_graph_engine_throw_their_name(toolkit: Toolkit, tmp_path) -> None:
    (tmp_path / "throw.cpp").write_text(THROW)
    program = tmp_path / "throw"
    subprocess.run(["c++", "-std=c++20", str(tmp_path / "throw.cpp"), "-o", str(program), "-ldl"], check=True)
    weak = [
        s
        for s in json.loads((FACTS / "ge_symbols.json").read_text())["symbols"]
        if exported(toolkit.path(s["library"] + ".so")).get(s["mangled"]) == "W"
    ]
    listed = "".join(f"{s['library']} {s['mangled']}\n" for s in weak)
    done = subprocess.run(
        [program, toolkit.folder / "lib64"], input=listed, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
