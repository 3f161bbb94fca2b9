"""GE operators that read and write at indices, and that make tensors, against torch."""

import pytest
import torch
from torch.nn import functional as F

from .rows import (
    F32,
    I32,
    I64,
    ROWS,
    Case,
    I,
    X,
    blank,
    call,
    check,
    equal,
    ints,
    scalar,
)

INDEXED = [
    Case("Gather", [X, torch.tensor([[1, 0]])], [X[torch.tensor([[1, 0]])]], {"validate_indices": True}),
    Case("GatherV2", [X, I, scalar(1)], [X[:, I]], {"batch_dims": 0, "negative_index_support": False}),
    Case(
        "GatherV2",
        [X, ints(-1, dtype=I32), ints(-1)],
        [X[..., -1:].clone()],
        {"negative_index_support": True},
    ),
    Case("GatherV2", [X, scalar(1), scalar(0)], [X[1]]),
    Case(
        "GatherV2",
        [X, torch.tensor([[1], [2]]), scalar(1)],
        [torch.stack([X[0, 1:2], X[1, 2:3]])],
        {"batch_dims": 1},
    ),
    Case("GatherV2D", [X, I], [X[:, I]], {"axis": 1}),
    Case(
        "GatherNd",
        [X, torch.tensor([[1, 2], [0, 0]])],
        [X[[1, 0], [2, 0]]],
        {"negative_index_support": False},
    ),
    Case("GatherElements", [X[0], ROWS], [X[0].gather(1, ROWS)], {"dim": 1}),
    Case("GatherD", [X[0], scalar(1), ROWS], [X[0].gather(1, ROWS)], {"dim": 1}),
    Case("IndexByTensor", [X, I], [X[:, I]], {"indices_mask": [0, 1]}),
    Case("IndexByTensor", [X, ints(1, 0), I], [X[ints(1, 0), :, I]], {"indices_mask": [1, 0, 1]}),
    Case("IndexByTensor", [X, X > 5], [X[X > 5]], {"indices_mask": [1]}),
    Case("Index", [X, ints(0, 1), ints(1, 1), I], [X[:, I]]),
    Case(
        "ScatterNd",
        [torch.tensor([[1], [1], [0]]), torch.tensor([1.0, 2.0, 4.0]), ints(3)],
        [torch.tensor([4.0, 3.0, 0.0])],
    ),
    Case(
        "ScatterElements",
        [X[0], ROWS, -X[0]],
        [X[0].scatter(1, ROWS, -X[0])],
        {"axis": 1, "reduction": "none"},
    ),
    Case(
        "ScatterElements",
        [X[0], ROWS, X[1]],
        [X[0].scatter_add(1, ROWS, X[1])],
        {"axis": 1, "reduction": "add"},
    ),
    Case("TensorScatterUpdate", [X[0], torch.tensor([[2]]), -X[:1, 0]], [torch.cat([X[0, :2], -X[:1, 0]])]),
    Case(
        "TensorScatterAdd",
        [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)],
        [torch.tensor([1.0, 1.0, 3.0])],
    ),
    Case("InplaceUpdate", [X[0], ints(1, dtype=I32), -X[:1, 0]], [torch.stack([X[0, 0], -X[0, 0], X[0, 2]])]),
    Case("InplaceAdd", [torch.ones(3), ints(1, 1), torch.ones(2)], [torch.tensor([1.0, 3.0, 1.0])]),
    Case("InplaceSub", [torch.ones(3), ints(0), torch.ones(1)], [torch.tensor([0.0, 1.0, 1.0])]),
    Case(
        "MaskedScatter", [torch.zeros(4), ints(1, 0, 1, 0) > 0, X[0, 0]], [torch.tensor([0.0, 0.0, 1.0, 0.0])]
    ),
    Case(
        "OneHot",
        [I, scalar(3), scalar(5.0, F32), scalar(-1.0, F32)],
        [F.one_hot(I, 3) * 6.0 - 1],
        {"axis": -1},
    ),
    Case(
        "OneHot",
        [I, scalar(3), scalar(1, I32), scalar(0, I32)],
        [F.one_hot(I, 3).T.int().contiguous()],
        {"axis": 0},
    ),
    Case(
        "OneHotD",
        [I, scalar(5.0, F32), scalar(-1.0, F32)],
        [F.one_hot(I, 3) * 6.0 - 1],
        {"depth": 3, "axis": -1},
    ),
    Case(
        "TensorScatterSub",
        [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)],
        [torch.tensor([1.0, 1.0, -1.0])],
    ),
    Case(
        "IndexAdd", [torch.ones(3), ints(0, 0), torch.ones(2)], [torch.tensor([3.0, 1.0, 1.0])], {"axis": 0}
    ),
    Case("IndexFill", [X[0], I, scalar(9.0, F32)], [X[0].index_fill(1, I, 9)], {"dim": 1}),
    Case(
        "SearchSorted",
        [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 9.0])],
        [ints(1, 3)],
        {"dtype": 9, "right": False},
    ),
    Case(
        "SearchSorted",
        [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0])],
        [ints(2, dtype=I32)],
        {"dtype": 3, "right": True},
    ),
    Case(
        "Bincount",
        [ints(0, 2, 2, 9, dtype=I32), scalar(3, I32), torch.zeros(0)],
        [torch.tensor([1.0, 0.0, 2.0])],
    ),
    Case(
        "UnsortedSegmentSum",
        [X[0], ints(1, -1, 1), scalar(2)],
        [torch.stack([torch.zeros(4), X[0, 0] + X[0, 2]])],
    ),
    Case(
        "UnsortedSegmentSumD",
        [X[0], ints(1, 0, 1)],
        [torch.stack([X[0, 1], X[0, 0] + X[0, 2]])],
        {"num_segments": 2},
    ),
    Case(
        "EmbeddingDenseGrad",
        [X[0], ints(1, 0, 1)],
        [torch.stack([X[0, 1], X[0, 0] + X[0, 2]])],
        {"num_weights": 2, "padding_idx": -1, "scale_grad_by_freq": False},
    ),
]

MADE = [
    Case("Fill", [ints(2, 3), scalar(2.5, F32)], [torch.full((2, 3), 2.5)]),
    Case("Fill", [ints(0), scalar(1, I64)], [torch.zeros(0, dtype=I64)]),
    Case("FillD", [scalar(7, I32)], [torch.full((2,), 7, dtype=I32)], {"dims": [2]}),
    Case("Empty", [ints(2)], [torch.zeros(2)], {"dtype": 0, "init": False}),
    Case("Range", [scalar(1), scalar(8), scalar(3)], [ints(1, 4, 7)], {"is_closed": False}),
    Case("Range", [scalar(3.0, F32), scalar(0.0, F32), scalar(-1.5, F32)], [torch.tensor([3.0, 1.5])]),
    Case("Range", [scalar(1), scalar(7), scalar(3)], [ints(1, 4, 7)], {"is_closed": True}),
    Case("LinSpace", [scalar(0.0, F32), scalar(1.0, F32), scalar(5, I32)], [torch.linspace(0, 1, 5)]),
    Case("Eye", [], [torch.eye(2, 3)], {"num_rows": 2, "num_columns": 3, "batch_shape": [], "dtype": 0}),
    Case("Eye", [], [torch.eye(2).expand(3, 2, 2).contiguous()], {"num_rows": 2, "batch_shape": [3]}),
    Case("Diag", [torch.tensor([1.0, 2.0])], [torch.diag(torch.tensor([1.0, 2.0]))]),
    Case("DiagPart", [X[0, :, :3].clone()], [X[0, :, :3].diagonal().clone()]),
    Case("MatrixDiag", [X[0]], [torch.diag_embed(X[0])]),
    Case("MatrixDiagPart", [X], [X.diagonal(0, 1, 2).clone()]),
]


@pytest.mark.parametrize("case", INDEXED + MADE, ids=str)
def test_by_example(door, case):
    check(door, case)


FOUND = [
    ("Where", [X > 20], {}, (X > 20).nonzero()),
    ("NonZero", [ints(0, 3, 0, 1)], {"transpose": False, "dtype": 9}, ints(1, 3).view(2, 1)),
    ("NonZero", [X > 20], {"transpose": True, "dtype": 9}, (X > 20).nonzero().t().contiguous()),
    ("MaskedSelect", [X, X > 20], {}, X[X > 20]),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "want"), FOUND)
def test_shapes_that_only_the_values_tell(door, name, inputs, attributes, want):
    room = torch.zeros(24 * 3, dtype=want.dtype, device="npu")
    assert call(door, name, inputs, [room], attributes, version=2) == 0, door.message()
    assert door.shapes == [list(want.shape)]
    equal(room[: want.numel()].view(want.shape).cpu(), want)


REFUSED = [
    ("Exp", [X], [X], {"base": -2.0}, "base is -2"),
    (
        "GatherV2",
        [X, ints(7), scalar(0)],
        [X[:1]],
        {},
        "index 7 is out of bounds for dimension 0 with size 2",
    ),
    ("TopKV2", [X, scalar(9)], [X, X.long()], {}, "k is 9, dimension 2 has size 4"),
    ("PadV3", [X, ints(0, 0, 3, 0, 0, 0)], [torch.zeros(2, 6, 4)], {"mode": "reflect"}, "by at most 2"),
    ("Split", [scalar(1), X], [X[:, :1], X[:, :1]], {"num_split": 2}, "it does not divide the 3"),
    ("ScatterElements", [X[0], ROWS, X[0]], [X[0]], {"reduction": "most"}, "reduction is most"),
    ("MaskedFill", [X, X > 1, torch.ones(2)], [X], {}, "value must have one element"),
]


@pytest.mark.parametrize(("name", "inputs", "outputs", "attributes", "sentence"), REFUSED)
def test_what_has_no_meaning_is_refused_by_a_sentence(door, name, inputs, outputs, attributes, sentence):
    assert call(door, name, inputs, [blank(out) for out in outputs], attributes, version=2) != 0
    assert sentence in door.message()
