"""Attribute values as ge.proto.AttrDef and back, by the catalogue's type of the attribute."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_common.graph import dtypes
from npu_common.graph.ir import Attribute, GraphError

# Catalogue type -> the field of AttrDef, or of its list with the list's own type number (ListValueType).
_FIELDS = {"Int": "i", "Float": "f", "Bool": "b", "String": "s", "Type": "dt"}
_LISTS = {
    "ListString": ("s", 1),
    "ListInt": ("i", 2),
    "ListFloat": ("f", 3),
    "ListBool": ("b", 4),
    "ListType": ("dt", 10),
}


def kind_of(value: Attribute) -> str:
    """The catalogue type that fits a value; for attributes the catalogue does not know ("_...").

    Raises:
        GraphError: the model has no form for it.
    """
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], (list, tuple)):
            return "ListListInt"
        return f"List{kind_of(value[0])}" if value else "ListInt"
    for type, kind in ((bool, "Bool"), (int, "Int"), (float, "Float"), (str, "String"), (np.dtype, "Type")):
        if isinstance(value, type):
            return kind
    if isinstance(value, np.ndarray):
        return "Tensor"
    raise GraphError(f"a model cannot hold an attribute like {value!r}")


def to_attribute(out: Any, kind: str, value: Attribute) -> None:
    """Fills the AttrDef `out`. `kind`: the catalogue's type, or "" to take what the value suggests."""
    kind = kind or kind_of(value)
    if kind in _FIELDS:
        setattr(out, _FIELDS[kind], _scalar(kind, value))
    elif kind in _LISTS:
        field, number = _LISTS[kind]
        out.list.val_type = number
        getattr(out.list, field).extend(_scalar(kind.removeprefix("List"), v) for v in value)
    elif kind == "ListListInt":
        out.list_list_int.SetInParent()
        for row in value:
            out.list_list_int.list_list_i.add().list_i.extend(row)
    elif kind == "Tensor":
        write_array(out.t, value)
    else:
        raise GraphError(f"attributes of type {kind} cannot be written")


def from_attribute(attribute: Any, kind: str) -> Attribute:
    """The value of an AttrDef. `kind`: the catalogue's type, which decides where the wire does not."""
    which = attribute.WhichOneof("value")
    if which is None:
        return [] if kind.startswith("List") else None
    if which == "list":
        return _list(attribute.list, kind)
    if which == "list_list_int":
        return [list(row.list_i) for row in attribute.list_list_int.list_list_i]
    if which == "t":
        return read_array(attribute.t)
    return _read(which, getattr(attribute, which))


def _scalar(kind: str, value: Attribute) -> Any:
    if kind == "Type":
        return dtypes.ge_number(value)
    return value.encode() if kind == "String" else value


def _read(field: str, value: Any) -> Attribute:
    if field == "s":
        return value.decode("utf-8", "backslashreplace")
    if field == "dt":
        return dtypes.from_ge(value)
    if field in ("i", "f", "b"):
        return value
    raise GraphError(f"attributes held as AttrDef.{field} are not supported")


def _list(message: Any, kind: str) -> list[Any]:
    # torchair leaves val_type 0 for lists of strings, so the filled field counts, not the number.
    for field, _ in _LISTS.values():
        values = getattr(message, field)
        if len(values):
            return [_read(field, v) for v in values]
    return []


def write_array(out: Any, array: np.ndarray[Any, Any]) -> None:
    """Fills a TensorDef: dense, row-major."""
    out.desc.dtype = dtypes.proto_number(array.dtype)
    out.desc.layout = "ND"
    out.desc.shape.dim.extend(array.shape)
    out.data = np.ascontiguousarray(array).tobytes()


def read_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Raises GraphError if the bytes are not those of the descriptor's type."""
    dtype = dtypes.from_proto(tensor.desc.dtype)
    shape = tuple(tensor.desc.shape.dim)
    count = int(np.prod(shape, dtype=np.int64)) if all(d >= 0 for d in shape) else -1
    if count * dtype.itemsize != len(tensor.data):
        raise GraphError(f"a constant {dtype.name}{list(shape)} has {len(tensor.data)} bytes")
    array = np.frombuffer(tensor.data, dtype).reshape(shape)
    array.flags.writeable = False
    return array
