"""Writes libopapi's entry points and the table of prototypes, from CANN's own (native/cann/facts/aclnn.json).

Every operator gets its two phases, implemented or not: the ones without a kernel answer with an error that names them.
The table is what kernels of many versions look their parameters up in.
"""

import argparse
import json
from pathlib import Path

LETTERS = {
    "aclTensor *": "T",
    "aclScalar *": "S",
    "aclIntArray *": "I",
    "aclBoolArray *": "B",
    "aclFloatArray *": "F",
    "aclTensorList *": "L",
    "aclScalarList *": "l",
    "char *": "s",
    "aclDataType": "t",
    "bool": "b",
    "double": "d",
    "float": "d",
    "int8_t": "i",
    "int": "i",
    "int32_t": "i",
    "int64_t": "i",
    "uint32_t": "i",
    "uint64_t": "i",
}


def letter(c_type: str) -> str:
    """The kind of a parameter, as kernels/kernel.h spells it. Raises KeyError for a type that no kernel can take."""
    return LETTERS[c_type.removeprefix("const ")]


def entry(name: str, params: list[list[str]]) -> str:
    declared = "".join(f"{c_type} {name}, " for c_type, name in params)
    handed = "".join(f" << {name}" for _, name in params)
    return (
        f"NPU_EXPORT aclnnStatus {name}GetWorkspaceSize({declared}uint64_t* workspaceSize_, aclOpExecutor** executor_) {{\n"
        f'    static Entry entry("{name}");\n'
        f"    Call call(entry);\n    call{handed};\n    return call.prepare(workspaceSize_, executor_);\n}}\n"
        f"NPU_EXPORT aclnnStatus {name}(void*, uint64_t, aclOpExecutor* executor_, aclrtStream stream_) {{\n"
        f'    return execute("{name}", executor_, stream_);\n}}\n'
    )


def prototypes(operators: list[tuple[str, list[list[str]]]]) -> str:
    def row(name: str, params: list[list[str]]) -> str:
        letters = "".join(letter(c_type) for c_type, _ in params)
        names = ", ".join(f'"{parameter}"' for _, parameter in params)
        return f'        {{"{name}", "{letters}", {{{names}}}}},\n'

    rows = "".join(row(name, params) for name, params in operators)
    return (
        '#include "kernels/prototypes.h"\n\n#include <algorithm>\n\nnamespace npu::emulator {\n\n'
        "// A function's static: tables of kernels ask for it while the library loads.\n"
        "const std::vector<Prototype>& prototypes() {\n"
        f"    static const std::vector<Prototype> all{{\n{rows}    }};\n    return all;\n}}\n\n"
        "const Prototype* find_prototype(std::string_view aclnn) {\n    auto& all = prototypes();\n"
        "    auto found = std::lower_bound(all.begin(), all.end(), aclnn,\n"
        "                                  [](const Prototype& row, std::string_view name) { return row.name < name; });\n"
        "    return found != all.end() && found->name == aclnn ? &*found : nullptr;\n}\n\n}  // namespace npu::emulator\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", type=int, default=4)
    args = parser.parse_args()
    operators = sorted(json.loads(args.facts.read_text())["ops"].items())
    args.out.mkdir(parents=True, exist_ok=True)
    for part in range(args.parts):
        body = "".join(entry(name, params) for name, params in operators[part :: args.parts])
        source = f'#include "opapi/call.h"\n\nusing namespace npu::opapi;\n\nextern "C" {{\n{body}}}\n'
        (args.out / f"entries_{part}.cpp").write_text(source)
    (args.out / "prototypes.cpp").write_text(prototypes(operators))


if __name__ == "__main__":
    main()
