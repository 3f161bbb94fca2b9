"""Our facts, from which the plugin's structs are generated and asserted, against the headers as pypjrt has them."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest
from pypjrt._abi import pjrt_0_114 as abi

from tests.conformance.pjrt.plugin import table

FACTS = json.loads((Path(__file__).parents[3] / "native" / "pjrt" / "facts" / "pjrt.json").read_text())
# Unions without a name in the headers: pypjrt numbers them, we call them by what they are.
UNNAMED = {"PJRT_NamedValue_Value": "_Anon1", "PJRT_Buffer_MemoryLayout_Value": "_Anon2"}


@pytest.mark.parametrize("record", FACTS["structs"], ids=lambda record: record["name"])
def test_struct(record):
    name = record["name"]
    theirs = getattr(abi, UNNAMED.get(name, name))
    assert record["size"] == ctypes.sizeof(theirs)
    ours = [(offset, size) for _, _, offset, size in record["fields"]]
    fields = [getattr(theirs, field[0]) for field in theirs._fields_]
    assert ours == [(field.offset, field.size) for field in fields]
    named = [(field[0], field[0]) for field in record["fields"] if field[0] != "value"]
    assert all(hasattr(theirs, field) for field, _ in named)


@pytest.mark.parametrize("name, value", FACTS["constants"])
def test_constant(name, value):
    assert getattr(abi, name) == value


def test_table():
    order = [field[0] for field in abi.PJRT_Api._fields_][3:]
    assert FACTS["slots"] == order
    assert FACTS["first_slot_offset"] == getattr(abi.PJRT_Api, order[0]).offset
    assert table().struct_size == ctypes.sizeof(abi.PJRT_Api)
    assert table().pjrt_api_version.major_version == 0
