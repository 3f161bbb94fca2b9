"""Writes our own declarations of PJRT's C API from facts/pjrt.json: ``generate.py OUTPUT_FOLDER``.

pjrt_c_api.h: constants, structs (sizes and offsets asserted), the table of functions, and the list of its slots.
Handles are typed as the classes of this folder that stand behind them, so that no caller casts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Record = dict[str, Any]
FACTS = Path(__file__).parent / "facts" / "pjrt.json"

SCALARS = {
    "c_ulong": "size_t",
    "c_void_p": "void*",
    "c_uint": "uint32_t",
    "c_int": "int32_t",
    "c_bool": "bool",
    "c_float": "float",
    "c_long": "int64_t",
}
#: Structs that only exist for jaxlib's tables of minor versions after the one that we report.
LEFT_OUT = {"PJRT_Error", "PJRT_Memory", "PJRT_RawBuffer"}
#: Functions of the table that answer nothing.
ANSWER_NOTHING = {"PJRT_Error_Destroy", "PJRT_Error_Message"}

#: What a pointer points to, by "Struct.field" or by the field's name; others stay void*.
POINTERS = {
    # Objects of ours.
    "error": "npu::pjrt::ErrorObject*",
    "client": "npu::pjrt::Client*",
    "device": "npu::pjrt::Device*",
    "dst_device": "npu::pjrt::Device*",
    "execute_device": "npu::pjrt::Device*",
    "addressable_device": "npu::pjrt::Device*",
    "device_out": "npu::pjrt::Device*",
    "devices": "npu::pjrt::Device* const*",
    "addressable_devices": "npu::pjrt::Device* const*",
    "device_description": "npu::pjrt::DeviceDescription*",
    "descriptions": "npu::pjrt::DeviceDescription* const*",
    "memory": "npu::pjrt::Memory*",
    "dst_memory": "npu::pjrt::Memory*",
    "memory_space": "npu::pjrt::Memory*",
    "memories": "npu::pjrt::Memory* const*",
    "addressable_memories": "npu::pjrt::Memory* const*",
    "buffer": "npu::pjrt::Buffer*",
    "src": "npu::pjrt::Buffer*",
    "dst_buffer": "npu::pjrt::Buffer*",
    "alias_buffer": "npu::pjrt::Buffer*",
    "buffer_out": "npu::pjrt::Buffer*",
    "out_buffer": "npu::pjrt::Buffer*",
    "event": "npu::pjrt::Event*",
    "done_with_host_buffer": "npu::pjrt::Event*",
    "done_with_h2d_transfer": "npu::pjrt::Event*",
    "executable": "npu::pjrt::Executable*",
    "loaded_executable": "npu::pjrt::LoadedExecutable*",
    "topology": "npu::pjrt::Topology*",
    "topology_description": "npu::pjrt::Topology*",
    "transfer_manager": "npu::pjrt::TransferManager*",
    "context": "npu::pjrt::ExecuteContext*",
    "raw_buffer": "npu::pjrt::RawBuffer*",
    **{
        f"PJRT_RawBuffer_{call}_Args.buffer": "npu::pjrt::RawBuffer*"
        for call in (
            "CopyRawDeviceToHost",
            "CopyRawHostToDevice",
            "Destroy",
            "GetHostPointer",
            "GetMemorySpace",
            "GetOnDeviceSizeInBytes",
        )
    },
    "abi_version": "npu::pjrt::AbiVersion*",
    "other_abi_version": "npu::pjrt::AbiVersion*",
    "executable_abi_version": "npu::pjrt::AbiVersion*",
    **{
        f"PJRT_{side}AbiVersion_{call}_Args.serialized_proto": "const char*"
        for side in ("Runtime", "Executable")
        for call in ("ToProto", "FromProto")
    },
    "serialized_proto_holder": "npu::pjrt::Bytes*",
    "serialized_proto_deleter": "npu::pjrt::DeleteBytes",
    "layout": "npu::pjrt::Layout*",
    "PJRT_Client_Compile_Args.executable": "npu::pjrt::LoadedExecutable*",
    "PJRT_AsyncTrackingEvent_Destroy_Args.event": "npu::pjrt::TrackingEvent*",
    "PJRT_Device_CreateAsyncTrackingEvent_Args.event": "npu::pjrt::TrackingEvent*",
    "PJRT_LoadedExecutable_Execute_Args.argument_lists": "npu::pjrt::Buffer* const* const*",
    "PJRT_LoadedExecutable_Execute_Args.output_lists": "npu::pjrt::Buffer** const*",
    "PJRT_LoadedExecutable_Execute_Args.device_complete_events": "npu::pjrt::Event**",
    "PJRT_LoadedExecutable_Execute_Args.options": "PJRT_ExecuteOptions*",
    "memory_descriptions": "const npu::pjrt::MemoryKind* const*",
    "memory_description": "const npu::pjrt::MemoryKind*",
    "PJRT_RawBuffer_CopyRawHostToDevice_Args.src": "const void*",
    "PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args.layouts": "npu::pjrt::Layout**",
    "PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args.layouts": "npu::pjrt::Layout**",
    # Structs of the API.
    "program": "PJRT_Program*",
    "attributes": "const PJRT_NamedValue*",
    "create_options": "const PJRT_NamedValue*",
    "properties": "const PJRT_NamedValue*",
    "transfer_metadata": "const PJRT_NamedValue*",
    "payload": "const PJRT_NamedValue*",
    "shape_specs": "PJRT_ShapeSpec*",
    "device_layouts": "PJRT_Buffer_MemoryLayout**",
    "device_layout": "PJRT_Buffer_MemoryLayout*",
    "host_layout": "PJRT_Buffer_MemoryLayout*",
    "shape_layout": "PJRT_Buffer_MemoryLayout*",
    "PJRT_Client_CreateViewOfDeviceBuffer_Args.layout": "PJRT_Buffer_MemoryLayout*",
    "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args.layout": "PJRT_Buffer_MemoryLayout*",
    "addressable_device_logical_ids": "PJRT_LogicalDeviceIds*",
    "non_donatable_input_indices": "const int64_t*",
    # Lists of numbers.
    "dims": "const int64_t*",
    "unpadded_dims": "const int64_t*",
    "shape_dims": "const int64_t*",
    "byte_strides": "const int64_t*",
    "minor_to_major": "const int64_t*",
    "tile_dims": "const int64_t*",
    "int64_array_value": "const int64_t*",
    "dim_sizes": "const size_t*",
    "tile_dim_sizes": "const size_t*",
    "dynamic_dim_indices": "const size_t*",
    "memory_kind_sizes": "const size_t*",
    "sharding_sizes": "const size_t*",
    "default_assignment": "int32_t*",
    "output_types": "uint32_t*",
    "memory_space_kind_ids": "const int32_t*",
    # Bytes and texts.
    "memory_kinds": "const char* const*",
    "shardings": "const char* const*",
    **dict.fromkeys(
        (
            "message",
            "error_message",
            "platform_name",
            "platform_version",
            "device_kind",
            "debug_string",
            "to_string",
            "kind",
            "description",
            "executable_name",
            "executable_fingerprint",
            "topology_name",
            "name",
            "string_value",
            "compile_options",
            "overridden_serialized_compile_options",
            "serialized_executable",
            "serialized_topology",
            "serialized_bytes",
            "serialized_shape",
            "key",
            "value",
            "target_name",
            "type_name",
            "format",
        ),
        "const char*",
    ),
    "code": "char*",
    "data": "const void*",
    "PJRT_FFI_UserData.data": "void*",
    "PJRT_Executable_Serialize_Args.serialized_executable": "npu::pjrt::Bytes*",
    "PJRT_TopologyDescription_Serialize_Args.serialized_topology": "npu::pjrt::Bytes*",
    "serialized_device_assignment": "npu::pjrt::Bytes*",
    "serialized_compile_options": "npu::pjrt::Bytes*",
    "PJRT_Layouts_MemoryLayout_Serialize_Args.serialized_layout": "npu::pjrt::Bytes*",
    "device_attributes": "npu::pjrt::NamedValues*",
    **dict.fromkeys(
        (
            "serialized_executable_deleter",
            "serialized_topology_deleter",
            "serialized_device_assignment_deleter",
            "serialized_compile_options_deleter",
            "serialized_layout_deleter",
        ),
        "npu::pjrt::DeleteBytes",
    ),
    "attributes_deleter": "npu::pjrt::DeleteNamedValues",
    "value_deleter_callback": "npu::pjrt::DeleteText",
    "PJRT_Event_OnReady_Args.callback": "npu::pjrt::EventCallback",
    "on_delete_callback": "npu::pjrt::OnDelete",
    "kv_get_callback": "npu::pjrt::KeyValueGet",
    "kv_put_callback": "npu::pjrt::KeyValuePut",
    "next": "PJRT_Extension_Base*",
    "extension_start": "void*",
}
#: In a struct whose name begins so, "executable" is the loaded one.
LOADED = "PJRT_LoadedExecutable_"

#: The classes behind the handles, and the callbacks that travel in the structs.
FORWARD = """\
namespace npu::pjrt {
struct ErrorObject;
class Client;
class Device;
class DeviceDescription;
class Memory;
class Buffer;
class Event;
class Executable;
class LoadedExecutable;
class Topology;
class TransferManager;
class ExecuteContext;
class RawBuffer;
class AbiVersion;
class TrackingEvent;
class Layout;
struct MemoryKind;
struct Bytes;
struct NamedValues;
using DeleteBytes = void (*)(Bytes*);
using DeleteNamedValues = void (*)(NamedValues*);
using DeleteText = void (*)(const char*);
using EventCallback = void (*)(ErrorObject*, void*);
using OnDelete = void (*)(void*, void*);
using KeyValueGet = ErrorObject* (*)(PJRT_KeyValueGetCallback_Args*);
using KeyValuePut = ErrorObject* (*)(PJRT_KeyValuePutCallback_Args*);
}  // namespace npu::pjrt
"""


def main(argv: list[str]) -> None:
    if len(argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pjrt_c_api.h").write_text(header(json.loads(FACTS.read_text())))


def header(facts: Record) -> str:
    by_name = {record["name"]: record for record in facts["structs"] if record["name"] not in LEFT_OUT}
    parts = [
        "// Generated by native/pjrt/generate.py from native/pjrt/facts. Do not edit.\n#pragma once\n\n"
        "#include <cstddef>\n#include <cstdint>\n\n",
        *(f"{record['kind']} {name};\n" for name, record in by_name.items()),
        FORWARD,
        "\n",
    ]
    parts += [f"inline constexpr int {name} = {value};\n" for name, value in facts["constants"]]
    parts += [struct(record) for record in in_order(by_name)]
    parts += [api(facts), slots(facts)]
    return "".join(parts)


def in_order(by_name: dict[str, Record]) -> list[Record]:
    """Structs sorted so that each follows the ones it holds by value."""
    done: dict[str, Record] = {}

    def visit(record: Record) -> None:
        for _, type_, *_ in record["fields"]:
            if type_ in by_name and type_ not in done:
                visit(by_name[type_])
        done.setdefault(record["name"], record)

    for record in by_name.values():
        visit(record)
    return list(done.values())


def struct(record: Record) -> str:
    name = record["name"]
    lines = "".join(f"    {declare(name, *field[:2])};\n" for field in record["fields"])
    checks = "".join(
        f"static_assert(offsetof({name}, {field}) == {offset} && sizeof({name}::{field}) == {size});\n"
        for field, _, offset, size in record["fields"]
    )
    return f"{record['kind']} {name} {{\n{lines}}};\n{checks}static_assert(sizeof({name}) == {record['size']});\n"


def declare(struct: str, field: str, type_: str) -> str:
    if "_Array_" in type_:
        element, count = type_.split("_Array_")
        return f"{SCALARS[element]} {field}[{count}]"
    if type_ != "c_void_p" or struct.startswith("XLA_FFI"):
        return f"{SCALARS.get(type_, type_)} {field}"
    if field == "executable" and struct.startswith(LOADED) and struct != f"{LOADED}GetExecutable_Args":
        return "npu::pjrt::LoadedExecutable* executable"
    if struct == "PJRT_AbiVersion_Extension":
        return f"void* {field}"
    return f"{POINTERS.get(f'{struct}.{field}', POINTERS.get(field, 'void*'))} {field}"


def api(facts: Record) -> str:
    """The table: a function pointer a slot."""
    rows = "".join(f"    {answer(slot)} (*{slot})({slot}_Args*);\n" for slot in facts["slots"])
    first, count = facts["slots"][0], len(facts["slots"])
    return (
        "struct PJRT_Api {\n    size_t struct_size;\n    PJRT_Extension_Base* extension_start;\n"
        f"    PJRT_Api_Version pjrt_api_version;\n{rows}}};\n"
        f"static_assert(offsetof(PJRT_Api, {first}) == {facts['first_slot_offset']});\n"
        f"static_assert(sizeof(PJRT_Api) == {facts['first_slot_offset']} + {count} * sizeof(void*));\n\n"
    )


def answer(slot: str) -> str:
    return "void" if slot in ANSWER_NOTHING else "npu::pjrt::ErrorObject*"


def slots(facts: Record) -> str:
    """A list for macros: every slot that answers an error."""
    rows = " \\\n".join(f"    X({slot})" for slot in facts["slots"] if slot not in ANSWER_NOTHING)
    return f"#define NPU_PJRT_SLOTS(X) \\\n{rows}\n"


if __name__ == "__main__":
    main(sys.argv)
