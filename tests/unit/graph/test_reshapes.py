"""Reshapes around dimensions of size 1 sink and meet; those that move elements between dimensions stay."""

from __future__ import annotations

import numpy as np
import pytest

from npu_common.graph import Builder
from npu_common.graph.passes import exact
from tests.unit.graph import reference

SHAPE = (2, 3, 4)
CASES = {
    "a dimension in front of one operand": (
        lambda b, x: b.add(
            "Add", b.add("Reshape", x, [1, *SHAPE]), b.constant(np.ones((1, *SHAPE), np.float32))
        ),
        ["Add"],
    ),
    "in front of both and off again": (
        lambda b, x: b.add("Reshape", b.add("Mul", *[b.add("Reshape", x, [1, *SHAPE])] * 2), list(SHAPE)),
        ["Mul"],
    ),
    "in the middle, against a number": (
        lambda b, x: b.add("Reshape", b.add("Mul", b.add("Reshape", x, [2, 3, 1, 4]), 2.0), list(SHAPE)),
        ["Mul"],
    ),
    "in the middle, against an array": (
        lambda b, x: b.add(
            "Mul", b.add("Reshape", x, [2, 3, 1, 4]), b.constant(np.arange(5, dtype=np.float32)[:, None])
        ),
        ["Reshape", "Mul"],
    ),
    "around a transpose": (
        lambda b, x: b.add(
            "Reshape", b.add("Transpose", b.add("Reshape", x, [2, 1, 3, 4]), [1, 3, 0, 2]), [4, 2, 3]
        ),
        ["Transpose"],
    ),
    "below a softmax": (
        lambda b, x: b.add(
            "Reshape", b.add("SoftmaxV2", b.add("Reshape", x, [1, *SHAPE]), axes=[3]), list(SHAPE)
        ),
        ["SoftmaxV2"],
    ),
    "below a sum over the last dimension": (
        lambda b, x: b.add(
            "Reshape", b.add("ReduceSum", b.add("Reshape", x, [2, 3, 1, 4]), [3], keep_dims=True), [2, 3, 1]
        ),
        ["ReduceSum"],
    ),
    "a sum over another dimension": (
        lambda b, x: b.add("ReduceSum", b.add("Reshape", x, [1, *SHAPE]), [1]),
        ["Reshape", "ReduceSum"],
    ),
    "elements move": (
        lambda b, x: b.add(
            "Mul", b.add("Reshape", x, [3, 2, 4]), b.constant(np.ones((3, 2, 1), np.float32) * 2)
        ),
        ["Reshape", "Mul"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_where_reshapes_go(name):
    make, wanted = CASES[name]
    b = Builder("t")
    x = b.input("x", "float32", SHAPE)
    b.output(make(b, x))
    data = np.arange(24, dtype=np.float32).reshape(SHAPE) / 7
    before = reference.run(b.graph, data)[0]
    exact(check=True).run(b.graph)
    assert [node.type for node in b.graph.order() if node.type not in ("Data", "Const")] == wanted
    after = reference.run(b.graph, data)[0]
    assert after.shape == before.shape
    np.testing.assert_allclose(after, before, rtol=1e-6)
