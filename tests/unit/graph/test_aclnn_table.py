"""Every line of the aclnn table against the prototypes and the operator catalogue."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from npu_common.graph import Builder, GraphError
from npu_common.graph.executors import aclnn
from npu_common.graph.executors.aclnn_table import LINES, VIEWS
from npu_common.graph.language import native

FACTS = Path(__file__).parents[3] / "native" / "cann" / "facts"
PROTOTYPES = json.loads((FACTS / "aclnn.json").read_text())["ops"]
# What a parameter of each C type may be filled with.
KINDS = {
    "aclTensor *": {"input", "output", "none"},
    "aclTensorList *": {"input", "output"},
    "aclScalar *": {"input", "attribute", "literal"},
    "aclIntArray *": {"input", "attribute", "function"},
    "aclDataType": {"type", "attribute"},
    "char *": {"attribute"},
    "int64_t": {"input", "attribute", "literal"},
    "uint64_t": {"input", "attribute", "literal"},
    "aclBoolArray *": {"function"},
    "int": {"input", "attribute", "literal"},
    "int8_t": {"literal"},
    "bool": {"attribute", "literal"},
    "double": {"attribute", "literal"},
}
CALLS = [
    pytest.param(type, line, call, id=f"{type}-{call.function}")
    for type in LINES
    for line in aclnn.lines(type)
    for call in line.calls
]


@pytest.mark.parametrize(("type", "line", "call"), CALLS)
def test_arguments_are_those_of_the_prototype(type: str, line: aclnn.Line, call: aclnn.CallLine) -> None:
    parameters = PROTOTYPES[call.function]
    assert len(call.tokens) == len(parameters), parameters
    for token, (c_type, name) in zip(call.tokens, parameters, strict=True):
        plain = c_type.replace("const ", "").strip()
        assert token.kind in KINDS[plain], f"{c_type} {name} <- {token}"
        if plain in ("aclTensor *", "aclTensorList *") and not c_type.startswith("const"):
            is_reference = name.endswith("Ref") or token.kind == "output"
            assert is_reference, f"{name} is written to, {token} is not an output"


@pytest.mark.parametrize("type", LINES)
def test_names_are_the_catalogue_s(type: str) -> None:
    operator = native().find_operator(type)
    assert operator is not None
    inputs = {p.name for p in operator.inputs}
    outputs = {p.name for p in operator.outputs}
    attributes = set(operator.attributes)
    for line in aclnn.lines(type):
        assert line.names("input") <= inputs | attributes
        assert line.names("attribute") <= attributes
        assert line.names("output", "type") <= outputs
        assert line.ignored <= inputs | attributes
        assert {name for name in line.where if not name.startswith("#")} <= attributes
        assert {name[1:] for name in line.where if name.startswith("#")} <= outputs
        for call in line.calls:
            for token in call.tokens:
                if token.kind == "function":
                    assert token.name in aclnn.FUNCTIONS
                    assert token.detail in inputs | attributes


def test_at_least_130_operators_have_a_line() -> None:
    assert len(LINES) + len(VIEWS) >= 130


def test_matmul_reads_a_transposed_view() -> None:
    g = Builder("g")
    a, b = g.input("a", "float32", (2, 3)), g.input("b", "float32", (4, 3))
    (call,) = aclnn.lower(g.add("MatMulV2", a, b, transpose_x2=True).node)
    assert call.function == "aclnnMatmul"
    assert call.arguments[:2] == (aclnn.Tensor(a), aclnn.Tensor(b, swapped=True))


def test_a_product_with_bias_takes_the_line_that_has_one() -> None:
    g = Builder("g")
    a, b, c = g.input("a", "float32", (2, 3)), g.input("b", "float32", (3, 4)), g.input("c", "float32", (4,))
    (call,) = aclnn.lower(g.add("MatMulV2", a, b, bias=c).node)
    assert call.function == "aclnnAddmm"


def test_padding_is_turned_to_torch_s_order() -> None:
    g = Builder("g")
    x = g.input("x", "float32", (2, 3))
    (call,) = aclnn.lower(g.add("Pad", x, np.array([[1, 2], [3, 4]])).node)
    assert call.arguments[1] == [3, 4, 1, 2]


def test_an_attribute_that_aclnn_lacks_is_refused_by_name() -> None:
    g = Builder("g")
    x = g.input("x", "float32", (2, 3))
    node = g.add("Cumsum", x, 1, exclusive=True).node
    with pytest.raises(GraphError, match=r"Cumsum.*aclnnCumsum: it knows no exclusive=True"):
        aclnn.lower(node)


def test_an_operator_without_a_line_is_refused_by_name() -> None:
    g = Builder("g")
    x = g.input("x", "float32", (2, 3))
    with pytest.raises(GraphError, match=r"L2Loss.*no aclnn operator"):
        aclnn.lower(g.add("L2Loss", x).node)
