"""The reader of the model protobuf, on bytes that the protobuf package wrote."""

from __future__ import annotations

import struct
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from .conftest import ModelBuilder


def only_graph(language: ModuleType, build: ModelBuilder) -> dict[str, Any]:
    (graph,) = language.read_model(build.bytes())["graphs"]
    return graph


def test_nodes_edges_and_results(language: ModuleType, relu_model: ModelBuilder) -> None:
    graph = only_graph(language, relu_model)
    assert [node["type"] for node in graph["nodes"]] == ["Data", "Relu", "NetOutput"]
    assert graph["nodes"][1]["inputs"] == [(0, 0)]
    assert (graph["data"], graph["net_output"]) == ([0], 2)


def test_a_bare_graph_is_a_model_of_one_graph(language: ModuleType, relu_model: ModelBuilder) -> None:
    model = language.read_model(relu_model.graph.SerializeToString())
    assert [graph["name"] for graph in model["graphs"]] == ["main"]


def test_descriptors_have_the_numbers_of_the_protobuf(language: ModuleType, build: ModelBuilder) -> None:
    build.data("x", 0, dtype=27, dims=(2, -1))
    build.data("y", 1, dtype=7, dims=(-2,))
    build.output("x:0", "y:0")
    x, y, _ = only_graph(language, build)["nodes"]
    assert x["output_descs"] == [("bfloat16", [2, -1])]
    assert y["output_descs"] == [("int32", None)]


def test_nodes_come_in_topological_order(language: ModuleType, build: ModelBuilder) -> None:
    build.output("b:0")
    build.node("Relu", "b", ("a:0",))
    build.node("Relu", "a", ("x:0",))
    build.data("x", 0)
    graph = only_graph(language, build)
    assert [node["name"] for node in graph["nodes"]] == ["x", "a", "b", "NetOutput_1"]
    assert graph["nodes"][3]["inputs"] == [(2, 0)]


def test_data_is_ordered_by_index(language: ModuleType, build: ModelBuilder) -> None:
    build.data("second", 1)
    build.data("first", 0)
    build.output("first:0", "second:0")
    graph = only_graph(language, build)
    assert [graph["nodes"][at]["name"] for at in graph["data"]] == ["first", "second"]


def test_absent_inputs_and_control_edges(language: ModuleType, build: ModelBuilder) -> None:
    build.data("x", 0)
    build.node("MatMulV2", "y", ("x:0", "x:0", "", "x:-1"))
    build.output("y:0")
    node = only_graph(language, build)["nodes"][1]
    assert node["inputs"] == [(0, 0), (0, 0), None]
    assert node["controls"] == [0]


def test_attributes_of_every_kind(language: ModuleType, build: ModelBuilder) -> None:
    attributes = build.data("x", 0).attr
    build.output("x:0")
    attributes["_s"].s = b"text"
    attributes["_i"].i = -7
    attributes["_f"].f = 0.5
    attributes["_b"].b = True
    attributes["_dt"].dt = 27  # ge::DataType's number, not the protobuf's
    attributes["_li"].list.i.extend([1, -2, 3])
    attributes["_lf"].list.f.extend([1.5, 2.5])
    attributes["_lb"].list.b.extend([True, False])
    attributes["_ls"].list.s.extend([b"a", b"b"])
    attributes["_ldt"].list.dt.extend([0, 3])
    attributes["_lli"].list_list_int.list_list_i.add().list_i.extend([1, 2])
    attributes["_lli"].list_list_int.list_list_i.add()
    attributes["_empty_floats"].list.val_type = 3
    attributes["_empty"].list.val_type = 0
    attributes["_func"].func.name = "left out"
    found = only_graph(language, build)["nodes"][0]["attributes"]
    assert found == {
        "index": 0,
        "_s": "text",
        "_i": -7,
        "_f": 0.5,
        "_b": True,
        "_dt": "bfloat16",
        "_li": [1, -2, 3],
        "_lf": [1.5, 2.5],
        "_lb": [True, False],
        "_ls": ["a", "b"],
        "_ldt": ["float32", "int32"],
        "_lli": [[1, 2], []],
        "_empty_floats": [],
        "_empty": [],
    }


def test_lists_may_come_unpacked(language: ModuleType, relu_model: ModelBuilder) -> None:
    # AttrDef{list: ListValue{i: 5, i: 6}} with a tag for each element: what proto2 writers do.
    values = b"\x18\x05\x18\x06"
    attribute = b"\x0a" + bytes([len(values)]) + values
    entry = b"\x0a\x02_u" + b"\x12" + bytes([len(attribute)]) + attribute
    op = b"\x0a\x01x" + b"\x12\x04Data" + b"\x52" + bytes([len(entry)]) + entry
    graph = b"\x32" + bytes([len(op)]) + op + relu_model.model.graph[0].op[2].SerializeToString()[:0]
    output = b"\x0a\x01o\x12\x09NetOutput\x2a\x03x:0"
    graph += b"\x32" + bytes([len(output)]) + output
    (read,) = language.read_model(graph)["graphs"]
    assert read["nodes"][0]["attributes"]["_u"] == [5, 6]


def test_constants(language: ModuleType, build: ModelBuilder) -> None:
    build.const("c", 8, (3,), struct.pack("<3q", 1, -1, 2))
    build.const("s", 1, (), struct.pack("<f", 0.5))
    build.output("c:0", "s:0")
    c, s, _ = only_graph(language, build)["nodes"]
    assert c["attributes"]["value"] == ("int64", [3], struct.pack("<3q", 1, -1, 2))
    assert s["attributes"]["value"] == ("float32", [], struct.pack("<f", 0.5))


def test_subgraphs(language: ModuleType, build: ModelBuilder) -> None:
    build.data("x", 0)
    build.node("PartitionedCall", "call", ("x:0",)).subgraph_name.append("inner")
    build.output("call:0")
    build.add_graph("inner")
    build.data("x", 0)
    build.output("x:0")
    model = language.read_model(build.bytes())
    assert [graph["name"] for graph in model["graphs"]] == ["main", "inner"]
    assert model["graphs"][0]["nodes"][1]["subgraphs"] == ["inner"]


def cycle(build: ModelBuilder) -> None:
    build.node("Add", "a", ("b:0", "b:0"))
    build.node("Relu", "b", ("a:0",))
    build.output("b:0")


def stranger(build: ModelBuilder) -> None:
    build.node("Relu", "a", ("nobody:0",))
    build.output("a:0")


def two_of_a_name(build: ModelBuilder) -> None:
    build.data("x", 0)
    build.data("x", 1)
    build.output("x:0")


def two_of_an_index(build: ModelBuilder) -> None:
    build.data("x", 0)
    build.data("y", 0)
    build.output("x:0")


def gap_in_the_indices(build: ModelBuilder) -> None:
    build.data("x", 0)
    build.data("y", 2)
    build.output("x:0")


def no_output(build: ModelBuilder) -> None:
    build.data("x", 0)


def short_constant(build: ModelBuilder) -> None:
    build.const("c", 1, (2,), b"1234")
    build.output("c:0")


def huge_constant(build: ModelBuilder) -> None:
    build.const("c", 1, (2**62, 2**62), b"")
    build.output("c:0")


def unknown_dtype(build: ModelBuilder) -> None:
    build.data("x", 0, dtype=99)
    build.output("x:0")


def bad_edge(build: ModelBuilder) -> None:
    build.data("x", 0)
    build.output("x")


BROKEN = [
    (cycle, r'node "a" \(Add\) waits for its own result: the graph has a cycle'),
    (stranger, r'node "a" \(Relu\): its input "nobody:0" comes from a node that is not in the graph'),
    (two_of_a_name, r'node "x" \(Data\): another node of the graph has the same name'),
    (two_of_an_index, r'node "y" \(Data\): another input of the graph has the index 0 too'),
    (gap_in_the_indices, r'graph "main" has no Data node of index 1 but one of index 2'),
    (no_output, r'graph "main" has no NetOutput'),
    (
        short_constant,
        r'node "c" \(Const\): attribute "value": .* float32\[2\] takes 8 bytes, and 4 are given',
    ),
    (huge_constant, r'node "c" \(Const\): attribute "value": a constant of type float32\[.*\] cannot be'),
    (unknown_dtype, r'node "x" \(Data\): there is no data type with the model protobuf\'s number 99'),
    (bad_edge, r'its input "x" is not written as "node:output"'),
]


@pytest.mark.parametrize(("broken", "sentence"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_models_get_the_right_sentence(
    language: ModuleType, build: ModelBuilder, broken: Any, sentence: str
) -> None:
    broken(build)
    with pytest.raises(language.GraphError, match=sentence):
        language.read_model(build.bytes())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the bytes hold no graph"),
        (b"not a model at all", "model"),
        (b"\x3a\x7f", "cut off or not a model"),
        (b"\xff" * 12, "varint"),
    ],
)
def test_bytes_that_are_no_model(language: ModuleType, content: bytes, sentence: str) -> None:
    with pytest.raises(language.GraphError, match=sentence):
        language.read_model(content)


def test_names_of_any_bytes_can_be_printed(language: ModuleType, ge: SimpleNamespace) -> None:
    graph = b"\x32\x0c\x0a\x02\xff\xfe\x12\x06\x00Weird"  # OpDef{name: ff fe, type: 00 "Weird"}
    with pytest.raises(language.GraphError, match="NetOutput"):
        language.read_model(graph)
