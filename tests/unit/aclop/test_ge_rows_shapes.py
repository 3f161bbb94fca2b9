"""GE operators that join, cut, pad and reshape, against torch."""

import pytest
import torch
from torch.nn import functional as F

from .rows import (
    F32,
    FLOATS,
    I32,
    I64,
    Case,
    I,
    X,
    check,
    ints,
    sample,
    scalar,
)

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def slice_case(name, x, begin, end, strides, want, axes=None, **masks):
    inputs = [x, ints(*begin), ints(*end)]
    inputs += [ints(*strides)] if name == "StridedSlice" else [axes, ints(*strides) if strides else None]
    return Case(name, inputs, [want], {mask: masks.get(mask, 0) for mask in MASKS})


SHAPED = [
    Case("Reshape", [X, ints(4, 6)], [X.view(4, 6)], {"axis": 0, "num_axes": -1}),
    Case("Reshape", [X[0, 0, 0], ints(1)], [X[0, 0, :1]]),
    Case("Squeeze", [X.view(2, 1, 12)], [X.view(2, 12)], {"axis": [1]}),
    Case("Unsqueeze", [X], [X.unsqueeze(-1)], {"axes": [-1]}),
    Case("ExpandDims", [X, scalar(0)], [X.unsqueeze(0)]),
    Case("Flatten", [X], [X.view(2, 12)], {"axis": 1}),
    Case("FlattenV2", [X], [X.view(6, 4)], {"axis": 0, "end_axis": 1}),
    Case("Transpose", [X, ints(2, 0, 1)], [X.permute(2, 0, 1).contiguous()]),
    Case("TransposeD", [X], [X.permute(2, 0, 1).contiguous()], {"perm": [2, 0, 1]}),
    Case("Permute", [X], [X.permute(1, 0, 2).contiguous()], {"order": [1, 0, 2]}),
    Case("BroadcastTo", [X[:, :1], ints(2, 3, 4)], [X[:, :1].expand(2, 3, 4).contiguous()]),
    Case("Expand", [X[:, :1], ints(3, 1)], [X[:, :1].expand(2, 3, 4).contiguous()]),
    Case("Tile", [X, ints(1, 2, 1)], [X.repeat(1, 2, 1)]),
    Case("TileD", [X], [X.repeat(1, 2, 1)], {"multiples": [1, 2, 1]}),
    Case("ConcatV2", [X, X[:, :1], scalar(1, I32)], [torch.cat([X, X[:, :1]], 1)], {"N": 2}),
    Case("Concat", [scalar(-1), X, X], [torch.cat([X, X], -1)], {"N": 2}),
    Case("ConcatD", [X, X], [torch.cat([X, X], 0)], {"concat_dim": 0, "N": 2}),
    Case("ConcatV2D", [X, torch.zeros(2, 0, 4)], [X], {"concat_dim": 1, "N": 2}),
    Case("Pack", [X, X + 1], [torch.stack([X, X + 1], -1)], {"axis": -1, "N": 2}),
    Case("Pack", [scalar(1), scalar(2)], [ints(1, 2)], {"axis": 0, "N": 2}),
    Case("Unpack", [X], [x.contiguous() for x in X.unbind(1)], {"num": 3, "axis": 1}),
    Case("Split", [scalar(2), X], [x.contiguous() for x in X.split(2, 2)], {"num_split": 2}),
    Case("SplitD", [X], [x.contiguous() for x in X.split(1, 1)], {"split_dim": 1, "num_split": 3}),
    Case("SplitV", [X, ints(1, -1), scalar(2)], [X[..., :1].clone(), X[..., 1:].clone()], {"num_split": 2}),
    Case("SplitVD", [X], [X[:, :0].clone(), X], {"size_splits": [0, 3], "split_dim": 1, "num_split": 2}),
    Case("Slice", [X, ints(0, 1, 1), ints(2, -1, 2)], [X[:, 1:, 1:3].clone()]),
    slice_case("StridedSlice", X, [0, 1], [2, 3], [1, 1], X[:, 1:3].clone()),
    slice_case(
        "StridedSlice",
        X,
        [9, -1],
        [0, -9],
        [-1, -2],
        X.flip(0).flip(1)[:, ::2].clone(),
        begin_mask=1,
        end_mask=1,
    ),
    slice_case(
        "StridedSlice", X, [0, -1], [0, 0], [1, 1], X[..., -1].clone(), ellipsis_mask=1, shrink_axis_mask=2
    ),
    slice_case("StridedSlice", X, [1, 0], [2, 0], [1, 1], X[1:2].unsqueeze(1), new_axis_mask=2),
    slice_case("StridedSlice", X, [2], [1], [1], X[:0].clone()),
    slice_case("StridedSliceV2", X, [1], [2147483647], [2], X[:, :, 1::2].clone(), ints(-1)),
    slice_case("StridedSliceV2", X, [3], [0], [-1], X[:, :, 1:].flip(2), ints(2)),
    slice_case("StridedSliceV2", X, [1, 0], [2, 9], None, X[1:2].clone(), None),
    slice_case("StridedSliceV2", X, [1], [2], [1], X[:, :2].clone(), ints(1), begin_mask=1),
    Case("ReverseV2", [X, ints(0, -1)], [X.flip(0, 2)]),
    Case("Roll", [X], [X.roll([1, -1], [0, 2])], {"shifts": [1, -1], "dims": [0, 2]}),
    Case("ReverseV2D", [X], [X.flip(0, 2)], {"axis": [0, 2]}),
    Case("RollV2", [X, ints(1), ints(2)], [X.roll(1, 2)]),
    Case("SqueezeV2", [X.view(2, 1, 12)], [X.view(2, 12)], {"axis": [1]}),
    Case("SqueezeV3", [X.view(2, 1, 12), ints(1)], [X.view(2, 12)]),
    Case("UnsqueezeV2", [X], [X.unsqueeze(1)], {"axis": [1]}),
    Case("UnsqueezeV3", [X, ints(1)], [X.unsqueeze(1)]),
    Case("SliceD", [X], [X[:, 1:, 1:3].clone()], {"offsets": [0, 1, 1], "size": [2, 2, 2]}),
    Case("SliceDV2", [X, ints(0, 1, 1)], [X[:, 1:, 1:3].clone()], {"size": [2, 2, 2]}),
    Case(
        "StridedSliceD",
        [X],
        [X[1:].clone()],
        {"begin": [1], "end": [2], "strides": [1], **dict.fromkeys(MASKS, 0)},
    ),
    Case("BroadcastToD", [X[:, :1]], [X[:, :1].expand(2, 3, 4).contiguous()], {"shape": [2, 3, 4]}),
    Case("ExpandD", [X[:, :1]], [X[:, :1].expand(2, 3, 4).contiguous()], {"shape": [3, 1]}),
    Case("Triu", [X], [X.triu(1)], {"diagonal": 1}),
    Case("Tril", [X], [X.tril(-1)], {"diagonal": -1}),
    Case("Trilu", [X, scalar(1)], [X.triu(1)], {"upper": 1}),
    Case("Pad", [X, torch.tensor([[0, 0], [1, 0], [0, 2]])], [F.pad(X, [0, 2, 1, 0])]),
    Case("PadV2", [X, ints(0, 0, 1, 0, 0, 2), scalar(5.0, F32)], [F.pad(X, [0, 2, 1, 0], value=5)]),
    Case(
        "PadV3",
        [X, ints(0, 0, 1, 0, 0, 2), scalar(5.0, F32)],
        [F.pad(X, [0, 2, 1, 0], value=5)],
        {"mode": "constant"},
    ),
    Case("PadV3", [X, ints(0, 0, -1, 0, 0, 2)], [F.pad(X, [0, 2, -1, 0])], {"mode": "constant"}),
    Case("PadV3", [X, ints(0, 0, 2, 1, 1, 3)], [F.pad(X, [1, 3, 2, 1], "reflect")], {"mode": "reflect"}),
    Case(
        "PadV3",
        [X, ints(0, 1, 1, 0, 2, 3)],
        [F.pad(X, [1, 3, 1, 2], "replicate")],
        {"mode": "edge", "paddings_contiguous": False},
    ),
    Case("PadV3", [X, ints(0, 0, 2, 1, 1, 3)], [F.pad(X, [1, 3, 2, 1], "circular")], {"mode": "circular"}),
    Case("MirrorPad", [X, ints(0, 0, 2, 1, 1, 3)], [F.pad(X, [1, 3, 2, 1], "reflect")], {"mode": "REFLECT"}),
    Case("MirrorPad", [ints(1, 2, 3), ints(2, 1)], [ints(2, 1, 1, 2, 3, 3)], {"mode": "SYMMETRIC"}),
]


@pytest.mark.parametrize("case", SHAPED, ids=str)
def test_by_example(door, case):
    check(door, case)


@pytest.mark.parametrize("dtype", [*FLOATS, I32, I64, torch.bool], ids=str)
def test_elements_of_any_type_are_moved(door, dtype):
    x = sample((3, 4), -9, 9, dtype)
    check(door, Case("Transpose", [x, ints(1, 0)], [x.t().contiguous()]))
    check(door, Case("ConcatV2", [x, x, scalar(0)], [torch.cat([x, x])], {"N": 2}))
    check(door, Case("GatherV2", [x, I, scalar(0)], [x[I]]))
    check(door, Case("Tile", [x, ints(2, 1)], [x.repeat(2, 1)]))
    check(door, Case("Fill", [ints(3), x[0, 0]], [x[0, 0].expand(3).contiguous()]))


def test_the_gradient_of_a_reflection(door):
    x = torch.randn(1, 2, 5, requires_grad=True)
    y = F.pad(x, [2, 1], "reflect")
    dy = torch.randn_like(y)
    y.backward(dy)
    check(
        door,
        Case(
            "PadV3Grad",
            [dy, ints(0, 0, 0, 0, 2, 1)],
            [x.grad],
            {"mode": "reflect", "paddings_contiguous": True},
        ),
    )
