"""The data types against the extracted enumerations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npu_common.graph import dtypes

FACTS = Path(__file__).parents[3] / "native" / "cann" / "facts"
CANN = {"float32": "FLOAT", "float64": "DOUBLE", "bfloat16": "BF16", "float8_e8m0fnu": "FLOAT8_E8M0"}


def names(prefix: str, values: dict[str, int]) -> dict[int, str]:
    return {number: name.removeprefix(prefix) for name, number in values.items()}


@pytest.mark.parametrize("row", dtypes._ROWS, ids=lambda row: row.name)
def test_numbers_are_cann_s(row: dtypes._Row) -> None:
    enums = json.loads((FACTS / "enums.json").read_text())["acl_enums"]
    acl = names("ACL_", next(e["values"] for e in enums if e["name"] == "aclDataType"))
    schema = json.loads((FACTS / "ge_ir_proto.json").read_text())["enums"]
    proto = names("DT_", next(e["values"] for e in schema if e["name"] == "DataType"))
    wanted = CANN.get(row.name, row.name.upper())
    assert (acl[row.ge], proto[row.proto]) == (wanted, wanted)
    assert dtypes.from_ge(row.ge) == dtypes.from_proto(row.proto) == dtypes.dtype(row.name)


def test_what_has_no_numpy_form_is_refused() -> None:
    with pytest.raises(TypeError, match="'hifloat8' is not a data type of a graph"):
        dtypes.dtype("hifloat8")
