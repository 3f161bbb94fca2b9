"""Graphs as ge.proto.ModelDef: round trips, and what two other readers of the format say."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_common.graph import Builder, Graph, GraphError, canonical_bytes, dtypes, from_model, to_model
from npu_common.graph.proto import messages
from npu_common.graph.serialise import equal
from npu_common.graph.verify import verify


def mixed() -> Graph:
    b = Builder("mixed")
    x, y = b.input("x", "float32", (2, None)), b.input("y", "bfloat16", (4, 3))
    m = b.add("MatMulV2", b.add("Cast", y, dst_type="float32"), b.constant(np.eye(3, dtype=np.float32)))
    parts = b.add_many("SplitD", m, split_dim=1, num_split=3)
    joined = b.add("ConcatV2", [parts[2], parts[0]], 1)
    b.output(b.add("SoftmaxV2", joined, axes=[-1]))
    b.output(x * 2.0, donated=x)
    later = b.add("Identity", y)
    later.node.controls.append(joined.node)
    b.output(later)
    return b.graph


def branches() -> Graph:
    then, other = Builder("then"), Builder("other")
    then.output(then.input("x", "float32", (2,)) + 1.0)
    other.output(-other.input("x", "float32", (2,)))
    b = Builder("branches")
    p, x = b.input("p", "bool", ()), b.input("x", "float32", (2,))
    b.output(b.add_many("If", p, [x], subgraphs=[then, other])[0])
    return b.graph


def loop() -> Graph:
    condition, body = Builder("condition"), Builder("body")
    condition.output(condition.add("Less", condition.input("i", "int32", ()), 10))
    body.output(body.add("Add", body.input("i", "int32", ()), 1))
    b = Builder("loop")
    b.output(b.add_many("While", [b.input("i", "int32", ())], subgraphs=[condition, body])[0])
    return b.graph


GRAPHS = {"mixed": mixed, "branches": branches, "loop": loop}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_a_round_trip_is_equal(make: Any) -> None:
    graph = make()
    back = from_model(to_model(graph))
    verify(back)
    assert to_model(back) == to_model(graph)
    assert equal(back, graph)
    assert back.aliases == graph.aliases
    assert [v.type_text() for v in back.outputs] == [v.type_text() for v in graph.outputs]


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_the_engine_s_own_reader_accepts_it(make: Any) -> None:
    language = sys.modules["npu_common._cann"].graph
    model = language.verify(to_model(make()))
    assert model["graphs"][0]["name"] == make().name


def torchair_messages() -> Any:
    """torchair's generated classes by their file: importing the package would import torch."""
    package = importlib.util.find_spec("torch_npu")
    assert package is not None and package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0], "dynamo", "torchair", "_ge_concrete_graph")
    spec = importlib.util.spec_from_file_location("ge_ir_pb2", folder / "ge_ir_by_protoc_3_19_pb2.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_torchair_s_schema_reads_the_same_fields() -> None:
    pb2 = torchair_messages()
    data = to_model(mixed())
    theirs, ours = pb2.ModelDef.FromString(data), messages()["ModelDef"].FromString(data)
    assert str(theirs) == str(ours)


def test_what_a_node_looks_like() -> None:
    model = messages()["ModelDef"].FromString(to_model(mixed()))
    ops = {op.type: op for op in model.graph[0].op}
    product = ops["MatMulV2"]
    assert list(product.input) == ["Cast:0", "Const:0"]
    assert [d.name for d in product.input_desc] == ["x1", "x2"]
    assert [d.name for d in product.output_desc] == ["y"]
    assert ops["ConcatV2"].input_desc[0].name == "x0"
    assert ops["SoftmaxV2"].attr["axes"].list.val_type == 2  # VT_LIST_INT
    assert ops["Cast"].attr["dst_type"].i == 0  # ge::DataType DT_FLOAT, not the protobuf's
    assert ops["Const"].attr["value"].t.desc.dtype == 1  # the protobuf's DT_FLOAT
    assert list(ops["Identity"].input) == ["y:0", "ConcatV2:-1"]
    assert model.graph[0].op[-1].type == "NetOutput"
    assert [op.attr["index"].i for op in model.graph[0].op if op.type == "Data"] == [0, 1]


def test_an_absent_input_is_marked() -> None:
    b = Builder("g")
    x, k = b.input("x", "float32", (4, 8)), b.input("k", "float32", (8, 2))
    node = b.add("MatMulV2", x, k).node
    offset = b.input("o", "int8", (1,))
    node.set_inputs([x, k, None, offset], ["x1", "x2", "bias", "offset_w"])
    b.output(node.output)
    op = next(
        o for o in messages()["ModelDef"].FromString(to_model(b.graph)).graph[0].op if o.type == "MatMulV2"
    )
    assert op.input[2] == "" and op.input_desc[2].attr["_is_unfed_optional"].i == 1
    assert equal(from_model(to_model(b.graph)), b.graph)


def test_subgraph_inputs_say_which_input_of_the_outer_node_they_are() -> None:
    model = messages()["ModelDef"].FromString(to_model(branches()))
    data = next(op for op in model.graph[1].op if op.type == "Data")
    # The condition is the If node's input 0.
    assert (data.attr["index"].i, data.attr["_parent_node_index"].i) == (0, 1)


def test_names_and_order_of_making_are_no_part_of_the_canonical_form() -> None:
    def make(swapped: bool) -> Graph:
        b = Builder("a" if swapped else "b")
        x = b.input("x" if swapped else "z", "float32", (2,))
        b.output(b.add("Neg", x, node_name="first" if swapped else None))
        return b.graph

    assert canonical_bytes(make(True)) == canonical_bytes(make(False))


def test_types_between_nodes_of_other_writers_are_not_relied_on() -> None:
    """torchair writes FLOAT and no sizes for all that stands between Data and NetOutput."""
    model = messages()["ModelDef"].FromString(to_model(mixed()))
    for op in model.graph[0].op:
        if op.type not in ("Data", "Const", "NetOutput"):
            for desc in op.output_desc:
                desc.dtype = 1
                del desc.shape.dim[:]
    back = from_model(model.SerializeToString())
    assert [v.type_text() for v in back.outputs] == [v.type_text() for v in mixed().outputs]


def test_an_operator_without_a_rule_is_read_only_from_our_own_models() -> None:
    b = Builder("g")
    x = b.input("x", "float32", (2, 3))
    b.output(b.add_many("Bucketize", x, boundaries=[0.5], outputs=[("int32", (2, 3))])[0])
    assert from_model(to_model(b.graph)).outputs[0].type_text() == "int32[2,3]"
    model = messages()["ModelDef"].FromString(to_model(b.graph))
    model.attr.clear()
    with pytest.raises(GraphError, match=r"Bucketize.*no rule"):
        from_model(model.SerializeToString())


BROKEN = {
    "nothing": b"",
    "noise": b"\xff" * 40,
    "text": b"graph { }",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(GraphError, match="no model of the graph engine"):
        from_model(data)


def test_an_edge_to_nowhere_is_refused() -> None:
    model = messages()["ModelDef"].FromString(to_model(mixed()))
    model.graph[0].op[-1].input[0] = "nobody:0"
    with pytest.raises(GraphError, match="reads 'nobody'"):
        from_model(model.SerializeToString())


def test_a_cycle_is_refused() -> None:
    b = Builder("g")
    b.output(b.add("Neg", -b.input("x", "float32", (2,))))
    model = messages()["ModelDef"].FromString(to_model(b.graph))
    model.graph[0].op[1].input[0] = f"{model.graph[0].op[2].name}:0"
    with pytest.raises(GraphError, match="cycle"):
        from_model(model.SerializeToString())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=6))
def test_damaged_bytes_are_read_or_refused_in_a_sentence(position: int, noise: bytes) -> None:
    data = bytearray(to_model(branches()))
    position %= len(data)
    data[position : position + len(noise)] = noise
    with contextlib.suppress(GraphError):
        from_model(bytes(data))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "bool", "complex64", "uint16"])
def test_constants_of_every_kind_keep_their_bits(name: str) -> None:
    b = Builder("g")
    array = np.frombuffer(bytes(range(1, 17)) * 2, np.uint8)
    array = (array % 2).astype(bool) if name == "bool" else array.view(dtypes.dtype(name))
    b.output(b.constant(array))
    back = from_model(to_model(b.graph)).outputs[0].constant
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()
