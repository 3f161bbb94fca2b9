"""The graph language: CANN's operator catalogue and its inference, written once in C++ (native/graph).

Everything here goes through `GraphLanguage`, so that a test can put something smaller in its place.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np

from npu_common.graph import dtypes
from npu_common.graph.ir import Attribute, GraphError, Shape


@dataclass(frozen=True, slots=True)
class Port:
    name: str
    arity: Literal["required", "optional", "dynamic"]
    types: frozenset[str]  # names; empty: the catalogue's list could not be read, anything goes


@dataclass(frozen=True, slots=True)
class AttributeDef:
    name: str
    type: str  # "Int", "ListInt", "Float", "Bool", "String", "Type", "Tensor", "ListListInt", ...
    required: bool
    default: Attribute


@dataclass(frozen=True, slots=True)
class Operator:
    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    attributes: Mapping[str, AttributeDef]
    subgraphs: tuple[str, ...]
    dynamic_subgraphs: bool  # any number of them, from one up (Case)


@dataclass(frozen=True, slots=True)
class Operand:
    """What is known of an input: its type, and its value where it is a constant."""

    dtype: dtypes.DType
    shape: Shape | None
    value: np.ndarray[Any, Any] | None = None


class GraphLanguage(Protocol):
    def find_operator(self, type: str) -> Operator | None: ...

    def has_rule(self, type: str) -> bool: ...

    def infer(
        self,
        type: str,
        attributes: Mapping[str, Attribute],
        inputs: Sequence[Operand | None],
        input_names: Sequence[str],
        outputs: int = 0,
    ) -> list[tuple[dtypes.DType, Shape | None]]:
        """The outputs' types. Raises GraphError, naming what does not fit or that there is no rule."""
        ...


class NativeLanguage:
    """The binding (native/bindings/graph.cpp) with Python's own types."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.find_operator = cache(self._find_operator)
        self.has_rule = cache(self._has_rule)

    def _find_operator(self, type: str) -> Operator | None:
        fact = self._module.find_operator(type)
        if fact is None:
            return None
        attributes = (
            AttributeDef(a["name"], a["type"], a["required"], _from_native(a["type"], a["default"]))
            for a in fact["attributes"]
        )
        return Operator(
            fact["name"],
            tuple(_port(p) for p in fact["inputs"]),
            tuple(_port(p) for p in fact["outputs"]),
            {a.name: a for a in attributes},
            tuple(fact["subgraphs"]),
            fact["dynamic_subgraphs"],
        )

    def _has_rule(self, type: str) -> bool:
        return bool(self._module.has_rule(type))

    def infer(
        self,
        type: str,
        attributes: Mapping[str, Attribute],
        inputs: Sequence[Operand | None],
        input_names: Sequence[str],
        outputs: int = 0,
    ) -> list[tuple[dtypes.DType, Shape | None]]:
        # The engine's own attributes ("_...") are no part of the operator.
        plain = {k: _to_native(v) for k, v in attributes.items() if not k.startswith("_")}
        try:
            found = self._module.infer(type, plain, [_operand(i) for i in inputs], list(input_names), outputs)
        except ValueError as error:
            raise GraphError(str(error)) from None
        return [(dtypes.dtype(name), _shape(dims)) for name, dims, _ in found]


def _port(fact: dict[str, Any]) -> Port:
    return Port(fact["name"], fact["arity"], frozenset(fact["types"]))


def _operand(operand: Operand | None) -> tuple[Any, ...] | None:
    if operand is None:
        return None
    dims = None if operand.shape is None else [-1 if d is None else d for d in operand.shape]
    return dtypes.language_name(operand.dtype), dims, operand.value


def _shape(dims: list[int] | None) -> Shape | None:
    return None if dims is None else tuple(None if d < 0 else d for d in dims)


def _to_native(value: Attribute) -> Any:
    if isinstance(value, np.dtype):
        return dtypes.language_name(value)
    if isinstance(value, np.ndarray):
        return dtypes.language_name(value.dtype), list(value.shape), value
    if isinstance(value, (list, tuple)):
        return [_to_native(v) for v in value]
    return value


def _from_native(type: str, value: Any) -> Attribute:
    if type == "Type" and isinstance(value, str):
        return None if value == dtypes.ABSENT else dtypes.dtype(value)
    if type == "Tensor":
        return None  # the catalogue's default is an empty tensor
    return value


@cache
def native() -> NativeLanguage:
    """The catalogue and inference of this installation.

    Raises:
        ImportError: npu_common was installed without its native part.
    """
    try:
        module = importlib.import_module("npu_common._cann")
    except ImportError as error:
        raise ImportError(
            "npu_common has no native part (npu_common._cann): install the package with make setup"
        ) from error
    return NativeLanguage(module.graph)
