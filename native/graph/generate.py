"""Writes the operator catalogue as a C++ table, from CANN's own (native/cann/facts/ge_ops.json).

``generate.py FACTS OUTPUT``. Each operator is one string literal, a line a record, parsed at first use (catalogue.cpp):

    Pad                      the operator
    i x required 7           an input: name, arity, number of its set of types (-1: anything goes)
    o y required 7           an output
    a mode String =constant  an attribute: name, type, "!" where it is required, else "=" and the default
    g body static            a subgraph

A type list that cannot be read (a macro) means that anything goes: the catalogue must not refuse what CANN takes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

Record = dict[str, Any]

_INTEGERS = "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64"
_FLOATS = "DOUBLE FLOAT FLOAT16"
_REAL = f"{_FLOATS} BF16 {_INTEGERS}"
_COMPLEX = "COMPLEX32 COMPLEX64 COMPLEX128"
_NUMBERS = f"{_REAL} {_COMPLEX} QINT8 QINT32 QUINT8"
# The named sets of ge::TensorType (graph/types.h of CANN).
SETS: dict[str, str] = {
    "BasicType": f"{_NUMBERS} QINT16 QUINT16",
    "NumberType": _NUMBERS,
    "RealNumberType": _REAL,
    "REALNUMBERTYPE": _REAL,
    "OrdinaryType": f"{_REAL} {_COMPLEX} BOOL",
    "ComplexDataType": _COMPLEX,
    "IntegerDataType": _INTEGERS,
    "SignedDataType": "INT8 INT16 INT32 INT64",
    "UnsignedDataType": "UINT8 UINT16 UINT32 UINT64",
    "FloatingDataType": _FLOATS,
    "IndexNumberType": "INT32 INT64",
    "UnaryDataType": f"{_FLOATS} BF16 {_COMPLEX}",
    "QuantifiedType": "QINT8 QINT16 QINT32 QUINT8 QUINT16",
    "FLOAT": "FLOAT FLOAT16 BF16",
}
# Spellings of one header or another.
SPELLINGS = {
    "DT_FLOAT32": "FLOAT",
    "DT_FLOAT64": "DOUBLE",
    "DT_BFLOAT16": "BF16",
    "DI_UINT16": "UINT16",
    "DA_INT4": "INT4",
    "float16": "FLOAT16",
    "float32": "FLOAT",
    "DT_FLOAT_E8M0": "FLOAT8_E8M0",
    "DT_FLOAT8_E4M3": "FLOAT8_E4M3FN",
    "DT_FLOAT8_E4M3_FN": "FLOAT8_E4M3FN",
    "DT_FP8_E5M2": "FLOAT8_E5M2",
    "DT_FP8_E4M3FN": "FLOAT8_E4M3FN",
    "DT_FP4X2_E2M1": "FLOAT4_E2M1",
    "DT_FP4X2_E1M2": "FLOAT4_E1M2",
    "DT_FP32": "FLOAT",
    "DT_Int32": "INT32",
    "DT_RESOURSE": "RESOURCE",
}
TYPES = {
    *f"{_NUMBERS} QINT16 QUINT16 BOOL STRING STRING_REF RESOURCE VARIANT DUAL DUAL_SUB_INT8 DUAL_SUB_UINT8".split(),
    *[
        "INT2",
        "INT4",
        "UINT1",
        "UINT2",
        "HIFLOAT8",
        "HIFLOAT4",
        "FLOAT8_E5M2",
        "FLOAT8_E4M3FN",
        "FLOAT8_E8M0",
        "FLOAT6_E3M2",
        "FLOAT6_E2M3",
    ],
    *["FLOAT4_E2M1", "FLOAT4_E1M2"],
}


def _port(name: str, kind: str = "required", types: str = "TensorType::ALL()") -> Record:
    return {"name": name, "kind": kind, "types": types}


def _attribute(name: str, kind: str, default: str | None = None) -> Record:
    return {"name": name, "type": kind, "required": default is None, "default": default}


# What models hold and no header declares. NetOutput collects the results; ConstPlaceHolder is how torchair hands over a
# frozen weight by its device address.
EXTRA: list[Record] = [
    {"name": "NetOutput", "inputs": [_port("x", "dynamic")], "outputs": [], "attrs": []},
    {
        "name": "ConstPlaceHolder",
        "inputs": [],
        "outputs": [_port("y")],
        "attrs": [
            _attribute("origin_shape", "ListInt"),
            _attribute("origin_format", "Int"),
            _attribute("storage_shape", "ListInt"),
            _attribute("storage_format", "Int"),
            _attribute("expand_dim_rules", "String"),
            _attribute("dtype", "Type"),
            _attribute("addr", "Int"),
            _attribute("size", "Int"),
            _attribute("placement", "Int", "1"),
        ],
    },
]
# Types that a header leaves out although something public has them, by operator; they are added to the ports named.
ADDED: dict[str, tuple[str, str]] = {
    "Conv2DTranspose": ("x filter", "FLOAT"),  # its output has it
    # Definitions of the kernels: hicann/ops-nn and hicann/ops-math, <operator>_def.cpp.
    "HardSwish": ("x y", "BF16"),
    "Greater": ("x1 x2", "BOOL"),
    "GreaterEqual": ("x1 x2", "BOOL"),
    "Split": ("split_dim", "INT64"),
    "StridedSlice": ("x y", "BOOL"),
    "Unpack": ("x y", "BOOL"),
    # torchair gives the sizes as int64.
    **{
        f"{name}Backprop{part}": ("input_size filter_size", "INT64")
        for name in ["Conv2D", "Conv3D", "DepthwiseConv2D"]
        for part in ["Input", "Filter"]
    },
    # HcclDataType has it; half of the collectives' headers are older.
    **{
        f"Hcom{name}": ("x y send_data recv_data", "BF16")
        for name in [
            "AllGather",
            "AllGatherV",
            "AllReduce",
            "AllToAll",
            "AllToAllV",
            "AllToAllVC",
            "Broadcast",
            "Gather",
            "Receive",
            "Reduce",
            "ReduceScatter",
            "ReduceScatterV",
            "Send",
        ]
    },
}
# They compute with no element: whatever their headers list, anything goes.
UNTYPED = {
    *((name, "x") for name in ("Bitcast", "FlattenV2", "Print", "Rank", "ShapeN", "StopGradient")),
    *((name, "y") for name in ("Bitcast", "FlattenV2", "StopGradient")),
}


def port_types(op: Record, port: Record) -> list[str] | None:
    """The types of an operator's port as its header lists them, put right; None: anything goes."""
    if (op["name"], port["name"]) in UNTYPED:
        return None
    types = types_of(port["types"], op.get("datatypes") or {})
    ports, extra = ADDED.get(op["name"], ("", ""))
    return sorted({*types, extra}) if types and port["name"] in ports.split() else types


# Data is fed from outside: its declared input exists in no model that a client writes.
OPTIONAL_INPUTS = {("Data", "x"), ("RefData", "x"), ("Variable", "x")}


def types_of(text: str, symbols: dict[str, str], depth: int = 0) -> list[str] | None:
    """The types that a header's expression lists, or None: anything goes."""
    if text.startswith('"'):  # a symbol of DATATYPE(T, ...)
        return types_of(symbols.get(text.strip('"'), "?"), symbols, depth + 1) if depth < 4 else None
    if text.startswith("Promote"):
        names = re.findall(r'"(\w+)"', text)
        parts = [types_of(f'"{name}"', symbols, depth + 1) for name in names]
        return None if None in parts else sorted({t for part in parts for t in part or []})
    words = re.findall(r"\w+", re.sub(r"\b(ge|(List)?TensorType|TesnorType)\b", " ", text))
    found: set[str] = set()
    for word in words:
        if word in SETS and not word.startswith("DT_"):
            found.update(SETS[word].split())
        elif word.removeprefix("DT_") in TYPES:
            found.add(word.removeprefix("DT_"))
        elif word in SPELLINGS:
            found.add(SPELLINGS[word])
        else:
            return None
    return sorted(found) or None


def _number(text: str) -> str:
    """A C++ floating literal, or a quotient of two, as decimal text."""
    value = 1.0
    for place, part in enumerate(text.split("/")):
        factor = float(part.strip().rstrip("fF"))
        value = value * factor if place == 0 else value / factor
    return repr(value)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.strip().strip("{}").split(",") if item.strip()]


def _integer(text: str) -> str:
    return text if text.startswith("DT_") else str(int(text, 0))


# ge::UNKNOWN_RANK and ge::UNKNOWN_SHAPE, of CANN's graph/types.h.
_NAMED_LISTS = {"ge::UNKNOWN_RANK": "-2", "ge::UNKNOWN_SHAPE": "-1"}


def default_of(kind: str, text: str) -> str | None:
    """The default as catalogue.cpp parses it, or None where there is no value (an empty tensor)."""
    match kind:
        case "Int":
            return _integer(text)
        case "Float":
            return _number(text)
        case "Bool" | "Type":
            return text
        case "String":
            return text.removeprefix('"').removesuffix('"')
        case "ListInt":
            return _NAMED_LISTS.get(text) or ",".join(str(int(item)) for item in _items(text))
        case "ListFloat":
            return ",".join(_number(item) for item in _items(text))
        case "ListBool":
            return ",".join(_items(text))
        case "ListListInt":
            return str(text.replace(" ", "").count("{") - 1)  # so many empty lists
        case "ListString" | "ListType" if not _items(text):
            return ""
        case "Tensor":
            return None
    raise ValueError(f"a default of {kind} that nobody has read yet: {text}")


class Table:
    """The operators' records, and the numbered sets of types that they share."""

    def __init__(self) -> None:
        self.sets: dict[str, int] = {}

    def _set(self, types: list[str] | None) -> int:
        return -1 if types is None else self.sets.setdefault(" ".join(types), len(self.sets))

    def _ports(self, mark: str, op: Record, ports: list[Record]) -> list[str]:
        lines = []
        for port in ports:
            optional = mark == "i" and (op["name"], port["name"]) in OPTIONAL_INPUTS
            kind = "optional" if optional else port["kind"]
            lines.append(f"{mark} {port['name']} {kind} {self._set(port_types(op, port))}")
        return lines

    def text(self, op: Record) -> str:
        lines = [op["name"], *self._ports("i", op, op["inputs"]), *self._ports("o", op, op["outputs"])]
        for attribute in op["attrs"]:
            default = attribute.get("default")
            value = None if default is None else default_of(attribute["type"], default)
            mark = "!" if attribute["required"] else "?" if value is None else f"={value}"
            lines.append(f"a {attribute['name']} {attribute['type']} {mark}")
        lines += [f"g {graph['name']} {graph['kind']}" for graph in op.get("graphs") or []]
        return "\n".join(lines)


def main(argv: list[str]) -> None:
    if len(argv) != 3:
        raise SystemExit(__doc__)
    facts = json.loads(Path(argv[1]).read_text())
    table = Table()
    operators = sorted([*facts["ops"], *EXTRA], key=lambda op: op["name"].encode())
    texts = [json.dumps(table.text(op)) for op in operators]
    sets = [json.dumps(text) for text in table.sets]
    Path(argv[2]).write_text(
        '#include "graph/catalogue_table.h"\n\nnamespace npu::graph {\n\n'
        "std::span<const char* const> type_set_texts() {\n    static constexpr const char* kTexts[] = {\n"
        + "".join(f"        {text},\n" for text in sets)
        + "    };\n    return kTexts;\n}\n\n"
        "std::span<const char* const> operator_texts() {\n    static constexpr const char* kTexts[] = {\n"
        + "".join(f"        {text},\n" for text in texts)
        + "    };\n    return kTexts;\n}\n\n}  // namespace npu::graph\n"
    )


if __name__ == "__main__":
    main(sys.argv)
