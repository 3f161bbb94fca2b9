"""The graph engine's C++ functions that we call have CANN's mangled names, whichever ABI of std::string we compile with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT, facts

# Uses everything that native/cann/ge.h declares, as a builder of models does.
CLIENT = """
#include "cann/ge.h"
#include <cstring>
#include <string>
std::string build(const unsigned char* bytes, std::size_t size) {
    ge::Options options{{ge::AscendString("ge.socVersion"), ge::AscendString("Ascend910B2")}};
    int version[3];
    if (ge::aclgrphGetIRVersion(&version[0], &version[1], &version[2]) != 0) return "";
    ge::Graph graph("graph");
    ge::ModelBufferData model;
    if (ge::aclgrphBuildInitialize(options) != 0 || graph.LoadFromMem(bytes, size) != 0 ||
        ge::aclgrphBuildModel(graph, options, model) != 0)
        return ge::GEGetErrorMsgV3().GetString();
    ge::aclgrphBuildFinalize();
    return std::string(reinterpret_cast<char*>(model.data.get()), model.length);
}
"""


@pytest.mark.parametrize("abi", [0, 1])
@pytest.mark.parametrize("optimise", ["-O0", "-O2"])
def test_the_names_are_cann_s_under_both_abis(tmp_path: Path, abi: int, optimise: str) -> None:
    (tmp_path / "client.cpp").write_text(CLIENT)
    command = [
        "c++",
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        optimise,
        "-c",
        "-o",
        str(tmp_path / "client.o"),
    ]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-I{ROOT / 'native'}", str(tmp_path / "client.cpp")]
    subprocess.run(command, check=True)
    out = subprocess.run(
        ["nm", "--undefined-only", str(tmp_path / "client.o")], capture_output=True, text=True, check=True
    ).stdout
    # (The standard library's templates are instantiated over ge's types in the object itself.)
    used = {
        line.split()[-1] for line in out.splitlines() if line.split()[-1].startswith(("_ZN2ge", "_ZNK2ge"))
    }
    assert used == {symbol["mangled"] for symbol in facts("ge_build.json")["symbols"]}


def test_the_sizes_are_cann_s(tmp_path: Path) -> None:
    lines = [
        f"static_assert(sizeof({layout['name']}) == {layout['size']});"
        for layout in facts("ge_build.json")["layouts"]
    ]
    (tmp_path / "sizes.cpp").write_text('#include "cann/ge.h"\n' + "\n".join(lines))
    subprocess.run(
        ["c++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'native'}", str(tmp_path / "sizes.cpp")],
        check=True,
    )
