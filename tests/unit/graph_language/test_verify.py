"""verify(): models against the catalogue, one sentence a fault."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest

from .conftest import ModelBuilder


def verified(language: ModuleType, build: ModelBuilder) -> dict[str, dict[str, Any]]:
    """The attributes of each node of the first graph, by its name."""
    (graph, *_) = language.verify(build.bytes())["graphs"]
    return {node["name"]: node["attributes"] for node in graph["nodes"]}


def test_defaults_are_filled_in(language: ModuleType, build: ModelBuilder) -> None:
    build.data("x", 0)
    build.node("SoftmaxV2", "y", ("x:0",))
    build.output("y:0")
    assert verified(language, build)["y"] == {"axes": [-1], "half_to_float": False}


@pytest.mark.parametrize(
    ("operator", "attribute", "write", "value"),
    [
        ("Cast", "dst_type", lambda a: setattr(a, "i", 27), 27),
        ("Cast", "dst_type", lambda a: setattr(a, "dt", 27), 27),
        ("Sort", "y2_dtype", lambda a: setattr(a, "i", 9), "int64"),
        ("Muls", "value", lambda a: setattr(a, "i", 2), 2.0),
        ("ReduceAllD", "keep_dims", lambda a: setattr(a, "i", 1), True),
        ("LpNormReduceV2", "axes", lambda a: setattr(a.list, "val_type", 3), []),
        ("SoftmaxV2", "axes", lambda a: setattr(a.list, "val_type", 0), []),
        ("Squeeze", "axis", lambda a: a.list.b.extend([True, False]), [1, 0]),
        ("PadV3D", "mode", lambda a: setattr(a, "bt", b"edge"), "edge"),
    ],
)
def test_attributes_become_what_the_catalogue_says(
    language: ModuleType, build: ModelBuilder, operator: str, attribute: str, write: Any, value: object
) -> None:
    definition = language.find_operator(operator)
    build.data("x", 0, dtype={"ReduceAllD": 11}.get(operator, 1))
    op = build.node(operator, "y", ("x:0",) * len(definition["inputs"]))
    for other in definition["attributes"]:
        if other["required"] and other["name"] != attribute:
            op.attr[other["name"]].list.val_type = 2
    write(op.attr[attribute])
    build.output("y:0")
    found = verified(language, build)["y"][attribute]
    assert (found, type(found)) == (value, type(value))


def test_the_engines_own_attributes_pass(language: ModuleType, relu_model: ModelBuilder) -> None:
    relu_model.graph.op[1].attr["_op_exec_never_timeout"].b = True
    assert verified(language, relu_model)["relu"] == {"_op_exec_never_timeout": True}


def test_control_flow_finds_its_graphs(language: ModuleType, build: ModelBuilder) -> None:
    build.data("x", 0)
    build.node("If", "if", ("x:0", "x:0")).subgraph_name.extend(["then", "else"])
    build.output("if:0")
    for name in ("then", "else"):
        build.add_graph(name)
        build.data("x", 0)
        build.output("x:0")
    assert len(language.verify(build.bytes())["graphs"]) == 3


def test_names_tell_dynamic_inputs_apart(language: ModuleType, build: ModelBuilder) -> None:
    names = ("query", "key0", "value0")
    for at, name in enumerate(names):
        build.data(name, at, dtype=2, dims=(1, 2, 3, 4))
    op = build.node("FusedInferAttentionScore", "y", tuple(f"{name}:0" for name in names), names)
    op.attr["num_heads"].i = 2
    build.output("y:0")
    assert verified(language, build)["y"]["num_heads"] == 2


def unknown_operator(build: ModelBuilder) -> None:
    build.node("ReluGard", "y", ("x:0",))


def unknown_attribute(build: ModelBuilder) -> None:
    build.node("SoftmaxV2", "y", ("x:0",)).attr["axe"].i = 1


def missing_attribute(build: ModelBuilder) -> None:
    build.node("Muls", "y", ("x:0",))


def mistyped_attribute(build: ModelBuilder) -> None:
    build.node("Muls", "y", ("x:0",)).attr["value"].s = b"two"


def mistyped_type(build: ModelBuilder) -> None:
    build.node("Sort", "y", ("x:0",)).attr["y2_dtype"].i = 77


def missing_input(build: ModelBuilder) -> None:
    build.node("Add", "y", ("x:0",))


def absent_input(build: ModelBuilder) -> None:
    build.node("Add", "y", ("x:0", ""))


def too_many_inputs(build: ModelBuilder) -> None:
    build.node("Relu", "y", ("x:0", "x:0"))


def wrong_dtype_of_data(build: ModelBuilder) -> None:
    build.node("LogicalNot", "y", ("x:0",))


def wrong_dtype_of_constant(build: ModelBuilder) -> None:
    build.const("axes", 1, (1,), struct.pack("<f", 0))
    build.node("ReduceSum", "y", ("x:0", "axes:0"))


def no_such_output(build: ModelBuilder) -> None:
    build.node("Relu", "z", ("x:0",))
    build.node("Relu", "y", ("z:1",))


def missing_subgraph(build: ModelBuilder) -> None:
    build.node("If", "y", ("x:0", "x:0")).subgraph_name.append("then")


def subgraph_of_no_graph(build: ModelBuilder) -> None:
    build.node("PartitionedCall", "y", ("x:0",)).subgraph_name.append("nowhere")


def nameless_dynamic_inputs(build: ModelBuilder) -> None:
    build.node("FusedInferAttentionScore", "y", ("x:0", "x:0", "x:0")).attr["num_heads"].i = 1


FAULTS = [
    (unknown_operator, r'there is no operator "ReluGard" in CANN\'s catalogue; did you mean ReluGrad\?'),
    (unknown_attribute, r'SoftmaxV2 has no attribute "axe" in CANN\'s catalogue; did you mean axes\?'),
    (missing_attribute, r'Muls needs the attribute "value" \(Float\)'),
    (mistyped_attribute, r'Muls\'s attribute "value" is of type Float, and a value of type String is given'),
    (mistyped_type, r'Sort\'s attribute "y2_dtype" is of type Type'),
    (missing_input, r"Add takes at least 2 inputs, and 1 are given"),
    (absent_input, r"Add needs its input x2"),
    (too_many_inputs, r"Relu takes at most 1 inputs, and 2 are given"),
    (wrong_dtype_of_data, r"LogicalNot's input x cannot be float32: CANN's catalogue lists bool"),
    (
        wrong_dtype_of_constant,
        r"ReduceSum's input axes cannot be float32: CANN's catalogue lists int32, int64",
    ),
    (no_such_output, r'its input comes from output 1 of "z", and Relu has 1 outputs'),
    (missing_subgraph, r"If has 1 subgraphs, and CANN's catalogue asks for these: then_branch else_branch"),
    (subgraph_of_no_graph, r'the model has no graph named "nowhere"'),
    (
        nameless_dynamic_inputs,
        r"FusedInferAttentionScore has several dynamic inputs: the names of its 3 inputs",
    ),
]


@pytest.mark.parametrize(("fault", "sentence"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_faults_get_the_right_sentence(
    language: ModuleType, build: ModelBuilder, fault: Any, sentence: str
) -> None:
    build.data("x", 0)
    fault(build)
    build.output("y:0")
    with pytest.raises(language.GraphError, match=r'node "y" \(\w+\) of graph "main": .*' + sentence):
        language.verify(build.bytes())
