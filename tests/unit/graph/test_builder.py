"""Building graphs: what is inferred, what is refused and how."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from npu_common.graph import Builder, GraphError
from npu_common.graph.builder import join_shapes


@pytest.fixture
def g() -> Builder:
    return Builder("g")


def test_operators_of_python_are_operators_of_cann(g: Builder) -> None:
    x, y = g.input("x", "float32", (2, 3)), g.input("y", "float32", (3,))
    made = [x + y, x - y, x * y, x / y, x**y, x // y, x % y, -x, x < y, x <= y, x > y, x >= y]
    kinds = "Add Sub Mul RealDiv Pow FloorDiv FloorMod Neg Less LessEqual Greater GreaterEqual"
    assert [value.node.type for value in made] == kinds.split()
    assert {value.shape for value in made} == {(2, 3)}
    assert made[-1].dtype == np.bool_


def test_numbers_take_the_dtype_beside_them(g: Builder) -> None:
    x = g.input("x", "bfloat16", (2,))
    constant = (2.0 * x).node.inputs[0]
    assert constant.dtype == ml_dtypes.bfloat16
    p = g.input("p", "bool", (2,))
    chosen = g.add("SelectV2", p, x, 0.5)
    assert chosen.node.input("else").dtype == ml_dtypes.bfloat16


def test_unknown_sizes_stay_unknown(g: Builder) -> None:
    x = g.input("x", "float32", (None, 3))
    assert (x + x).shape == (None, 3)
    assert g.input("y", "float32", None).type_text() == "float32[*]"


def test_a_constant_is_a_copy_nobody_writes_to(g: Builder) -> None:
    array = np.ones(3, np.float32)
    held = g.constant(array).constant
    array[0] = 7
    assert held[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 7


def test_absent_optional_inputs(g: Builder) -> None:
    a, b, c = (g.input(n, "float32", (4, 4)) for n in "abc")
    bias = g.input("bias", "float32", (4,))
    assert g.add("MatMulV2", a, b).node.input_names == ["x1", "x2"]
    assert g.add("MatMulV2", a, c, bias=bias).node.input_names == ["x1", "x2", "bias"]


def test_type_attributes_and_integers_that_number_a_type(g: Builder) -> None:
    x = g.input("x", "float32", (2,))
    assert g.add("Cast", x, dst_type="bfloat16").node.attributes == {"dst_type": 27}  # ge::DataType DT_BF16
    assert g.add("Shape", x, dtype="int64").dtype == np.int64


REFUSED = {
    "no such operator": (lambda g, x: g.add("Addd", x, x), "no operator 'Addd'"),
    "no such attribute": (
        lambda g, x: g.add("SoftmaxV2", x, axis=1),
        "SoftmaxV2 has no attribute 'axis'; it has axes",
    ),
    "missing attribute": (lambda g, x: g.add("TransposeD", x), "TransposeD needs the attribute 'perm'"),
    "missing input": (lambda g, x: g.add("Add", x), "Add needs the input 'x2'"),
    "too many inputs": (lambda g, x: g.add("Neg", x, x), r"Neg takes 1 inputs \(x\), 2 were given"),
    "input twice": (lambda g, x: g.add("Add", x, x, x1=x), "input 'x1' of Add is given twice"),
    "wrong dtype": (lambda g, x: g.add("LogicalNot", x), "input 'x' of LogicalNot is float32; it takes bool"),
    "shapes that do not broadcast": (lambda g, x: g.add("Add", x, g.input("z", "float32", (5,))), "Add"),
    "a list where a value is due": (
        lambda g, x: g.add("ConcatV2", x, 0),
        "input 'x' of ConcatV2 takes a list",
    ),
    "no subgraph": (lambda g, x: g.add_many("PartitionedCall", [x]), "takes the subgraphs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_by_name(g: Builder, name: str) -> None:
    add, message = REFUSED[name]
    with pytest.raises(GraphError, match=message):
        add(g, g.input("x", "float32", (2, 3)))


def test_a_value_of_another_graph_is_refused(g: Builder) -> None:
    stranger = Builder("other").input("x", "float32", (2,))
    with pytest.raises(GraphError, match="is a value of graph 'other'"):
        g.add("Add", g.input("x", "float32", (2,)), stranger)


def test_results_of_branches_are_joined(g: Builder) -> None:
    wide, narrow = Builder("wide"), Builder("narrow")
    x = wide.input("x", "float32", (None,))
    wide.output(wide.add("Reshape", x, [4]))
    narrow.output(narrow.add("Reshape", narrow.input("x", "float32", (None,)), [5]))
    p, x = g.input("p", "bool", ()), g.input("x", "float32", (None,))
    assert g.add_many("If", p, [x], subgraphs=[wide, narrow])[0].shape == (None,)


def test_join_shapes() -> None:
    assert join_shapes([(2, 3), (2, 4)]) == (2, None)
    assert join_shapes([(2,), (2, 4)]) is None


def test_branches_that_disagree_are_refused(g: Builder) -> None:
    one, other = Builder("one"), Builder("other")
    one.output(one.input("x", "float32", (2,)))
    other.output(other.add("Cast", other.input("x", "float32", (2,)), dst_type="int32"))
    with pytest.raises(GraphError, match="result 0 of If differs between its branches"):
        g.add_many("If", g.input("p", "bool", ()), [g.input("x", "float32", (2,))], subgraphs=[one, other])


def test_ten_thousand_nodes_are_ordered_and_removed_fast(g: Builder) -> None:
    value = g.input("x", "float32", (2,))
    nodes = [g.graph.add_node("Neg", [value], ["x"], [(value.dtype, (2,))]) for _ in range(1)]
    for _ in range(10_000):
        nodes.append(g.graph.add_node("Neg", [nodes[-1].output], ["x"], [(value.dtype, (2,))]))
    assert g.graph.order()[1:] == nodes
    for node in reversed(nodes):
        g.graph.remove(node)
    assert len(g.graph.nodes) == 1


def test_a_cycle_is_named(g: Builder) -> None:
    x = g.input("x", "float32", (2,))
    first = g.add("Neg", x)
    second = g.add("Neg", first)
    first.node.set_input(0, second)
    with pytest.raises(GraphError, match="cycle through Neg"):
        g.graph.order()


def test_a_node_that_is_read_cannot_be_removed(g: Builder) -> None:
    y = -g.input("x", "float32", (2,))
    g.output(y)
    with pytest.raises(GraphError, match=r"NetOutput.*reads it"):
        g.graph.remove(y.node)
