"""The message classes of the engine's models (package ge.proto), made from the extracted schema; no protoc."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import npu_common

SCHEMA = "ge_ir_proto.json"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}
_making = threading.Lock()  # classes that two threads make at once are not each other's
FieldRow = tuple[str, int, str, str]  # name, number, type, label


def schema_file() -> Path:
    """The schema beside the installed package, or in the source tree it is developed in.

    Raises:
        FileNotFoundError: neither has it.
    """
    installed = [Path(folder, "graph", SCHEMA) for folder in npu_common.__path__]
    # src/npu_common is three folders below the root of the source tree.
    roots = [root for folder in npu_common.__path__ for root in Path(folder).resolve().parents[3:4]]
    source = [root / "native" / "cann" / "facts" / SCHEMA for root in roots]
    for file in installed + source:
        if file.is_file():
            return file
    raise FileNotFoundError(f"npu_common was installed without graph/{SCHEMA}: install it again (make setup)")


def messages() -> dict[str, Any]:
    """Message classes by name, "ModelDef", "AttrDef.ListValue"."""
    with _making:
        return _messages()


@cache
def _messages() -> dict[str, Any]:
    facts = json.loads(schema_file().read_text())
    enums = {row["name"]: row["values"] for row in facts["enums"]}
    return make_messages(facts["package"], {m["name"]: m["fields"] for m in facts["messages"]}, enums)


def make_messages(
    package: str, messages: dict[str, Iterable[FieldRow]], enums: dict[str, dict[str, int]]
) -> dict[str, Any]:
    """proto3 message classes in a pool of their own, so that torchair's own ge.proto cannot collide.

    Args:
        messages: rows by name; "Outer.Inner" nests.
        enums: values by name, nested alike.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"npu_common/{package}", package=package, syntax="proto3")
    made: dict[str, Any] = {}
    for name in sorted(messages, key=lambda n: n.count(".")):
        outer, _, own = name.rpartition(".")
        made[name] = (made[outer].nested_type if outer else file.message_type).add(name=own)
    for name, values in enums.items():
        outer, _, own = name.rpartition(".")
        enum = (made[outer].enum_type if outer else file.enum_type).add(name=own)
        for key, number in values.items():
            enum.value.add(name=key, number=number)
    names = {f".{package}.{n}": _Field.TYPE_MESSAGE for n in messages}
    names |= {f".{package}.{n}": _Field.TYPE_ENUM for n in enums}
    for name, rows in messages.items():
        for row in rows:
            _add_field(made[name], f".{package}.{name}", row, names)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[no-untyped-call,unused-ignore]
    return {
        n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{n}")) for n in messages
    }


def _add_field(message: Any, scope: str, row: FieldRow, names: dict[str, Any]) -> None:
    name, number, type, label = row
    if type.startswith("map<"):
        type = _add_map_entry(message, scope, name, type, names)
        label = "repeated"
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if label == "repeated" else _Field.LABEL_OPTIONAL
    _set_type(field, scope, type, names)
    if label.startswith("oneof:"):
        group = label.split(":")[1]
        known = [o.name for o in message.oneof_decl]
        if group not in known:
            message.oneof_decl.add(name=group)
            known.append(group)
        field.oneof_index = known.index(group)


def _add_map_entry(message: Any, scope: str, name: str, type: str, names: dict[str, Any]) -> str:
    """A map field is a repeated message of key and value, by a name that protobuf prescribes."""
    key, value = (part.strip() for part in type[len("map<") : -1].split(","))
    entry = message.nested_type.add(name="".join(p.capitalize() for p in name.split("_")) + "Entry")
    entry.options.map_entry = True
    for number, (part, of) in enumerate((("key", key), ("value", value)), start=1):
        field = entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL)
        _set_type(field, scope, of, names)
    full = f"{scope}.{entry.name}"
    names[full] = _Field.TYPE_MESSAGE
    return full


def _set_type(field: Any, scope: str, type: str, names: dict[str, Any]) -> None:
    if type in _SCALARS:
        field.type = _SCALARS[type]
        return
    while scope and not type.startswith("."):  # inner names first, as protoc resolves them
        if f"{scope}.{type}" in names:
            type = f"{scope}.{type}"
            break
        scope = scope.rpartition(".")[0]
    field.type, field.type_name = names[type], type
