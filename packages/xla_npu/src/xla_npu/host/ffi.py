"""Calls of the user's handlers (`jax.ffi.ffi_call`): what a program holds of one. See xla_npu/ffi.py.

The attributes of a call become a message of native/pjrt/README.md, in the forms that XLA gives to handlers of MLIR's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from npu_common.graph.proto import FieldRow, make_messages
from xla_npu.errors import Unsupported
from xla_npu.host import Request
from xla_npu.lowering.constants import dense_elements
from xla_npu.types import element_named, is_token, tensor_type

_MESSAGES: dict[str, tuple[FieldRow, ...]] = {
    "FfiAttributes": (("attributes", 1, "FfiAttribute", "repeated"),),
    "FfiAttribute": (
        ("name", 1, "string", ""),
        ("scalar", 2, "Values", "oneof:value"),
        ("array", 3, "Values", "oneof:value"),
        ("string", 4, "bytes", "oneof:value"),
        ("dictionary", 5, "FfiAttributes", "oneof:value"),
    ),
    "Values": (("type", 1, "int32", ""), ("bytes", 2, "bytes", "")),
}
_CLASSES = make_messages("npu.ffi", dict(_MESSAGES), {})


def request(operation: Any) -> Request:
    """The call of a handler.

    Raises:
        Unsupported: the call needs what npu does not have, by name.
    """
    target = operation.attributes["call_target_name"].value
    if any(is_token(value.type) for value in (*operation.operands, *operation.results)):
        raise Unsupported(f"the custom call '{target}' takes or gives a token, which npu's FFI does not have")
    effect = "has_side_effect" in operation.attributes and bool(operation.attributes["has_side_effect"].value)
    _check_layouts(target, operation)
    return Request(target, _attributes(target, operation), effect, "ffi", _aliases(operation))


def _check_layouts(target: str, operation: Any) -> None:
    for name in ("operand_layouts", "result_layouts"):
        for layout in operation.attributes[name] if name in operation.attributes else ():  # noqa: SIM401 (no dict)
            order = np.asarray(layout).tolist()
            if order != sorted(order, reverse=True):
                raise Unsupported(
                    f"the custom call '{target}' wants the layout {order} (minor to major); arrays on npu are row-major"
                )


def _attributes(target: str, operation: Any) -> bytes:
    for name in ("mhlo.backend_config", "backend_config"):
        if name in operation.attributes and isinstance(operation.attributes[name], ir.DictAttr):
            given = operation.attributes[name]
            return bytes(_dictionary(target, given).SerializeToString(deterministic=True))
    raise Unsupported(f"the custom call '{target}' uses the untyped interface; npu has XLA's typed FFI")


def _aliases(operation: Any) -> tuple[tuple[int, int], ...]:
    """Which result has the memory of which operand, by their places."""
    if "output_operand_aliases" not in operation.attributes:
        return ()
    found = [stablehlo.OutputOperandAlias(each) for each in operation.attributes["output_operand_aliases"]]
    return tuple(((list(each.output_tuple_indices) or [0])[0], each.operand_index) for each in found)


def _dictionary(target: str, given: Any) -> Any:
    made = _CLASSES["FfiAttributes"]()
    for index in range(len(given)):
        name = given[index].name
        try:
            value = given[name]  # jaxlib ends the process over `given[index].attr` of complex numbers
        except (TypeError, ValueError) as error:
            raise Unsupported(
                f"the custom call '{target}' has the attribute {name}, which jaxlib cannot read: {error}"
            ) from error
        _fill(made.attributes.add(name=name), target, value)
    return made


def _fill(made: Any, target: str, value: Any) -> None:
    """One attribute, in the form that XLA gives to handlers of MLIR's."""
    if isinstance(value, ir.StringAttr):
        made.string = value.value_bytes
    elif isinstance(value, ir.DictAttr):
        made.dictionary.CopyFrom(_dictionary(target, value))
        made.dictionary.SetInParent()
    elif isinstance(value, ir.BoolAttr):
        _values(made.scalar, "i1", value.value)
    elif isinstance(value, ir.IntegerAttr | ir.FloatAttr):
        _values(made.scalar, str(value.type), value.value)
    elif isinstance(value, ir.DenseElementsAttr):
        type_ = tensor_type(value.type)
        _values(made.array, type_.element.stablehlo, dense_elements(value, type_))
    else:
        raise Unsupported(
            f"the custom call '{target}' has the attribute {made.name} = {value}; npu's FFI takes numbers, strings, "
            "NumPy arrays and dictionaries of them"
        )


def _values(made: Any, element: str, value: Any) -> None:
    named = element_named(element)
    made.type = named.pjrt
    made.bytes = np.ascontiguousarray(value, dtype=named.numpy).tobytes()
