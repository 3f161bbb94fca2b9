"""Lowers GE operators to aclnn calls by the table in aclnn_table.py: what to call with what, nothing of how."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from npu_common.graph import dtypes
from npu_common.graph.executors.aclnn_table import LINES, VIEWS
from npu_common.graph.ir import CONSTANTS, GraphError, Node, Value
from npu_common.graph.language import GraphLanguage, native
from npu_common.graph.passes.pattern import attribute


@dataclass(frozen=True, slots=True)
class Token:
    """One argument of a line; `kind`: input, attribute, output, type, function, literal, none."""

    kind: str
    name: str
    detail: Any = None


@dataclass(frozen=True, slots=True)
class CallLine:
    function: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Line:
    calls: tuple[CallLine, ...]
    ignored: frozenset[str]
    where: Mapping[str, str]

    def names(self, *kinds: str) -> set[str]:
        return {t.name for call in self.calls for t in call.tokens if t.kind in kinds}


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument that is a tensor; `swapped`: a view with the last two dimensions exchanged."""

    value: Value
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Tensors:
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class DataType:
    dtype: dtypes.DType


@dataclass(frozen=True, slots=True)
class Call:
    """An aclnn function and its arguments in order: Tensor, Tensors, DataType, int, float, bool, str, a list of
    integers, or None. The prototype says what becomes an aclScalar or an aclIntArray."""

    function: str
    arguments: tuple[Any, ...]


class DoesNotFit(Exception):
    """Why a line is not for this node."""


def lower(node: Node, language: GraphLanguage | None = None) -> list[Call]:
    """The calls that compute the node; none for views and constants.

    Raises:
        GraphError: no aclnn operator says it, naming the reason for each that was tried.
    """
    language = language or native()
    if node.type in VIEWS or node.type in CONSTANTS or node.type == "Data":
        return []
    reasons = []
    for line in lines(node.type):
        try:
            return _calls(line, node, language)
        except DoesNotFit as reason:
            reasons.append(f"{line.calls[0].function}: {reason}")
    said = "; ".join(reasons) or "no aclnn operator is known for it"
    raise GraphError(f"{node} cannot run operator by operator: {said}. NPU_COMPILER=ge compiles it whole")


def is_covered(type: str) -> bool:
    return type in LINES or type in VIEWS


# 1. Reading the table.

_LINE = re.compile(r"(?P<calls>.*?\))(?P<ignored>(\s*~\w+)*)(\s*where\s+(?P<where>.+))?$")
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("none", re.compile(r"-()$")),
    ("literal", re.compile(r"(-?\d+(?:\.\d+)?|true|false)$")),
    ("output", re.compile(r"=(\w+)$")),
    ("type", re.compile(r"#(\w+)$")),
    ("attribute", re.compile(r"\.(\w+)(?:\{(.*)\})?$")),
    ("function", re.compile(r"(\w+)\((\w+)\)$")),
    ("input", re.compile(r"(\w+)(\^\w+|!|\[0\])?$")),
)


@cache
def lines(type: str) -> tuple[Line, ...]:
    return tuple(_parse(text) for text in LINES.get(type, ()))


def _parse(text: str) -> Line:
    found = _LINE.match(text)
    assert found, text
    calls = []
    for call in found["calls"].split(";"):
        function, _, inside = call.strip().partition("(")
        arguments = re.split(r",\s*(?![^{]*\})", inside[:-1])
        calls.append(CallLine(function, tuple(_token(a.strip()) for a in arguments)))
    where = dict(item.strip().split("=") for item in (found["where"] or "").split(",") if item.strip())
    return Line(tuple(calls), frozenset(found["ignored"].replace("~", " ").split()), where)


def _token(text: str) -> Token:
    for kind, pattern in _PATTERNS:
        found = pattern.match(text)
        if found:
            return Token(kind, *found.groups())
    raise AssertionError(f"aclnn_table: cannot read the argument '{text}'")


# 2. Filling a line in.


def _calls(line: Line, node: Node, language: GraphLanguage) -> list[Call]:
    _check_nothing_is_dropped(line, node, language)
    return [
        Call(call.function, tuple(_argument(token, node, language) for token in call.tokens))
        for call in line.calls
    ]


def _check_nothing_is_dropped(line: Line, node: Node, language: GraphLanguage) -> None:
    operator = language.find_operator(node.type)
    assert operator is not None, node.type
    named = line.names("input", "attribute", "output", "type") | line.ignored | set(line.where)
    for call in line.calls:
        for token in call.tokens:
            if token.kind == "function":
                named.add(token.detail)
            elif token.kind == "input" and (token.detail or "").startswith("^"):
                named.add(token.detail[1:])
    for value, name in zip(node.inputs, node.input_names, strict=True):
        if value is not None and name not in named and name.rstrip("0123456789") not in named:
            raise DoesNotFit(f"it takes no '{name}'")
    for name, given in node.attributes.items():
        if name in named or name.startswith("_"):
            continue
        if given != operator.attributes[name].default:
            raise DoesNotFit(f"it knows no {name}={given!r}")
    for name, wanted in line.where.items():
        if name.startswith("#"):
            if not any(
                port == name[1:] and value.dtype.kind in "iu" for port, value in _outputs(node, language)
            ):
                raise DoesNotFit(f"it is for {wanted} outputs")
        elif str(attribute(node, name, language)) != wanted:
            raise DoesNotFit(f"it needs {name}={wanted}")
    outputs = line.names("output")
    for port, value in _outputs(node, language):
        if value.uses and port not in outputs and not _is_reference(line, port):
            raise DoesNotFit(f"it does not give the output '{port}'")


def _is_reference(line: Line, port: str) -> bool:
    return any(t.kind == "input" and t.name == port for call in line.calls for t in call.tokens)


def _outputs(node: Node, language: GraphLanguage) -> list[tuple[str, Value]]:
    """Outputs with the name of their port; a dynamic port's stand together."""
    operator = language.find_operator(node.type)
    ports = operator.outputs if operator else ()
    extra = len(node.outputs) - len(ports)
    names = [p.name for p in ports for _ in range(1 + extra if p.arity == "dynamic" else 1)]
    return list(zip(names, node.outputs, strict=False))


def _argument(token: Token, node: Node, language: GraphLanguage) -> Any:
    return _RESOLVERS[token.kind](token, node, language)


def _input(token: Token, node: Node, language: GraphLanguage) -> Any:
    operator = language.find_operator(node.type)
    assert operator is not None
    detail = token.detail or ""
    if detail in ("!", "[0]") and token.name in operator.attributes and node.input(token.name) is None:
        return _listed(attribute(node, token.name, language), detail, token.name)
    port = next(p for p in operator.inputs if p.name == token.name)
    if port.arity == "dynamic":
        prefix = re.compile(re.escape(token.name) + r"\d+$")
        pairs = zip(node.inputs, node.input_names, strict=True)
        return Tensors(tuple(v for v, name in pairs if v is not None and prefix.match(name)))
    value = node.input(token.name)
    if detail in ("!", "[0]"):
        return _listed(constant_integers(node, token.name), detail, token.name)
    if value is None:
        if port.arity == "required" or _is_needed(token, node):
            raise DoesNotFit(f"it needs '{token.name}'")
        return None
    swapped = detail.startswith("^") and bool(attribute(node, detail[1:], language))
    return Tensor(value, swapped)


def _is_needed(token: Token, node: Node) -> bool:
    # PadV3 without its value has a line of its own; so has a product without bias.
    return (node.type, token.name) in (("PadV3", "constant_values"),) or (
        token.name == "bias" and "MatMul" in node.type
    )


def _listed(values: Any, detail: str, name: str) -> Any:
    listed = list(values) if isinstance(values, (list, tuple)) else [values]
    if detail == "!":
        if not listed:
            raise DoesNotFit(f"it needs at least one of '{name}'")
        return listed
    if len(listed) != 1:
        raise DoesNotFit(f"it takes one of '{name}', not {listed}")
    return listed[0]


def constant_integers(node: Node, name: str) -> list[int]:
    value = node.input(name)
    array = None if value is None else value.constant
    if array is None or array.dtype.kind not in "iu":
        raise DoesNotFit(f"'{name}' has to be a constant")
    return [int(i) for i in array.reshape(-1)]


def _attribute(token: Token, node: Node, language: GraphLanguage) -> Any:
    held = attribute(node, token.name, language)
    if token.detail:
        table = dict(pair.split(":") for pair in token.detail.split(","))
        if held not in table:
            raise DoesNotFit(f"it knows no {token.name}={held!r}")
        return int(table[held])
    if isinstance(held, float) and held.is_integer() and node.outputs[0].dtype.kind in "iu":
        return int(held)  # aclnnAdd's alpha: a float one is refused for integers
    return held


def _output(token: Token, node: Node, language: GraphLanguage) -> Any:
    values = [value for port, value in _outputs(node, language) if port == token.name]
    operator = language.find_operator(node.type)
    assert operator is not None
    dynamic = any(p.name == token.name and p.arity == "dynamic" for p in operator.outputs)
    return Tensors(tuple(values)) if dynamic else Tensor(values[0])


def _type(token: Token, node: Node, language: GraphLanguage) -> Any:
    return DataType(next(value.dtype for port, value in _outputs(node, language) if port == token.name))


def _literal(token: Token, node: Node, language: GraphLanguage) -> Any:
    if token.name in ("true", "false"):
        return token.name == "true"
    return float(token.name) if "." in token.name else int(token.name)


# 3. Arguments that have to be worked out. Each gets the node and the name in the brackets.


def _values(node: Node, name: str, language: GraphLanguage) -> list[int]:
    held = attribute(node, name, language) if name not in node.input_names else None
    if held is None:
        return constant_integers(node, name)
    return list(held) if isinstance(held, (list, tuple)) else [held]


def _sizes(node: Node, name: str, language: GraphLanguage) -> list[int]:
    axis = _values(node, name, language)[0]
    return [int((value.shape or ())[axis] or 0) for value in node.outputs]


def _ends(node: Node, name: str, language: GraphLanguage) -> list[int]:
    starts = _values(node, name, language)
    return [start + int(size or 0) for start, size in zip(starts, node.output.shape or (), strict=True)]


def _pads(node: Node, name: str, language: GraphLanguage) -> list[int]:
    """GE: a pair per dimension from the first; aclnn as torch: from the last."""
    pairs = np.asarray(_values(node, name, language), np.int64).reshape(-1, 2)
    return [int(i) for i in pairs[::-1].reshape(-1)]


def _tail(node: Node, name: str, language: GraphLanguage) -> list[int]:
    source = node.input("x")
    axis = _values(node, name, language)[0]
    return [int(size or 0) for size in (source.shape or () if source else ())[axis:]]


def _spatial(node: Node, name: str, language: GraphLanguage) -> list[int]:
    """The last two of four: NCHW."""
    return _values(node, name, language)[-2:]


def _symmetric(node: Node, name: str, language: GraphLanguage) -> list[int]:
    top, bottom, left, right = _values(node, name, language)
    if (top, left) != (bottom, right):
        raise DoesNotFit(f"it pads both sides alike, not {name}={[top, bottom, left, right]}")
    return [top, left]


def _shape_of(node: Node, name: str, language: GraphLanguage) -> list[int]:
    source = node.input(name)
    return [int(size or 0) for size in (source.shape or () if source else ())]


FUNCTIONS: dict[str, Callable[[Node, str, GraphLanguage], list[int]]] = {
    "sizes": _sizes,
    "ends": _ends,
    "pads": _pads,
    "tail": _tail,
    "spatial": _spatial,
    "symmetric": _symmetric,
    "iota": lambda node, name, language: list(range(len(_values(node, name, language)))),
    "ones": lambda node, name, language: [1] * len(_values(node, name, language)),
    "shape": _shape_of,
    "three": lambda node, name, language: [True] * 3,
    "zeros": lambda node, name, language: [0, 0],
}
_RESOLVERS: dict[str, Callable[[Token, Node, GraphLanguage], Any]] = {
    "input": _input,
    "attribute": _attribute,
    "output": _output,
    "type": _type,
    "literal": _literal,
    "none": lambda token, node, language: None,
    "function": lambda token, node, language: FUNCTIONS[token.name](node, token.detail, language),
}
