"""GE operators that reduce, order, move, index and make tensors, and matrix products, against torch."""

import pytest
import torch
from torch.nn import functional as F

from .rows import FLOATS, Case, attribute, blank, call, check, equal, ints, sample, scalar

I32, I64, F32 = torch.int32, torch.int64, torch.float32


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(2)


# --- reductions ---


def prod(x, dims, keep):
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.prod(dim, keep)
    return x


REDUCTIONS = {
    "ReduceSum": (lambda x, d, k: x.sum(d, k), FLOATS + (I32, I64)),
    "ReduceMean": (lambda x, d, k: x.mean(d, k), FLOATS),
    "ReduceMax": (lambda x, d, k: x.amax(d, k), FLOATS + (I32, I64)),
    "ReduceMin": (lambda x, d, k: x.amin(d, k), FLOATS + (I32, I64)),
    "ReduceProd": (prod, FLOATS + (I32,)),
    "ReduceLogSumExp": (lambda x, d, k: x.logsumexp(d, k), FLOATS),
    "ReduceLogSum": (lambda x, d, k: x.sum(d, k).log(), FLOATS),
    "ReduceAll": (lambda x, d, k: x.all(d, k), (torch.bool,)),
    "ReduceAny": (lambda x, d, k: x.any(d, k), (torch.bool,)),
}


@pytest.mark.parametrize(("name", "dtype"), [(n, t) for n, row in REDUCTIONS.items() for t in row[1]], ids=str)
def test_reductions(door, name, dtype):
    reference, _ = REDUCTIONS[name]
    x = sample((2, 3, 4), 0.1 if name == "ReduceLogSum" else -2, 3, dtype)
    source = x.double() if x.is_floating_point() else x
    for dims in ([0], [-1], [0, 2], [1, -1], [0, 1, 2]):
        for keep in (False, True):
            want = reference(source, dims, keep).to(dtype)
            check(door, Case(name, [x, ints(*dims)], [want], {"keep_dims": keep}))
            check(door, Case(name, [x, ints(*dims, dtype=I32)], [want], {"keep_dims": keep}))
            if "Log" not in name:
                check(door, Case(name + "D", [x], [want], {"axes": dims, "keep_dims": keep}))


def test_empty_axes_reduce_nothing_or_everything(door):
    x, none = sample((2, 3), -2, 2, F32), ints()
    check(door, Case("ReduceSum", [x, none], [x], {"noop_with_empty_axes": True}))
    check(door, Case("ReduceSum", [x, none], [x.sum()], {"noop_with_empty_axes": False}))
    check(door, Case("ReduceSum", [x, none], [x.sum((0, 1), True)], {"noop_with_empty_axes": False, "keep_dims": True}))
    check(door, Case("ReduceMax", [x, none], [x]))
    check(door, Case("ReduceMeanD", [x], [x.mean()], {"axes": []}))
    check(door, Case("ReduceAny", [x > 0, none], [x > 0]))


def test_reductions_of_a_number_and_of_nothing(door):
    one = scalar(3.0, F32)
    for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd"):
        check(door, Case(name, [one, ints(0)], [one]))
    empty = torch.zeros(0, 3)
    check(door, Case("ReduceSum", [empty, ints(0)], [torch.zeros(3)]))
    check(door, Case("ReduceProd", [empty, ints(0)], [torch.ones(3)]))
    check(door, Case("ReduceMean", [empty, ints(0)], [torch.full((3,), float("nan"))]))


def test_the_mean_of_integers_is_rounded_to_zero(door):
    x = torch.tensor([[1, 2], [-1, -2]], dtype=I32)
    check(door, Case("ReduceMean", [x, ints(1)], [torch.tensor([1, -1], dtype=I32)]))


def test_a_mean_in_another_type(door):
    x = sample((3, 5), -1, 1, torch.float16)
    check(door, Case("ReduceMeanWithCast", [x, ints(1)], [x.float().mean(1)], {"dtype": 0}))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_moments_and_norms(door, dtype):
    x = sample((4, 5), -2, 2, dtype)
    wide = x.double()
    std, mean = wide.std(1), wide.mean(1)
    check(door, Case("ReduceStd", [x], [std.to(dtype), mean.to(dtype)], {"dim": [1], "unbiased": True}))
    check(
        door,
        Case("ReduceStdV2", [x], [wide.std(1, correction=0).to(dtype), mean.to(dtype)], {"dim": [1], "correction": 0}),
    )
    var = [wide.var(1).to(dtype), mean.to(dtype)]
    check(door, Case("ReduceVar", [x], var, {"dim": [1], "correction": 1, "keepdim": False, "is_mean_out": True}))
    about = wide.mean(1, True).expand(4, 5)
    options = {"dim": [1], "keepdim": False}
    want = wide.std(1).to(dtype)
    limit = 0.02 if dtype != F32 else None
    check(door, Case("ReduceStdWithMean", [x, about.to(dtype)], [want], {**options, "correction": 1}, limit))
    check(door, Case("ReduceStdV2Update", [x, about.to(dtype)], [wide.var(1).to(dtype)], options, 0.05 if limit else None))
    check(door, Case("LpNormV2", [x], [wide.norm(2, 1).to(dtype)], {"p": 2.0, "axes": [1], "keepdim": False}))
    check(door, Case("L2Loss", [x], [(wide.square().sum() / 2).to(dtype)]))


def test_the_place_of_an_extremum_is_the_first(door):
    x = torch.tensor([[1.0, 5.0, 5.0], [0.0, -3.0, -3.0]])
    for dtype, number in ((I32, 3), (I64, 9)):
        largest, smallest = ints(1, 0, dtype=dtype), ints(0, 1, dtype=dtype)
        check(door, Case("ArgMaxV2", [x, scalar(1)], [largest], {"dtype": number}))
        check(door, Case("ArgMin", [x, scalar(-1)], [smallest], {"dtype": number}))
        check(door, Case("ArgMaxD", [x], [largest], {"dimension": 1, "dtype": number}))
        check(door, Case("ArgMinD", [x], [smallest], {"dimension": 1, "dtype": number}))


def test_orders_are_stable(door):
    x = torch.tensor([2.0, 7.0, 2.0, 7.0, 1.0])
    top = Case("TopKV2", [x, scalar(3, I32)], [torch.tensor([7.0, 7.0, 2.0]), ints(1, 3, 0, dtype=I32)])
    check(door, top)
    check(door, Case("TopK", top.inputs, top.expected, {"sorted": True, "largest": True, "dim": -1}))
    low = [torch.tensor([1.0, 2.0]), ints(4, 0, dtype=I32)]
    check(door, Case("TopKV2", [x, scalar(2)], low, {"largest": False, "dim": 0, "sort_policy": 1}))
    check(door, Case("TopKD", [x, None], low, {"k": 2, "largest": False, "dim": 0, "sorted": True}))
    want = [torch.tensor([7.0, 7.0, 2.0, 2.0, 1.0]), ints(1, 3, 0, 2, 4, dtype=I32)]
    check(door, Case("Sort", [x], want, {"axis": -1, "descending": True, "stable": True}))


SCANS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("exclusive", "reverse"), SCANS)
@pytest.mark.parametrize(("name", "function", "empty"), [("Cumsum", torch.cumsum, 0), ("Cumprod", torch.cumprod, 1)])
@pytest.mark.parametrize("dtype", [*FLOATS, I32], ids=str)
def test_scans(door, name, function, empty, exclusive, reverse, dtype):
    x = sample((2, 4), 1, 2, torch.float64).round().to(dtype)
    source = x.flip(1) if reverse else x
    want = function(source.double(), 1)
    if exclusive:
        want = torch.cat([torch.full((2, 1), float(empty)), want[:, :-1]], 1)
    want = (want.flip(1) if reverse else want).to(dtype)
    options = {"exclusive": exclusive, "reverse": reverse}
    check(door, Case(name, [x, scalar(-1, I32)], [want], options))
    check(door, Case(name + "D", [x], [want], {"axis": 1, **options}))


def test_running_extrema(door):
    x = torch.tensor([[1.0, 3.0, 2.0, 5.0]])
    check(door, Case("Cummax", [x], list(x.cummax(1)), {"dim": 1}))
    check(door, Case("Cummin", [x], list(x.cummin(1)), {"axis": 1}))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_and_its_gradient(door, dtype):
    x, dy = sample((2, 3, 4), -2, 2, dtype), sample((2, 3, 4), -2, 2, dtype)
    for axes in ([-1], [1], [1, 2]):
        leaf = x.double().requires_grad_()
        flat = (lambda v: v.reshape(2, 12)) if len(axes) == 2 else (lambda v: v)
        dim = 1 if len(axes) == 2 else axes[0]
        y = flat(leaf).softmax(dim).view(2, 3, 4)
        check(door, Case("SoftmaxV2", [x], [y.detach().to(dtype)], {"axes": axes, "half_to_float": False}))
        logs = flat(x.double()).log_softmax(dim).view(2, 3, 4)
        check(door, Case("LogSoftmaxV2", [x], [logs.to(dtype)], {"axes": axes}))
        kept, log_kept = y.detach().to(dtype), logs.to(dtype)
        up, out = dy.double(), kept.double()
        want = (up - (up * out).sum(axes, True)) * out
        check(door, Case("SoftmaxGrad", [kept, dy], [want.to(dtype)], {"axes": axes}))
        log_want = up - log_kept.double().exp() * up.sum(axes, True)
        check(door, Case("LogSoftmaxGrad", [dy, log_kept], [log_want.to(dtype)], {"axis": axes}))


# --- shapes ---

X = torch.arange(24.0).view(2, 3, 4)
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
    slice_case("StridedSlice", X, [9, -1], [0, -9], [-1, -2], X.flip(0).flip(1)[:, ::2].clone(), begin_mask=1, end_mask=1),
    slice_case("StridedSlice", X, [0, -1], [0, 0], [1, 1], X[..., -1].clone(), ellipsis_mask=1, shrink_axis_mask=2),
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
    Case("StridedSliceD", [X], [X[1:].clone()], {"begin": [1], "end": [2], "strides": [1], **dict.fromkeys(MASKS, 0)}),
    Case("BroadcastToD", [X[:, :1]], [X[:, :1].expand(2, 3, 4).contiguous()], {"shape": [2, 3, 4]}),
    Case("ExpandD", [X[:, :1]], [X[:, :1].expand(2, 3, 4).contiguous()], {"shape": [3, 1]}),
    Case("Triu", [X], [X.triu(1)], {"diagonal": 1}),
    Case("Tril", [X], [X.tril(-1)], {"diagonal": -1}),
    Case("Trilu", [X, scalar(1)], [X.triu(1)], {"upper": 1}),
    Case("Pad", [X, torch.tensor([[0, 0], [1, 0], [0, 2]])], [F.pad(X, [0, 2, 1, 0])]),
    Case("PadV2", [X, ints(0, 0, 1, 0, 0, 2), scalar(5.0, F32)], [F.pad(X, [0, 2, 1, 0], value=5)]),
    Case("PadV3", [X, ints(0, 0, 1, 0, 0, 2), scalar(5.0, F32)], [F.pad(X, [0, 2, 1, 0], value=5)], {"mode": "constant"}),
    Case("PadV3", [X, ints(0, 0, -1, 0, 0, 2)], [F.pad(X, [0, 2, -1, 0])], {"mode": "constant"}),
    Case("PadV3", [X, ints(0, 0, 2, 1, 1, 3)], [F.pad(X, [1, 3, 2, 1], "reflect")], {"mode": "reflect"}),
    Case("PadV3", [X, ints(0, 1, 1, 0, 2, 3)], [F.pad(X, [1, 3, 1, 2], "replicate")], {"mode": "edge", "paddings_contiguous": False}),
    Case("PadV3", [X, ints(0, 0, 2, 1, 1, 3)], [F.pad(X, [1, 3, 2, 1], "circular")], {"mode": "circular"}),
    Case("MirrorPad", [X, ints(0, 0, 2, 1, 1, 3)], [F.pad(X, [1, 3, 2, 1], "reflect")], {"mode": "REFLECT"}),
    Case("MirrorPad", [ints(1, 2, 3), ints(2, 1)], [ints(2, 1, 1, 2, 3, 3)], {"mode": "SYMMETRIC"}),
]

# --- indices ---

I = ints(2, 0)  # noqa: E741
ROWS = torch.tensor([[0, 2], [1, 0]])
INDEXED = [
    Case("Gather", [X, torch.tensor([[1, 0]])], [X[torch.tensor([[1, 0]])]], {"validate_indices": True}),
    Case("GatherV2", [X, I, scalar(1)], [X[:, I]], {"batch_dims": 0, "negative_index_support": False}),
    Case("GatherV2", [X, ints(-1, dtype=I32), ints(-1)], [X[..., -1:].clone()], {"negative_index_support": True}),
    Case("GatherV2", [X, scalar(1), scalar(0)], [X[1]]),
    Case("GatherV2", [X, torch.tensor([[1], [2]]), scalar(1)], [torch.stack([X[0, 1:2], X[1, 2:3]])], {"batch_dims": 1}),
    Case("GatherV2D", [X, I], [X[:, I]], {"axis": 1}),
    Case("GatherNd", [X, torch.tensor([[1, 2], [0, 0]])], [X[[1, 0], [2, 0]]], {"negative_index_support": False}),
    Case("GatherElements", [X[0], ROWS], [X[0].gather(1, ROWS)], {"dim": 1}),
    Case("GatherD", [X[0], scalar(1), ROWS], [X[0].gather(1, ROWS)], {"dim": 1}),
    Case("IndexByTensor", [X, I], [X[:, I]], {"indices_mask": [0, 1]}),
    Case("IndexByTensor", [X, ints(1, 0), I], [X[ints(1, 0), :, I]], {"indices_mask": [1, 0, 1]}),
    Case("IndexByTensor", [X, X > 5], [X[X > 5]], {"indices_mask": [1]}),
    Case("Index", [X, ints(0, 1), ints(1, 1), I], [X[:, I]]),
    Case("ScatterNd", [torch.tensor([[1], [1], [0]]), torch.tensor([1.0, 2.0, 4.0]), ints(3)], [torch.tensor([4.0, 3.0, 0.0])]),
    Case("ScatterElements", [X[0], ROWS, -X[0]], [X[0].scatter(1, ROWS, -X[0])], {"axis": 1, "reduction": "none"}),
    Case("ScatterElements", [X[0], ROWS, X[1]], [X[0].scatter_add(1, ROWS, X[1])], {"axis": 1, "reduction": "add"}),
    Case("TensorScatterUpdate", [X[0], torch.tensor([[2]]), -X[:1, 0]], [torch.cat([X[0, :2], -X[:1, 0]])]),
    Case("TensorScatterAdd", [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)], [torch.tensor([1.0, 1.0, 3.0])]),
    Case("InplaceUpdate", [X[0], ints(1, dtype=I32), -X[:1, 0]], [torch.stack([X[0, 0], -X[0, 0], X[0, 2]])]),
    Case("InplaceAdd", [torch.ones(3), ints(1, 1), torch.ones(2)], [torch.tensor([1.0, 3.0, 1.0])]),
    Case("InplaceSub", [torch.ones(3), ints(0), torch.ones(1)], [torch.tensor([0.0, 1.0, 1.0])]),
    Case("MaskedScatter", [torch.zeros(4), ints(1, 0, 1, 0) > 0, X[0, 0]], [torch.tensor([0.0, 0.0, 1.0, 0.0])]),
    Case("OneHot", [I, scalar(3), scalar(5.0, F32), scalar(-1.0, F32)], [F.one_hot(I, 3) * 6.0 - 1], {"axis": -1}),
    Case("OneHot", [I, scalar(3), scalar(1, I32), scalar(0, I32)], [F.one_hot(I, 3).T.int().contiguous()], {"axis": 0}),
    Case("OneHotD", [I, scalar(5.0, F32), scalar(-1.0, F32)], [F.one_hot(I, 3) * 6.0 - 1], {"depth": 3, "axis": -1}),
    Case("TensorScatterSub", [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)], [torch.tensor([1.0, 1.0, -1.0])]),
    Case("IndexAdd", [torch.ones(3), ints(0, 0), torch.ones(2)], [torch.tensor([3.0, 1.0, 1.0])], {"axis": 0}),
    Case("IndexFill", [X[0], I, scalar(9.0, F32)], [X[0].index_fill(1, I, 9)], {"dim": 1}),
    Case("SearchSorted", [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 9.0])], [ints(1, 3)], {"dtype": 9, "right": False}),
    Case("SearchSorted", [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0])], [ints(2, dtype=I32)], {"dtype": 3, "right": True}),
    Case("Bincount", [ints(0, 2, 2, 9, dtype=I32), scalar(3, I32), torch.zeros(0)], [torch.tensor([1.0, 0.0, 2.0])]),
    Case("UnsortedSegmentSum", [X[0], ints(1, -1, 1), scalar(2)], [torch.stack([torch.zeros(4), X[0, 0] + X[0, 2]])]),
    Case("UnsortedSegmentSumD", [X[0], ints(1, 0, 1)], [torch.stack([X[0, 1], X[0, 0] + X[0, 2]])], {"num_segments": 2}),
    Case("EmbeddingDenseGrad", [X[0], ints(1, 0, 1)], [torch.stack([X[0, 1], X[0, 0] + X[0, 2]])], {"num_weights": 2, "padding_idx": -1, "scale_grad_by_freq": False}),
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


@pytest.mark.parametrize("case", SHAPED + INDEXED + MADE, ids=str)
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
    check(door, Case("PadV3Grad", [dy, ints(0, 0, 0, 0, 2, 1)], [x.grad], {"mode": "reflect", "paddings_contiguous": True}))


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


# --- state: the input is written, and is the output ---


def written(door, name, inputs, attributes):
    device = [None if x is None else x.npu() for x in inputs]
    assert door(name, device, [device[0]], [attribute(*pair) for pair in attributes.items()]) == 0, door.message()
    return device[0].cpu()


LOCK = {"use_locking": False}
STATE = [
    ("Assign", [torch.zeros(3), torch.ones(3)], {"validate_shape": True, **LOCK}, torch.ones(3)),
    ("AssignAdd", [torch.ones(3), torch.ones(3)], LOCK, torch.full((3,), 2.0)),
    ("AssignSub", [torch.ones(3), torch.ones(3)], LOCK, torch.zeros(3)),
    ("ScatterUpdate", [X[0], ints(2, 0), -X[0, :2]], LOCK, torch.stack([-X[0, 1], X[0, 1], -X[0, 0]])),
    ("ScatterAdd", [torch.ones(3), ints(1, 1), torch.ones(2)], LOCK, torch.tensor([1.0, 3.0, 1.0])),
    ("ScatterSub", [torch.ones(3), ints(1, 1), torch.ones(2)], LOCK, torch.tensor([1.0, -1.0, 1.0])),
    ("ScatterNdSub", [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)], LOCK, torch.tensor([1.0, 1.0, -1.0])),
    ("ScatterMul", [torch.full((3,), 6.0), ints(1, 1), torch.tensor([2.0, 3.0])], LOCK, torch.tensor([6.0, 36.0, 6.0])),
    ("ScatterDiv", [torch.full((3,), 6.0), ints(1, 1), torch.tensor([2.0, 3.0])], LOCK, torch.tensor([6.0, 1.0, 6.0])),
    ("ScatterMax", [torch.ones(3), ints(1), torch.tensor([5.0])], LOCK, torch.tensor([1.0, 5.0, 1.0])),
    ("ScatterMin", [torch.ones(3), ints(1), torch.tensor([-5.0])], LOCK, torch.tensor([1.0, -5.0, 1.0])),
    ("ScatterNdUpdate", [X[0], torch.tensor([[2]]), -X[:1, 0]], LOCK, torch.cat([X[0, :2], -X[:1, 0]])),
    ("ScatterNdAdd", [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)], LOCK, torch.tensor([1.0, 1.0, 3.0])),
    ("InplaceIndexAdd", [torch.ones(3), ints(0, 0), torch.ones(2), scalar(2.0, F32)], {"axis": 0}, torch.tensor([5.0, 1.0, 1.0])),
    ("IndexPutV2", [X[0], scalar(9.0, F32), ints(0, 1), ints(1, 1), I], {"accumulate": False}, X[0].index_fill(1, I, 9)),
    ("FillV2", [torch.zeros(2), scalar(3.0, F32)], {}, torch.full((2,), 3.0)),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "want"), STATE)
def test_variables_are_written_in_place(door, name, inputs, attributes, want):
    equal(written(door, name, inputs, attributes), want)


def test_an_output_apart_from_the_variable_gets_the_value_too(door):
    var, out = torch.ones(3).npu(), torch.zeros(3).npu()
    assert door("AssignAdd", [var, torch.ones(3).npu()], [out], [("Bool", "use_locking", 0)]) == 0
    assert var.cpu().tolist() == out.cpu().tolist() == [2.0, 2.0, 2.0]


def test_a_cache_takes_one_token_per_sequence(door):
    cache, token = torch.zeros(2, 1, 4, 3), torch.randn(2, 1, 1, 3)
    want = cache.clone()
    want[0, :, 2:3], want[1, :, 0:1] = token[0], token[1]
    equal(written(door, "Scatter", [cache, ints(2, 0), token], {"reduce": "update", "axis": -2}), want)
    entries = [entry.npu() for entry in cache]
    by = [attribute("reduce", "update"), attribute("axis", -2)]
    assert door("ScatterList", [*entries, ints(2, 0).npu(), token.npu(), None], entries, by) == 0
    equal(torch.stack([entry.cpu() for entry in entries]), want)


@pytest.mark.parametrize("name", ["ApplyAdam", "ApplyAdamD", "ApplyAdamW"])
def test_a_step_of_an_optimizer(door, name):
    var, grad = torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    weight = var.clone().requires_grad_()
    decay = 0.1 if name == "ApplyAdamW" else 0.0
    optimizer = torch.optim.AdamW([weight], 0.01, (0.9, 0.99), 1e-12, decay)
    for _ in range(2):
        before = [weight.detach().clone()]
        before += [optimizer.state[weight].get(k, torch.zeros(5)).clone() for k in ("exp_avg", "exp_avg_sq")]
        weight.grad = grad.clone()
        optimizer.step()
    state = optimizer.state[weight]
    wanted = [weight.detach(), state["exp_avg"], state["exp_avg_sq"]]
    steps = 1 if name == "ApplyAdamW" else 2  # AdamW takes the powers of the step before
    numbers = [0.9**steps, 0.99**steps, 0.01, *([decay] if decay else []), 0.9, 0.99, 1e-12]
    device = [t.float().npu() for t in before]
    inputs = [*device, *(torch.tensor(v).npu() for v in numbers), grad.float().npu()]
    options = {"amsgrad": False, "maximize": False} if decay else {"use_locking": False, "use_nesterov": False}
    outputs = device if name != "ApplyAdam" else device[:1]
    pairs = [attribute(*pair) for pair in options.items()]
    assert door(name, inputs, outputs, pairs) == 0, door.message()
    for got, want in zip(device, wanted, strict=True):
        equal(got.cpu(), want.float())


# --- products ---


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("flip", [(False, False), (True, False), (False, True), (True, True)])
def test_matrix_products(door, dtype, flip):
    a, b, bias = sample((3, 5), -1, 1, dtype), sample((5, 4), -1, 1, dtype), sample((4,), -1, 1, dtype)
    want = a.double() @ b.double()
    left, right = (x.t().contiguous() if f else x for x, f in zip((a, b), flip, strict=True))
    limit = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype)
    plain = {"transpose_x1": flip[0], "transpose_x2": flip[1]}
    for name, extra in (("MatMul", {}), ("MatMulV2", {"offset_x": 0}), ("MatMulV3", {"offset_x": 0, "opImplMode": 1})):
        check(door, Case(name, [left, right], [want.to(dtype)], {**plain, **extra}, limit))
        check(door, Case(name, [left, right, bias], [(want + bias.double()).to(dtype)], {**plain, **extra}, limit))
    batch = {"adj_x1": flip[0], "adj_x2": flip[1]}
    many = [x.expand(2, *x.shape).contiguous() for x in (left, right)]
    out = want.to(dtype).expand(2, 3, 4).contiguous()
    for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        check(door, Case(name, many, [out], batch, limit))
        check(door, Case(name, [many[0], right], [out], batch, limit))
    relu = (want + bias.double()).relu().to(dtype)
    check(door, Case("FusedMatMul", [left, right, bias], [relu], {**plain, "fused_op_type": "relu"}, limit))


def test_products_by_equation_and_by_batches(door):
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    check(door, Case("Einsum", [a, b], [torch.einsum("bij,bjk->bki", a, b)], {"equation": "bij,bjk->bki", "N": 2}))
    options = {"perm_x1": [0, 1, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2], "batch_split_factor": 1}
    check(door, Case("TransposeBatchMatMul", [a, b], [(a @ b).transpose(0, 1).contiguous()], options))


def test_linear_systems(door):
    a = torch.randn(4, 4, dtype=torch.float64)
    square = (a @ a.t() + 4 * torch.eye(4, dtype=torch.float64)).float()
    rhs, lower = torch.randn(4, 2), square.tril()
    check(door, Case("MatrixInverse", [square], [square.double().inverse().float()], {"adjoint": False}))
    check(door, Case("Cholesky", [square], [torch.linalg.cholesky(square)]))
    solve = torch.linalg.solve_triangular
    options = {"lower": True, "adjoint": False}
    check(door, Case("MatrixTriangularSolve", [lower, rhs], [solve(lower, rhs, upper=False)], options))
    options["adjoint"] = True
    check(door, Case("MatrixTriangularSolve", [lower, rhs], [solve(lower.t(), rhs, upper=True)], options))


# --- random numbers: distributions, and the same for the same seed ---


def drawn(door, name, inputs, attributes, count=20000, dtype=F32):
    out = torch.zeros(count, dtype=dtype, device="npu")
    assert call(door, name, [ints(count), *inputs], [out], attributes) == 0, door.message()
    return out.cpu()


def test_uniform_and_normal_numbers(door):
    key, first, second = (torch.tensor(v, dtype=I64).to(torch.uint64) for v in ([7], [0, 1], [0, 2]))
    alg = scalar(1, I32)
    uniform = drawn(door, "StatelessRandomUniformV2", [key, first, alg], {"dtype": 0})
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    assert torch.equal(uniform, drawn(door, "StatelessRandomUniformV2", [key, first, alg], {"dtype": 0}))
    assert not torch.equal(uniform, drawn(door, "StatelessRandomUniformV2", [key, second, alg], {"dtype": 0}))
    normal = drawn(door, "StatelessRandomNormalV2", [key, first, alg], {"dtype": 0})
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03
    seeds = {"dtype": 0, "seed": 3, "seed2": 4}
    assert torch.equal(drawn(door, "RandomUniform", [], seeds), drawn(door, "RandomUniform", [], seeds))
    unseeded = {"dtype": 0, "seed": 0, "seed2": 0}
    again = [drawn(door, "RandomStandardNormal", [], unseeded) for _ in range(2)]
    assert not torch.equal(*again) and abs(again[0].std() - 1) < 0.03


def test_flags_and_permutations(door):
    flags = drawn(door, "StatelessBernoulli", [scalar(0.25, F32), scalar(5), scalar(0)], {"dtype": 0})
    assert abs(flags.mean() - 0.25) < 0.02 and set(flags.tolist()) == {0.0, 1.0}
    order = torch.zeros(100, dtype=I64, device="npu")
    assert call(door, "StatelessRandperm", [scalar(100), scalar(1), scalar(2)], [order], {"layout": 0, "dtype": 9}) == 0
    assert order.cpu().sort().values.tolist() == list(range(100))


def test_bias_by_channel(door):
    x, bias = torch.randn(2, 3, 4, 5), torch.randn(3)
    check(door, Case("BiasAdd", [x, bias], [x + bias.view(1, 3, 1, 1)], {"data_format": "NCHW"}))
    check(door, Case("BiasAdd", [x, torch.ones(5)], [x + 1], {"data_format": "NHWC"}))
    check(door, Case("BiasAddGrad", [x], [x.double().sum((0, 2, 3)).float()], {"data_format": "NCHW"}))
    check(door, Case("BiasAddGrad", [x], [x.double().sum((0, 1, 2)).float()], {"data_format": "NHWC"}))


REFUSED = [
    ("Exp", [X], [X], {"base": -2.0}, "base is -2"),
    ("GatherV2", [X, ints(7), scalar(0)], [X[:1]], {}, "index 7 is out of bounds for dimension 0 with size 2"),
    ("TopKV2", [X, scalar(9)], [X, X.long()], {}, "k is 9, dimension 2 has size 4"),
    ("PadV3", [X, ints(0, 0, 3, 0, 0, 0)], [torch.zeros(2, 6, 4)], {"mode": "reflect"}, "by at most 2"),
    ("Split", [scalar(1), X], [X[:, :1], X[:, :1]], {"num_split": 2}, "it does not divide the 3"),
    ("ScatterElements", [X[0], ROWS, X[0]], [X[0]], {"reduction": "most"}, "reduction is most"),
    ("MaskedFill", [X, X > 1, torch.ones(2)], [X], {}, "value must have one element"),
]


@pytest.mark.parametrize(("name", "inputs", "outputs", "attributes", "sentence"), REFUSED)
def test_what_has_no_meaning_is_refused_by_a_sentence(
    door, name, inputs, outputs, attributes, sentence
):
    assert call(door, name, inputs, [blank(out) for out in outputs], attributes, version=2) != 0
    assert sentence in door.message()
