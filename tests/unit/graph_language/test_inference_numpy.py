"""Shapes against NumPy's own: each row runs the NumPy function on zeros of the same shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest

F, I32, I64, B = "float32", "int32", "int64", "bool"


@dataclass(frozen=True)
class Row:
    """An operator on tensors and values, and what NumPy makes of the same."""

    operator: str
    inputs: tuple[Any, ...]  # a shape (zeros, float32), an array of zeros, or Value
    numpy: Callable[..., Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.operator}-{'-'.join(map(str, self.inputs))}"


@dataclass(frozen=True)
class Value:
    """An input whose value decides the shape."""

    data: Any
    dtype: str = I64

    def array(self) -> np.ndarray:
        return np.array(self.data, self.dtype)

    def __str__(self) -> str:
        return str(self.data)


def zeros(*shape: int, dtype: str = F) -> np.ndarray:
    return np.zeros(shape, dtype)


def array_of(operand: Any) -> np.ndarray:
    if isinstance(operand, Value):
        return operand.array()
    return operand if isinstance(operand, np.ndarray) else zeros(*operand)


def reduce_rows() -> list[Row]:
    rows = []
    for shape in [(), (4,), (2, 3), (2, 0, 3), (1, 1), (2, 3, 4, 5)]:
        for axes in [(0,), (-1,), tuple(range(len(shape)))]:
            if any(axis >= max(len(shape), 1) for axis in axes) or (not shape and axes):
                continue
            for keep in (False, True):
                call = lambda x, a, axes=axes, keep=keep: np.sum(x, axis=axes, keepdims=keep)  # noqa: E731
                rows.append(Row("ReduceSum", (shape, Value(list(axes))), call, {"keep_dims": keep}))
    call = lambda x, a: x.sum()  # noqa: E731
    rows.append(Row("ReduceSum", ((2, 3), Value([])), call, {"noop_with_empty_axes": False}))
    rows.append(Row("ReduceSum", ((2, 3), Value([])), lambda x, a: x, {"noop_with_empty_axes": True}))
    rows.append(Row("ReduceMaxD", ((2, 3),), lambda x: x.max(axis=1), {"axes": [-1]}))
    rows.append(Row("ReduceAll", (zeros(2, 3, dtype=B), Value([1])), lambda x, a: x.all(axis=1)))
    return rows


def strided_rows() -> list[Row]:
    """(shape, index, begin, end, strides, masks): the index is what Python writes."""
    table: list[tuple[Any, ...]] = [
        ((5, 6), np.s_[1:3, 2:5:2], [1, 2], [3, 5], [1, 2], {}),
        ((5, 6), np.s_[:3, 2:], [9, 2], [3, 9], [1, 1], {"begin_mask": 1, "end_mask": 2}),
        ((5, 6), np.s_[-2:], [-2], [9], [1], {}),
        ((5, 6), np.s_[::-1, 4:1:-2], [0, 4], [0, 1], [-1, -2], {"begin_mask": 1, "end_mask": 1}),
        ((5, 6), np.s_[3, 1:4], [3, 1], [4, 4], [1, 1], {"shrink_axis_mask": 1}),
        ((5, 6), np.s_[-1], [-1], [0], [1], {"shrink_axis_mask": 1}),
        ((5, 6), np.s_[np.newaxis, 1:3], [0, 1], [0, 3], [1, 1], {"new_axis_mask": 1}),
        ((2, 3, 4, 5), np.s_[..., 1:3], [0, 1], [0, 3], [1, 1], {"ellipsis_mask": 1}),
        ((2, 3, 4, 5), np.s_[1, ..., np.newaxis], [1, 0, 0], [2, 0, 0], [1, 1, 1],
         {"shrink_axis_mask": 1, "ellipsis_mask": 2, "new_axis_mask": 4}),
        ((5, 0), np.s_[4:1, :], [4, 0], [1, 0], [1, 1], {}),
        ((3,), np.s_[7:9], [7], [9], [1], {}),
    ]  # fmt: skip
    return [
        Row(
            "StridedSlice",
            (shape, Value(begin), Value(end), Value(strides)),
            lambda x, b, e, s, index=index: x[index],
            masks,
        )
        for shape, index, begin, end, strides, masks in table
    ]


ROWS = [
    Row("Add", ((2, 3), (2, 3)), np.add),
    Row("Add", ((2, 1, 4), (3, 1)), np.add),
    Row("Add", ((), (2, 0)), np.add),
    Row("Greater", ((2, 3), (3,)), np.greater),
    Row("LogicalNot", (zeros(2, dtype=B),), np.logical_not),
    Row("IsNan", ((2, 3),), np.isnan),
    Row("SelectV2", (zeros(2, 1, dtype=B), (3,), ()), np.where),
    Row("FusedMulAdd", ((2, 1), (3,), (1, 1)), lambda a, b, c: a * b + c),
    Row("Reshape", ((2, 6), Value([3, -1])), lambda x, s: x.reshape(3, -1)),
    Row("Reshape", ((), Value([1, 1])), lambda x, s: x.reshape(1, 1)),
    Row("Reshape", ((2, 3), Value([-1], I32)), lambda x, s: x.reshape(-1)),
    Row("Reshape", ((0, 3), Value([3, 0])), lambda x, s: x.reshape(3, 0)),
    Row("Reshape", ((1,), Value([])), lambda x, s: x.reshape(())),
    Row("Squeeze", ((1, 3, 1),), np.squeeze),
    Row("Squeeze", ((1, 3, 1),), lambda x: np.squeeze(x, -1), {"axis": [-1]}),
    Row("Unsqueeze", ((3,),), lambda x: np.expand_dims(x, (0, 2)), {"axes": [0, -1]}),
    Row("ExpandDims", ((2, 3), Value(-1)), lambda x, a: np.expand_dims(x, -1)),
    Row("Flatten", ((2, 3, 4),), lambda x: x.reshape(2, 12)),
    Row("FlattenV2", ((2, 3, 4),), lambda x: x.reshape(2, 12)),
    Row("Transpose", ((2, 3, 4), Value([2, 0, -2])), lambda x, p: x.transpose(2, 0, 1)),
    Row("Transpose", ((), Value([])), lambda x, p: x.T),
    Row("TransposeD", ((2, 3),), np.transpose, {"perm": [1, 0]}),
    Row("BroadcastTo", ((3, 1), Value([2, 3, 4])), lambda x, s: np.broadcast_to(x, s)),
    Row("Tile", ((2, 3), Value([2, 0])), lambda x, m: np.tile(x, m)),
    Row("Tile", ((3,), Value([2, 2])), lambda x, m: np.tile(x, m)),
    Row("ConcatV2", ((2, 3), (2, 0), (2, 4), Value(-1)), lambda *x: np.concatenate(x[:3], -1), {"N": 3}),
    Row("Concat", (Value(0), (2, 3), (1, 3)), lambda *x: np.concatenate(x[1:], 0), {"N": 2}),
    Row("ConcatV2D", ((2,), (3,)), lambda *x: np.concatenate(x), {"concat_dim": 0, "N": 2}),
    Row("Pack", ((2, 3), (2, 3)), lambda *x: np.stack(x, -1), {"axis": -1, "N": 2}),
    Row("Unpack", ((2, 3),), lambda x: list(np.moveaxis(x, 1, 0)), {"num": 3, "axis": 1}),
    Row("Split", (Value(1, I32), (2, 6)), lambda d, x: np.split(x, 3, 1), {"num_split": 3}),
    Row("SplitD", ((2, 6),), lambda x: np.split(x, 2, -1), {"split_dim": -1, "num_split": 2}),
    Row("SplitV", ((7, 2), Value([3, -1, 0]), Value(0)), lambda x, s, d: np.split(x, [3, 7], 0), {"num_split": 3}),
    Row("Slice", ((5, 6), Value([1, 2]), Value([2, -1])), lambda x, o, s: x[1:3, 2:]),
    Row("SliceD", ((5,),), lambda x: x[2:5], {"offsets": [2], "size": [3]}),
    Row("Pad", ((2, 3), Value([[1, 0], [2, 3]])), lambda x, p: np.pad(x, p)),
    Row("PadV3", ((2, 3), Value([1, 2, 0, 3])), lambda x, p: np.pad(x, [(1, 0), (2, 3)]),
        {"paddings_contiguous": False}),
    Row("MirrorPad", ((4,), Value([[1, 2]])), lambda x, p: np.pad(x, p, "reflect"), {"mode": "REFLECT"}),
    Row("ReverseV2", ((2, 3), Value([1])), lambda x, a: np.flip(x, 1)),
    Row("Roll", ((2, 3),), lambda x: np.roll(x, 1), {"shifts": [1]}),
    Row("Triu", ((3, 4),), np.triu),
    Row("Cumsum", ((2, 3), Value(-1)), lambda x, a: np.cumsum(x, -1)),
    Row("ArgMaxV2", ((2, 3), Value(-1)), lambda x, a: x.argmax(-1)),
    Row("ArgMaxWithValue", ((2, 3),), lambda x: [x.argmax(0).astype(I32), x.max(0)], {"dimension": 0}),
    Row("Sort", ((2, 3),), lambda x: [np.sort(x), np.argsort(x).astype(I32)]),
    Row("GatherV2", ((5, 6), zeros(2, 3, dtype=I64), Value(1)), lambda x, i, a: np.take(x, i, 1)),
    Row("GatherV2", ((5, 6), zeros(dtype=I64), Value(0)), lambda x, i, a: np.take(x, i, 0)),
    Row("GatherElements", ((5, 6), zeros(2, 6, dtype=I64)), lambda x, i: np.take_along_axis(x, i, 0)),
    Row("GatherNd", ((5, 6, 7), zeros(3, 2, dtype=I64)), lambda x, i: x[i[:, 0], i[:, 1]]),
    Row("SearchSorted", ((5,), (2, 3)), lambda a, v: np.searchsorted(a, v)),
    Row("OneHot", (zeros(2, 3, dtype=I64), Value(7, I32), (), ()), lambda i, d, a, b: np.eye(7, dtype=F)[i]),
    Row("Fill", (Value([2, 3]), ()), lambda d, v: np.full(d, v)),
    Row("Range", (Value(2, I32), Value(9, I32), Value(3, I32)), lambda *r: np.arange(*r, dtype=I32)),
    Row("Range", (Value(1.0, F), Value(0.0, F), Value(-0.3, F)), lambda *r: np.arange(*r, dtype=F)),
    Row("Range", (Value(1), Value(1), Value(1)), lambda *r: np.arange(*r, dtype=I64)),
    Row("LinSpace", (Value(0.0, F), Value(1.0, F), Value(7, I32)), lambda a, b, n: np.linspace(a, b, n, dtype=F)),
    Row("Eye", (), lambda: np.eye(3, 4, dtype=F), {"num_rows": 3, "num_columns": 4}),
    Row("Shape", ((2, 3),), lambda x: np.array(x.shape, I64), {"dtype": 9}),
    Row("Size", ((2, 3),), lambda x: np.array(x.size, I32)),
    Row("Rank", ((2, 3),), lambda x: np.array(x.ndim, I32)),
    Row("Diag", ((3,),), np.diag),
    Row("MatMulV2", ((2, 3), (3, 4)), np.matmul),
    Row("MatMulV2", ((3, 2), (4, 3)), lambda a, b: a.T @ b.T, {"transpose_x1": True, "transpose_x2": True}),
    Row("BatchMatMul", ((5, 2, 3), (3, 4)), np.matmul),
    Row("BatchMatMulV2", ((7, 1, 2, 0), (5, 0, 4)), np.matmul),
    Row("BatchMatMul", ((3,), (3, 4)), np.matmul),
    Row("Einsum", ((2, 3, 4), (4, 5)), lambda a, b: np.einsum("bij,jk->kbi", a, b),
        {"equation": "bij,jk->kbi", "N": 2}),
    Row("MatrixInverse", ((2, 3, 3),), lambda x: x),
    Row("IndexByTensor", ((4, 5, 6), zeros(2, 1, dtype=I64), zeros(3, dtype=I64)), lambda x, i, j: x[:, i, j],
        {"indices_mask": [0, 1, 1]}, ("x", "indices0", "indices1")),
    Row("IndexByTensor", ((4, 5, 6), zeros(2, dtype=I64), zeros(2, dtype=I64)), lambda x, i, j: x[i, :, j],
        {"indices_mask": [1, 0, 1]}, ("x", "indices0", "indices1")),
    Row("Index", ((4, 5, 6), Value([0, 1]), Value([1]), zeros(7, dtype=I64)), lambda x, m, s, i: x[:, i]),
    Row("Bitcast", ((2, 4),), lambda x: x.view("int32"), {"type": "int32"}),
    Row("Bitcast", ((2, 4),), lambda x: x.reshape(2, 4, 1).view("int16"), {"type": "int16"}),
    Row("Bitcast", ((2, 2),), lambda x: x.view("int64").reshape(2), {"type": "int64"}),
    Row("Bitcast", ((2, 4),), lambda x: x.view("int64"), {"type": "int64", "keep_dim": True}),
    Row("SqueezeV3", ((1, 3, 1), Value([0, 2])), lambda x, a: np.squeeze(x)),
    Row("UnsqueezeV3", ((3,), Value([0])), lambda x, a: x[None]),
    Row("Permute", ((2, 3),), np.transpose, {"order": [1, 0]}),
    Row("AsStrided", ((6,), Value([2, 3]), Value([1, 1]), Value(0)), lambda x, *_: np.broadcast_to(x[:3], (2, 3))),
    Row("Complex", ((2, 3), (3,)), lambda a, b: (a + 1j * b).astype("complex64")),
    Row("Real", (zeros(2, dtype="complex64"),), np.real),
    Row("DiagPart", ((2, 3, 2, 3),), lambda x: np.zeros((2, 3), F)),
    Row("TransposeBatchMatMul", ((4, 2, 3), (2, 3, 5)), lambda a, b: np.einsum("mbk,bkn->mbn", a, b),
        {"perm_x1": [1, 0, 2]}),
    Row("ConfusionTransposeD", ((2, 6),), lambda x: x.T.reshape(3, 4),
        {"perm": [1, 0], "shape": [3, 4], "transpose_first": True}),
    Row("ConfusionTransposeD", ((2, 6),), lambda x: x.reshape(3, 4).T,
        {"perm": [1, 0], "shape": [3, 4], "transpose_first": False}),
    Row("PadV3Grad", ((3, 8), Value([[1, 0], [2, 3]])), lambda x, p: x[1:, 2:5]),
    Row("RangeD", ((1,),), lambda x: np.arange(0, 1, 0.3, F), {"start": 0, "limit": 1.0, "delta": 0.3}),
    *reduce_rows(),
    *strided_rows(),
]  # fmt: skip


def as_list(result: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in (result if isinstance(result, list) else [result])]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shape_and_dtype_are_numpys(language: ModuleType, row: Row) -> None:
    arrays = [array_of(operand) for operand in row.inputs]
    operands = [
        (a.dtype.name, list(a.shape), a if isinstance(operand, Value) else None)
        for a, operand in zip(arrays, row.inputs, strict=True)
    ]
    expected = as_list(row.numpy(*arrays))
    found = language.infer(row.operator, row.attributes, operands, list(row.names))
    assert found == [(e.dtype.name, list(e.shape), []) for e in expected]


@pytest.mark.parametrize("operator", ["NonZero", "Where", "MaskedSelect"])
def test_data_dependent_shapes_have_a_bound(language: ModuleType, operator: str) -> None:
    x = zeros(2, 3, dtype=F)
    inputs = [(F, [2, 3]), (B, [2, 1])] if operator == "MaskedSelect" else [(F, [2, 3])]
    largest = [6] if operator == "MaskedSelect" else list(np.argwhere(x == 0).shape)
    ((_, dims, bound),) = language.infer(operator, {}, inputs)
    assert dims == [-1, *largest[1:]]
    assert bound == largest


@pytest.mark.parametrize(
    ("operator", "attributes", "inputs", "dims"),
    [
        ("Add", {}, [(F, [-1, 3]), (F, [1, 3])], [-1, 3]),
        ("Add", {}, [(F, [-1, 1]), (F, [4, -1])], [4, -1]),
        ("Add", {}, [(F, None), (F, [3])], None),
        ("ReduceSum", {"keep_dims": True}, [(F, [2, 3]), (I64, [1])], [-1, -1]),
        ("ReduceSum", {}, [(F, [2, 3]), (I64, [1])], None),
        ("ReduceSum", {}, [(F, [-1, 3]), (I64, [1], np.array([1]))], [-1]),
        ("Reshape", {}, [(F, [-1, 6]), (I64, [2], np.array([-1, 3]))], [-1, 3]),
        ("Reshape", {}, [(F, [2, 6]), (I64, [3])], [-1, -1, -1]),
        ("Reshape", {}, [(F, [-1, 6]), (I64, [3], np.array([0, 2, 3]))], [-1, 2, 3]),
        ("Transpose", {}, [(F, [2, 3]), (I64, [2])], [-1, -1]),
        ("ConcatV2D", {"concat_dim": 0}, [(F, [2, -1]), (F, [-1, 3])], [-1, 3]),
        ("Slice", {}, [(F, [-1, 6]), (I64, [2]), (I64, [2], np.array([2, -1]))], [2, -1]),
        ("MatMulV2", {}, [(F, [-1, 3]), (F, [3, 4])], [-1, 4]),
        ("GatherV2", {}, [(F, [5, 6]), (I64, [-1]), (I64, [], np.array(0))], [-1, 6]),
        ("Shape", {}, [(F, [-1, 6])], [2]),
        ("Fill", {}, [(I64, [2]), (F, [])], [-1, -1]),
        ("TopKV2", {}, [(F, [2, 9]), (I32, [])], [2, -1]),
        ("LayerNormV4", {}, [(F, [-1, 4]), (I64, [1])], [-1, 4]),
    ],
)
def test_unknown_sizes_travel(
    language: ModuleType,
    operator: str,
    attributes: dict[str, Any],
    inputs: list[Any],
    dims: list[int] | None,
) -> None:
    assert language.infer(operator, attributes, inputs)[0][1] == dims


@pytest.mark.parametrize(
    ("operator", "attributes", "inputs", "sentence"),
    [
        ("Add", {}, [(F, [2, 3]), (F, [4])], r"the shapes do not broadcast: 3 against 4 \(x1 float32\[2,3\], x2"),
        ("Add", {}, [(F, [2]), ("float16", [2])], "Add: the inputs differ in data type, float32 and float16"),
        ("Add", {}, [(F, [2]), None], "Add: its input x2 is missing"),
        ("LogicalNot", {}, [(F, [2])], "LogicalNot's input x cannot be float32"),
        ("Reshape", {}, [(F, [2, 3]), (I64, [1], np.array([4]))], "x has 6 elements"),
        ("Reshape", {}, [(F, [6]), (I64, [2], np.array([-1, -1]))], "more than one -1"),
        ("ReduceSum", {}, [(F, [2]), (I64, [1], np.array([1]))], "there is no axis 1 in 1 dimensions"),
        ("SplitV", {"num_split": 2}, [(F, [5]), (I64, [2], np.array([2, 2])), (I32, [], np.array(0, I32))],
         "size_splits adds up to 4, and the axis has 5"),
        ("Slice", {}, [(F, [5]), (I64, [1], np.array([3])), (I64, [1], np.array([3]))], "leaves x"),
        ("StridedSlice", {"shrink_axis_mask": 1},
         [(F, [5]), *[(I64, [1], np.array([v])) for v in (5, 6, 1)]], "there is no element 5"),
        ("MatMulV2", {}, [(F, [2, 3]), (F, [4, 5])], "the inner sizes differ: 3 and 4"),
        ("Squeeze", {"axis": [0]}, [(F, [2])], "axis 0 has the size 2, not 1"),
        ("Split", {"num_split": 2}, [(I32, [], np.array(0, I32)), (F, [5])], "5 elements do not split into 2"),
        ("TopKV2", {}, [(F, [3]), (I32, [], np.array(4, I32))], "k is 4, and the axis has 3"),
        ("Cast", {"dst_type": 99}, [(F, [3])], "no data type has that number"),
        ("Adding", {}, [], 'there is no operator "Adding"'),
        ("GridSampler2D", {}, [], "there is no rule yet for the shapes of the operator GridSampler2D"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(
    language: ModuleType, operator: str, attributes: dict[str, Any], inputs: list[Any], sentence: str
) -> None:
    with pytest.raises(language.GraphError, match=sentence):
        language.infer(operator, attributes, inputs)


def test_value_inputs(language: ModuleType) -> None:
    assert language.value_inputs("StridedSliceV2") == ["begin", "end", "axes", "strides"]
    assert language.value_inputs("Add") == []


def test_every_rule_asks_for_what_its_operator_has(language: ModuleType) -> None:
    """A rule that misspells an input or attribute is a logic error, whatever the operands."""
    for name in language.inferred_operators():
        op = language.find_operator(name)
        assert set(language.value_inputs(name)) <= {port["name"] for port in op["inputs"]}, name
        attributes = {
            a["name"]: {"Int": 1, "Float": 1.0, "Bool": True, "String": "x", "Type": "float32"}.get(
                a["type"], []
            )
            for a in op["attributes"]
            if a["required"] and a["type"] != "Tensor"
        }
        for dims in ([2, 2, 2, 2], None):
            inputs = [((port["types"] or [F])[0], dims) for port in op["inputs"]]
            names = [p["name"] + "0" * (p["arity"] == "dynamic") for p in op["inputs"]]
            with contextlib.suppress(language.GraphError):
                language.infer(name, attributes, inputs, names)
