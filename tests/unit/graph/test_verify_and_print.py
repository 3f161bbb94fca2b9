"""The verifier's sentences, and the forms of a graph for people."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npu_common.graph import Builder, Graph, GraphError
from npu_common.graph.dot import dot
from npu_common.graph.netron import _messages, onnx_bytes
from npu_common.graph.text import dump
from npu_common.graph.verify import verify


def small() -> Builder:
    b = Builder("small")
    x = b.input("x", "float32", (2, 3))
    b.output(b.add("SoftmaxV2", x + 1.0, axes=[-1]), donated=x)
    return b


def branches(taken: tuple[int, ...] = (2,)) -> Builder:
    then, other = Builder("then"), Builder("other")
    then.output(-then.input("x", "float32", taken))
    other.output(other.input("x", "float32", (2,)) + 1.0)
    b = Builder("branches")
    p, x = b.input("p", "bool", ()), b.input("x", "float32", (2,))
    b.output(b.add_many("If", p, [x], subgraphs=[then, other])[0])
    return b


def set_shape(graph: Graph) -> None:
    graph.outputs[0].shape = (5, 5)


def forget_a_use(graph: Graph) -> None:
    graph.inputs[0].uses.clear()


def add_attribute(graph: Graph) -> None:
    graph.outputs[0].node.attributes["axis"] = 1


def wrong_type(graph: Graph) -> None:
    graph.outputs[0].node.type = "Softmaxx"


def drop_an_input(graph: Graph) -> None:
    graph.outputs[0].node.set_inputs([], [])


def no_outputs(graph: Graph) -> None:
    graph.set_outputs([])


def donate_wrongly(graph: Graph) -> None:
    graph.aliases = {0: 3}


def donate_twice(graph: Graph) -> None:
    graph.add_output(graph.outputs[0])
    graph.aliases = {0: 0, 1: 0}


def use_another_graph(graph: Graph) -> None:
    stranger = Builder("other").input("s", "float32", (2, 3))
    graph.outputs[0].node.set_input(0, stranger)


def change_a_constant(graph: Graph) -> None:
    constant = next(node for node in graph.nodes if node.type == "Const")
    constant.attributes["value"] = np.zeros(9, np.float32)


FAULTS: dict[str, tuple[Callable[[Graph], None], str]] = {
    "shape": (set_shape, r"SoftmaxV2 'SoftmaxV2': output 0 is float32\[5,5\], inference says float32\[2,3\]"),
    "use list": (forget_a_use, "reads <x:0 .*, which does not know it"),
    "attribute": (add_attribute, "has no attribute 'axis'"),
    "operator": (wrong_type, "no operator 'Softmaxx'"),
    "missing input": (drop_an_input, "the input 'x' is missing"),
    "no outputs": (no_outputs, "returns nothing"),
    "donation": (donate_wrongly, "donates input 3 to output 0, one of which it has not"),
    "donation twice": (donate_twice, "donates one input to two outputs"),
    "foreign value": (use_another_graph, "depends on Data 's', which is not in it"),
    "constant": (change_a_constant, r"holds float32\[9\], but is float32\[\]"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_said_in_a_sentence(name: str) -> None:
    damage, message = FAULTS[name]
    graph = small().graph
    verify(graph)
    damage(graph)
    with pytest.raises(GraphError, match=message):
        verify(graph)


def test_subgraphs_take_what_they_are_handed() -> None:
    with pytest.raises(GraphError, match=r"hands float32\[2\] to 'then', whose 'x' is float32\[3\]"):
        verify(branches((3,)).graph)


def test_the_text_of_a_graph() -> None:
    assert dump(small().graph).splitlines() == [
        "graph @small(%x: float32[2,3]) {",
        "  %0 = Const() : float32[]  {value=1.0}",
        "  %1 = Add(%x, %0) : float32[2,3]",
        "  %2 = SoftmaxV2(%1) : float32[2,3]  {axes=[-1]}",
        "  return %2 (in the memory of %x)",
        "}",
    ]


def test_the_text_of_subgraphs_and_long_constants() -> None:
    b = branches()
    b.output(b.constant(np.arange(20, dtype=np.int32)))
    text = dump(b.graph)
    assert "%0 = If(%p, %x) : float32[2]  {graph=@then.1, graph=@other.2}" in text
    assert "{value=[0, 1, 2, 3, 4, 5, 6, 7, ...]}" in text
    assert "graph @then.1(%x: float32[2]) {" in text


def test_graphviz_has_a_cluster_for_each_graph() -> None:
    text = dot(branches().graph)
    assert text.count("subgraph cluster_") == 3
    assert text.count("{") == text.count("}")
    assert 'label="float32[2]"' in text


def test_netron_s_file_is_an_onnx_model_with_our_operators() -> None:
    model = _messages()["ModelProto"].FromString(onnx_bytes(small().graph))
    assert [(node.op_type, node.domain) for node in model.graph.node] == [
        ("Add", "cann.ge"),
        ("SoftmaxV2", "cann.ge"),
    ]
    assert model.graph.initializer[0].raw_data == np.float32(1).tobytes()
    assert list(model.graph.node[1].attribute[0].ints) == [-1]
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [2, 3]
