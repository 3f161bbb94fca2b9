"""The C++ catalogue says what native/cann/facts/ge_ops.json says."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from .conftest import FACTS

OPERATORS: dict[str, Any] = {
    record["name"]: record for record in json.loads((FACTS / "ge_ops.json").read_text())["ops"]
}
ADDED = {"NetOutput", "ConstPlaceHolder"}  # in models, in no header
FED_FROM_OUTSIDE = {"Data", "RefData", "Variable"}  # their declared input is in no model


def test_every_operator_of_the_facts_is_there_and_two_more(language: ModuleType) -> None:
    assert set(language.operator_names()) == OPERATORS.keys() | ADDED


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_ports_have_the_names_and_arities_of_the_facts(language: ModuleType, side: str) -> None:
    for name, fact in OPERATORS.items():
        if side == "inputs" and name in FED_FROM_OUTSIDE:
            continue
        ports = [(port["name"], port["arity"]) for port in language.find_operator(name)[side]]
        assert ports == [(port["name"], port["kind"]) for port in fact[side]], name


def test_attributes_have_the_names_types_and_needs_of_the_facts(language: ModuleType) -> None:
    for name, fact in OPERATORS.items():
        found = [(a["name"], a["type"], a["required"]) for a in language.find_operator(name)["attributes"]]
        assert found == [(a["name"], a["type"], a["required"]) for a in fact["attrs"]], name


def test_every_optional_attribute_but_tensors_has_a_default(language: ModuleType) -> None:
    missing = {
        (name, attribute["name"])
        for name in OPERATORS
        for attribute in language.find_operator(name)["attributes"]
        if not attribute["required"] and attribute["default"] is None and attribute["type"] != "Tensor"
    }
    assert not missing


@pytest.mark.parametrize(
    ("operator", "attribute", "value"),
    [
        ("ReduceSum", "noop_with_empty_axes", True),
        ("TopKV2", "indices_dtype", 3),  # an integer, written DT_INT32
        ("ArgMaxV2", "dtype", "int64"),
        ("LayerNormV3", "epsilon", 1e-5),
        ("SoftmaxV2", "axes", [-1]),
        ("Conv2D", "dilations", [1, 1, 1, 1]),
        ("Squeeze", "axis", []),
        ("LayerNormGradV3", "output_mask", [True, True, True]),
        ("BiasAdd", "data_format", "NHWC"),
        ("MatMulV3", "opImplMode", 1),  # written 0x1
        ("FusedInferAttentionScore", "pre_tokens", 2147483647),
    ],
)
def test_defaults_are_values(language: ModuleType, operator: str, attribute: str, value: object) -> None:
    defaults = {a["name"]: a["default"] for a in language.find_operator(operator)["attributes"]}
    assert defaults[attribute] == pytest.approx(value)


@pytest.mark.parametrize(
    ("operator", "port", "types"),
    [
        ("LogicalAnd", "x1", {"bool"}),
        ("Transpose", "perm", {"int32", "int64"}),  # TensorType::IndexNumberType()
        ("SoftmaxV2", "x", {"float64", "float16", "bfloat16", "float32"}),
        ("RotaryMul", "x", {"float16", "float32", "bfloat16"}),  # DT_BFLOAT16, a name of its own
        ("BatchNorm", "scale", {"float32"}),  # "T2", a symbol
        ("ScatterSub", "var", set()),  # a macro: anything goes
        ("Identity", "x", set()),  # everything
        ("Split", "split_dim", {"int32", "int64"}),  # put right in generate.py
        ("HardSwish", "x", {"float16", "float32", "bfloat16"}),  # put right in generate.py
    ],
)
def test_types_of_inputs_are_read(language: ModuleType, operator: str, port: str, types: set[str]) -> None:
    ports = {p["name"]: set(p["types"]) for p in language.find_operator(operator)["inputs"]}
    assert ports[port] == types


def test_control_flow_has_its_subgraphs(language: ModuleType) -> None:
    assert language.find_operator("While")["subgraphs"] == ["cond", "body"]
    assert language.find_operator("Case")["dynamic_subgraphs"]
    assert not language.find_operator("If")["dynamic_subgraphs"]


def test_an_unknown_operator_is_none(language: ModuleType) -> None:
    assert language.find_operator("Adding") is None
