"""The compiled form of a program: what the compiler hands to libpjrt_npu.so, and what PJRT serialises.

A protobuf message (package npu.program); native/pjrt/program.cpp reads it. A program without host work is one
`RunModel`; loops and branches are steps of the plan only where they hold host work, else the model has them.
"""

from __future__ import annotations

from typing import Any

from npu_common.graph.proto import FieldRow, make_messages

FORMAT = 1
_PACKAGE = "npu.program"
# Name, number, type, label. A number is never used again for something else.
_MESSAGES: dict[str, tuple[FieldRow, ...]] = {
    "Program": (
        ("format", 1, "uint32", ""),
        ("name", 2, "string", ""),
        ("fingerprint", 3, "string", ""),
        ("num_replicas", 4, "uint32", ""),
        ("num_partitions", 5, "uint32", ""),
        ("soc", 6, "string", ""),
        ("cann_version", 7, "string", ""),
        ("parameters", 8, "Tensor", "repeated"),
        ("results", 9, "Tensor", "repeated"),
        ("aliases", 10, "Alias", "repeated"),
        ("models", 11, "bytes", "repeated"),  # what aclgrphBuildModel gave
        ("body", 12, "Block", ""),
        ("optimized_program", 13, "string", ""),  # MLIR text, for Compiled.as_text()
        ("costs", 14, "Cost", "repeated"),
        ("parameter_shardings", 15, "bytes", "repeated"),  # serialised xla.OpSharding: of each, or of none
        ("result_shardings", 16, "bytes", "repeated"),
        ("groups", 17, "Group", "repeated"),
        ("assignment", 18, "int64", "repeated"),  # the device ids that the groups' names were made for
        (
            "takes_place",
            19,
            "bool",
            "",
        ),  # the body's last input is ui32[2]: the device's replica and partition
    ),
    # type: PJRT_Buffer_Type. memory_kind: "" is the device's own memory.
    "Tensor": (("type", 1, "int32", ""), ("dims", 2, "int64", "repeated"), ("memory_kind", 3, "string", "")),
    # What models call by the name: each place (replica * num_partitions + partition) is in one of the lists.
    "Group": (("name", 1, "string", ""), ("members", 2, "Members", "repeated")),
    "Members": (("places", 1, "uint32", "repeated"),),
    "Alias": (("result", 1, "uint32", ""), ("parameter", 2, "uint32", ""), ("must", 3, "bool", "")),
    "Cost": (("name", 1, "string", ""), ("value", 2, "string", "")),  # value: a decimal number
    # inputs, outputs: numbers of slots. An output may name an input's slot: its value, copied if it is not donated.
    "Block": (
        ("slots", 1, "Tensor", "repeated"),
        ("inputs", 2, "uint32", "repeated"),
        ("outputs", 3, "uint32", "repeated"),
        ("steps", 4, "Step", "repeated"),
    ),
    "Step": (
        ("location", 1, "string", ""),
        ("run", 2, "RunModel", "oneof:what"),
        ("host", 3, "HostCall", "oneof:what"),
        ("loop", 4, "While", "oneof:what"),
        ("branch", 5, "Case", "oneof:what"),
    ),
    "RunModel": (
        ("model", 1, "uint32", ""),
        ("inputs", 2, "uint32", "repeated"),
        ("outputs", 3, "uint32", "repeated"),
    ),
    # api: "python" calls xla_npu.host by target, "ffi" a registered XLA FFI handler. aliases, of "ffi": the places of a
    # result and an input that have one memory, which holds the input when the handler starts.
    "HostCall": (
        ("target", 1, "string", ""),
        ("attributes", 2, "bytes", ""),
        ("inputs", 3, "uint32", "repeated"),
        ("outputs", 4, "uint32", "repeated"),
        ("has_side_effect", 5, "bool", ""),
        ("api", 6, "string", ""),
        ("aliases", 7, "Alias", "repeated"),
    ),
    "While": (
        ("condition", 1, "Block", ""),
        ("body", 2, "Block", ""),
        ("inputs", 3, "uint32", "repeated"),
        ("outputs", 4, "uint32", "repeated"),
    ),
    # index: a slot with an int32 scalar, or a bool one (false is branch 0); out of range takes the last branch, as
    # StableHLO's `case` does.
    "Case": (
        ("index", 1, "uint32", ""),
        ("branches", 2, "Block", "repeated"),
        ("inputs", 3, "uint32", "repeated"),
        ("outputs", 4, "uint32", "repeated"),
    ),
}
# The part of XLA's CompileOptionsProto (xla/pjrt/proto/compile_options.proto, xla/xla_data.proto) that is read here.
_OPTIONS: dict[str, tuple[FieldRow, ...]] = {
    "CompileOptions": (
        ("executable_build_options", 3, "BuildOptions", ""),
        ("env_option_overrides", 7, "map<string, OptionValue>", ""),
    ),
    "BuildOptions": (
        ("num_replicas", 4, "int64", ""),
        ("num_partitions", 5, "int64", ""),
        ("device_assignment", 9, "DeviceAssignment", ""),
    ),
    "DeviceAssignment": (
        ("replica_count", 1, "int32", ""),
        ("computation_count", 2, "int32", ""),
        ("computation_devices", 3, "ComputationDevice", "repeated"),
    ),
    "ComputationDevice": (("replica_device_ids", 1, "int64", "repeated"),),
    "OptionValue": (
        ("string_field", 1, "string", "oneof:value"),
        ("bool_field", 2, "bool", "oneof:value"),
        ("int_field", 3, "int64", "oneof:value"),
    ),
}


# Made while the module is imported: classes that two threads make at once are not each other's.
_CLASSES = make_messages(_PACKAGE, dict(_MESSAGES), {})
_OPTION_CLASSES = make_messages("npu.options", dict(_OPTIONS), {})


def messages() -> dict[str, Any]:
    """The message classes of a program by name."""
    return _CLASSES


def option_messages() -> dict[str, Any]:
    """The message classes of XLA's compile options, as far as they are read."""
    return _OPTION_CLASSES
