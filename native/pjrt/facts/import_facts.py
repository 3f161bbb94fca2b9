"""The compact copy of the PJRT facts that the build needs: ``import_facts.py PJRT_JSON [OUTPUT]``.

PJRT_JSON holds every struct of PJRT's C API and XLA's FFI. The copy leaves out the extensions for other hardware and
keeps one record a line, so that a change of the ABI is a readable diff.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

#: Structs of extensions that an NPU plugin has no use for.
LEFT_OUT = (
    "JAX_CustomCallPartitioner",
    "PJRT_Tpu",
    "PJRT_Megascale",
    "PJRT_Collectives",
    "PJRT_Triton",
    "PJRT_Gpu",
    "PJRT_PhaseCompile",
    "PJRT_XlaTransform",
    "PJRT_Xla_Transform",
    "PJRT_Register_Xla_Transform",
    "PJRT_Clear_Xla_Transform",
    "PJRT_MultiSlice",
    "PJRT_Callback",
    "PJRT_Custom_Partitioner",
    "PJRT_Register_",
    "PJRT_DeviceEvent",
)
#: Unions without a name of their own, by the number that the extraction gave them.
NAMES = {
    "_Anon1": "PJRT_NamedValue_Value",
    "_Anon2": "PJRT_Buffer_MemoryLayout_Value",
    "_anon5": "value",
    "_anon2": "value",
}


def main(argv: list[str]) -> None:
    if len(argv) not in (2, 3):
        raise SystemExit(__doc__)
    facts = json.loads(Path(argv[1]).read_text())
    output = Path(argv[2]) if len(argv) == 3 else Path(__file__).parent / "pjrt.json"
    structs = [
        struct(name, record)
        for name, record in facts["structs"].items()
        if not name.startswith(LEFT_OUT) and name != "PJRT_Api"
    ]
    constants = {name: value for name, value in facts["constants"].items() if wanted(name)}
    parts = [f'"source": {json.dumps(facts["source"])}']
    parts.append(f'"first_slot_offset": {facts["api_table_first_slot_offset"]}')
    parts.append(lines("slots", list(facts["api_table_slots"])))
    parts.append(lines("constants", [[name, value] for name, value in constants.items()]))
    parts.append(lines("structs", structs))
    output.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def struct(name: str, record: dict[str, Any]) -> dict[str, Any]:
    fields = [
        [NAMES.get(f["name"], f["name"]), NAMES.get(f["ctype"], f["ctype"]), f["offset"], f["size"]]
        for f in record["fields"]
    ]
    return {
        "name": NAMES.get(name, name),
        "kind": record["kind"],
        "size": record["size"],
        "fields": fields,
    }


def wanted(name: str) -> bool:
    return not name.endswith("STRUCT_SIZE") and not name.startswith((*LEFT_OUT, "PJRT_COLLECTIVES", "SLICE_"))


def lines(name: str, records: list[Any]) -> str:
    return f'"{name}": [\n' + ",\n".join(json.dumps(record) for record in records) + "\n]"


if __name__ == "__main__":
    main(sys.argv)
