"""The compact facts in the repository are those that were extracted, and the headers say the same."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import FACTS, ROOT, facts

EXTRACTED = ROOT.parent / "shared" / "facts"


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not EXTRACTED.is_dir(), reason="the full extraction is not beside the repository")
def test_compact_facts_are_what_was_extracted() -> None:
    importer = load(FACTS / "import_facts.py")
    for name, record in importer.compact_facts(EXTRACTED).items():
        assert (FACTS / name).read_text() == importer.render(record), f"run import_facts.py: {name} differs"


def normal(type_: str) -> str:
    """A C type as a template argument: pointers for arrays, no top-level const (it is no part of a function's type)."""
    type_ = re.sub(r"\(\*const\)", "(*)", type_)
    type_ = re.sub(r"^(.*)\[\]\[2\]$", r"\1(*)[2]", type_)
    type_ = re.sub(r"\s*\[\]$", " *", type_)
    type_ = re.sub(r"\*const$", "*", type_)
    return type_ if "*" in type_ else type_.removeprefix("const ")


def assertions(file: str) -> str:
    lines = []
    for function in facts(file)["functions"]:
        types = [normal(type_) for _, type_ in function["params"]] + (
            ["..."] if function.get("variadic") else []
        )
        aliases = ", ".join(f"std::type_identity_t<{t}>" if t != "..." else t for t in types)
        expected = f"std::type_identity_t<{function['ret']}> (*)({aliases})"
        lines.append(f"static_assert(std::is_same_v<decltype(&{function['name']}), {expected}>);")
    return "\n".join(lines)


def enum_assertions() -> str:
    enums = facts("enums.json")
    lines = []
    for part in ("acl", "hccl"):
        for enum in enums[f"{part}_enums"]:
            lines += [f"static_assert(static_cast<int64_t>({n}) == {v});" for n, v in enum["values"].items()]
            lines.append(
                f"static_assert(std::is_same_v<std::underlying_type_t<{enum['name']}>, {enum['underlying']}>);"
            )
        for constant in enums[f"{part}_constants"]:
            if constant["kind"] != "string":
                suffix = "ULL" if constant["value"] > 0x7FFFFFFF else ""
                lines.append(f"static_assert({constant['name']} == {constant['value']}{suffix});")
    return "\n".join(lines)


def test_the_generated_headers_declare_every_function_enum_and_struct_of_the_facts(tmp_path: Path) -> None:
    """The structs assert their own sizes and offsets; the compiler checks the rest against the facts."""
    subprocess.run([sys.executable, str(FACTS.parent / "generate.py"), str(tmp_path / "cann")], check=True)
    source = tmp_path / "check.cpp"
    source.write_text(
        "#include <cstdint>\n#include <type_traits>\n"
        '#include "cann/acl.h"\n#include "cann/hccl.h"\n#include "cann/aclnn_base.h"\n'
        "static_assert(sizeof(void*) == 8);\n"
        + "\n".join([assertions("acl_runtime.json"), assertions("hccl.json"), assertions("aclnn_base.json")])
        + "\n"
        + enum_assertions()
    )
    done = subprocess.run(
        ["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tmp_path}", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    text = (tmp_path / "cann" / "acl.h").read_text()
    for struct in facts("acl_runtime.json")["structs"]:
        assert f"sizeof({struct['name']}) == {struct['size']}" in text


def test_error_codes_have_their_names(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(FACTS.parent / "generate.py"), str(tmp_path / "cann")], check=True)
    source = tmp_path / "names.cpp"
    source.write_text(
        '#include <cstdio>\n#include "cann/error_names.h"\n'
        "int main() { for (int code : {0, 107002, 207001, 507015, 100000, -1}) std::puts(npu::cann::error_name(code));\n"
        "std::puts(npu::cann::hccl_result_name(5)); }\n"
    )
    subprocess.run(
        ["c++", "-std=c++20", f"-I{tmp_path}", str(source), "-o", str(tmp_path / "names")], check=True
    )
    assert subprocess.run([tmp_path / "names"], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )[:7] == [
        "ACL_SUCCESS",
        "ACL_ERROR_RT_CONTEXT_NULL",
        "ACL_ERROR_RT_MEMORY_ALLOCATION",
        "ACL_ERROR_RT_AICORE_EXCEPTION",
        "ACL_ERROR_INVALID_PARAM",
        "unknown error code",
        "HCCL_E_NOT_SUPPORT",
    ]


def test_every_struct_of_hccl_has_its_layout(tmp_path: Path) -> None:
    """Offsets and sizes written out here from the facts, apart from the assertions that the generator makes."""
    subprocess.run([sys.executable, str(FACTS.parent / "generate.py"), str(tmp_path / "cann")], check=True)
    lines = ["#include <cstddef>", '#include "cann/acl.h"', '#include "cann/hccl.h"']
    for file in ("acl_runtime.json", "hccl.json"):
        for struct in facts(file)["structs"]:
            lines.append(f"static_assert(sizeof({struct['name']}) == {struct['size']});")
            lines.append(f"static_assert(alignof({struct['name']}) == {struct['align']});")
            for name, type_, offset, size in struct["fields"]:
                if name and offset >= 0 and "(anonymous" not in type_ and "(unnamed" not in type_:
                    lines.append(f"static_assert(offsetof({struct['name']}, {name}) == {offset});")
                    lines.append(f"static_assert(sizeof({struct['name']}::{name}) == {size});")
    assert len(lines) > 500
    (tmp_path / "layouts.cpp").write_text("\n".join(lines))
    command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{tmp_path}", str(tmp_path / "layouts.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


LETTERS_OF_EXECUTOR = {
    "aclTensor*": "T",
    "aclScalar*": "S",
    "aclIntArray*": "I",
    "aclBoolArray*": "B",
    "aclFloatArray*": "F",
    "aclTensorList*": "L",
    "aclScalarList*": "l",
    "char*": "s",
    "double": "d",
    "float": "f",
    "bool": "b",
    "aclDataType": "t",
    "int64_t": "q",
    "uint64_t": "Q",
    "int32_t": "i",
    "int": "i",
    "uint32_t": "u",
    "int8_t": "c",
}


def test_the_executor_s_table_has_every_operator_with_its_parameters(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(FACTS.parent / "generate.py"), str(tmp_path / "cann")], check=True)
    row = re.compile(r'^    \{"(\w+)", "(\w*)", "([\w ]*)", (\d+)ULL\},$', re.MULTILINE)
    table = {m[1]: m.groups()[1:] for m in row.finditer((tmp_path / "cann" / "prototypes.cpp").read_text())}
    ops = facts("aclnn.json")["ops"]
    assert list(table) == sorted(ops)
    for name, parameters in ops.items():
        letters, names, written = table[name]
        types = [type_.replace("const ", "").replace(" ", "") for type_, _ in parameters]
        assert letters == "".join(LETTERS_OF_EXECUTOR[type_] for type_ in types), name
        assert names.split() == [parameter for _, parameter in parameters], name
        outputs = [t in ("aclTensor *", "aclTensorList *") for t, _ in parameters]
        assert [bool(int(written) >> i & 1) for i in range(len(parameters))] == outputs, name
        assert len(parameters) <= 64, name
