"""Compact copies of the ABI facts that the build needs: ``import_facts.py FACTS_FOLDER [OUTPUT_FOLDER]``.

FACTS_FOLDER holds the extracted facts (acl_runtime.json, enums.json, hccl.json, aclnn.json, ge_ops.json,
ge_abi.json, ge_ir_proto.json, torch_npu_symbols.json: names, types, values and layouts read from public headers, see
``sources`` in each file). A copy keeps what generators read, one record a line, so that a change of the ABI is a
readable diff.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def _function(name: str, fact: Record) -> Record:
    record: Record = {
        "name": name,
        "ret": fact["ret"],
        "params": [[p["name"], p["type"]] for p in fact["params"]],
    }
    if fact.get("variadic"):
        record["variadic"] = True
    record["header"] = fact["header"].rsplit("/", 1)[-1]
    return record


def _functions(facts: Record) -> list[Record]:
    return [_function(name, fact) for name, fact in facts.items() if not fact.get("inline")]


def _struct(name: str, fact: Record) -> Record:
    fields = [
        ["" if "(anonymous" in f["name"] else f["name"], f["type"], f["offset"], f["size"]]
        for f in fact["fields"]
    ]
    return {
        "name": name,
        "kind": fact["kind"],
        "size": fact["size"],
        "align": fact["align"],
        "fields": fields,
    }


def _typedefs(facts: Record) -> list[Record]:
    return [{"name": name, "type": fact["type"]} for name, fact in facts.items()]


def _enums(facts: Record) -> list[Record]:
    return [
        {"name": n, "underlying": e["underlying"], "values": e["values"]} for n, e in facts["enums"].items()
    ]


def _constants(facts: Record) -> list[Record]:
    return [
        {"name": n, "kind": c["kind"], "value": c["value"]}
        | ({"header": c["header"]} if "header" in c else {})
        for n, c in facts["constants"].items()
    ]


def _abi(facts: Record) -> Record:
    return {
        "sources": facts["sources"],
        "functions": _functions(facts["functions"]),
        "structs": [_struct(n, s) for n, s in facts["structs"].items()],
        "typedefs": _typedefs(facts["typedefs"]),
    }


def _hccl(facts: Record) -> Record:
    compact = _abi(facts)
    bundled = facts["torch_npu_bundled"]["functions"]
    only = [name for name, why in facts["diff_vs_torch_npu"].items() if why.startswith("only in torch_npu")]
    compact["functions"] += [_function(name, bundled[name]) for name in only]
    compact["config_layouts"] = [
        {"size": v["size"], "last_field": v["last_field"]} for v in facts["HcclCommConfig_variants"]
    ]
    return compact


def _aclnn_base(facts: Record) -> Record:
    return {
        "sources": {"hicann/opbase": facts["sources"]["hicann/opbase"]},
        "functions": _functions(facts["base"]["functions"]),
        "typedefs": _typedefs(facts["base"]["typedefs"]),
    }


def _ge_ops(facts: Record) -> Record:
    drop = {"source", "path", "comment", "line"}
    ops = [
        {"name": name} | {k: v for k, v in op.items() if k not in drop} for name, op in facts["ops"].items()
    ]
    return {"sources": facts["sources"], "ops": ops}


def _ge_ir_proto(facts: Record) -> Record:
    """The model protobuf: a field is [name, number, type, label], label "oneof:<group>" for a member of one."""
    ir = facts["ge_ir"]
    messages = [
        {"name": n, "fields": [[f, d["number"], d["type"], d["label"]] for f, d in fields.items()]}
        for n, fields in ir["messages"].items()
    ]
    enums = [{"name": n, "values": values} for n, values in ir["enums"].items()]
    return {"sources": facts["sources"], "package": facts["package"], "messages": messages, "enums": enums}


#: What native/cann/ge.h declares.
_GE_BUILD = {
    "ge::AscendString": [
        "_ZN2ge12AscendStringC1EPKc",
        "_ZNK2ge12AscendString9GetStringEv",
        "_ZNK2ge12AscendStringltERKS0_",
    ],
    "ge::Graph": ["_ZN2ge5GraphC1EPKc", "_ZN2ge5GraphD1Ev", "_ZN2ge5Graph11LoadFromMemEPKhm"],
    "ge:: free": [
        "aclgrphBuildInitialize",
        "aclgrphBuildFinalize",
        "aclgrphBuildModel",
        "aclgrphGetIRVersion",
        "GEGetErrorMsgV3",
    ],
}


def _ge_build(facts: Record) -> Record:
    """The functions that build an OM, without the overloads that take std::string (their names depend on its ABI)."""
    symbols = [
        {"class": cls, "name": f["name"], "mangled": f["mangled"]}
        for cls, wanted in _GE_BUILD.items()
        for f in facts["classes"][cls]
        if (f["mangled"] in wanted or f["name"] in wanted) and "std::string" not in str(f["params"])
    ]
    layouts = [
        {"name": name, "size": facts["layouts_x86_64"][name]["size"]}
        for name in ("ge::AscendString", "ge::Graph", "ge::ModelBufferData")
    ]
    return {"sources": facts["sources"], "symbols": symbols, "layouts": layouts}


def compact_facts(folder: Path) -> dict[str, Record]:
    """The compact copies by file name, from the folder of extracted facts."""

    def load(name: str) -> Record:
        return json.loads((folder / name).read_text())

    enums = load("enums.json")
    enum_copy: Record = {"sources": enums["sources"]}
    for part in ("acl", "hccl"):
        enum_copy[f"{part}_enums"] = _enums(enums[part])
        enum_copy[f"{part}_constants"] = _constants(enums[part])
    dlsym = [{"library": k, "names": v} for k, v in load("torch_npu_symbols.json")["dlsym"].items()]
    return {
        "acl_runtime.json": _abi(load("acl_runtime.json")),
        "enums.json": enum_copy,
        "hccl.json": _hccl(load("hccl.json")),
        "aclnn_base.json": _aclnn_base(load("aclnn.json")),
        "ge_build.json": _ge_build(load("ge_abi.json")),
        "ge_ops.json": _ge_ops(load("ge_ops.json")),
        "ge_ir_proto.json": _ge_ir_proto(load("ge_ir_proto.json")),
        "torch_npu_dlsym.json": {"libraries": dlsym},
    }


def _section(key: str, value: Any) -> str:
    if isinstance(value, list):
        lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in value)
        return f"{json.dumps(key)}: [\n{lines}\n]"
    return f"{json.dumps(key)}: {json.dumps(value)}"


def render(record: Record) -> str:
    """JSON text with one line a record."""
    sections: Iterable[str] = (_section(key, value) for key, value in record.items())
    return "{\n" + ",\n".join(sections) + "\n}\n"


def main(argv: list[str]) -> None:
    if len(argv) not in (2, 3):
        raise SystemExit(__doc__)
    output = Path(argv[2]) if len(argv) == 3 else Path(__file__).parent
    for name, record in compact_facts(Path(argv[1])).items():
        (output / name).write_text(render(record))


if __name__ == "__main__":
    main(sys.argv)
