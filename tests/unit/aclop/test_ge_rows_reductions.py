"""GE operators that reduce, order and scan, against torch in float64."""

import pytest
import torch

from .rows import (
    F32,
    FLOATS,
    I32,
    I64,
    Case,
    check,
    ints,
    sample,
    scalar,
)


def prod(x, dims, keep):
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.prod(dim, keep)
    return x


REDUCTIONS = {
    "ReduceSum": (lambda x, d, k: x.sum(d, k), (*FLOATS, I32, I64)),
    "ReduceMean": (lambda x, d, k: x.mean(d, k), FLOATS),
    "ReduceMax": (lambda x, d, k: x.amax(d, k), (*FLOATS, I32, I64)),
    "ReduceMin": (lambda x, d, k: x.amin(d, k), (*FLOATS, I32, I64)),
    "ReduceProd": (prod, (*FLOATS, I32)),
    "ReduceLogSumExp": (lambda x, d, k: x.logsumexp(d, k), FLOATS),
    "ReduceLogSum": (lambda x, d, k: x.sum(d, k).log(), FLOATS),
    "ReduceAll": (lambda x, d, k: x.all(d, k), (torch.bool,)),
    "ReduceAny": (lambda x, d, k: x.any(d, k), (torch.bool,)),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, t) for n, row in REDUCTIONS.items() for t in row[1]], ids=str
)
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
    check(
        door,
        Case(
            "ReduceSum", [x, none], [x.sum((0, 1), True)], {"noop_with_empty_axes": False, "keep_dims": True}
        ),
    )
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
        Case(
            "ReduceStdV2",
            [x],
            [wide.std(1, correction=0).to(dtype), mean.to(dtype)],
            {"dim": [1], "correction": 0},
        ),
    )
    var = [wide.var(1).to(dtype), mean.to(dtype)]
    check(
        door,
        Case("ReduceVar", [x], var, {"dim": [1], "correction": 1, "keepdim": False, "is_mean_out": True}),
    )
    about = wide.mean(1, True).expand(4, 5)
    options = {"dim": [1], "keepdim": False}
    want = wide.std(1).to(dtype)
    limit = 0.02 if dtype != F32 else None
    check(door, Case("ReduceStdWithMean", [x, about.to(dtype)], [want], {**options, "correction": 1}, limit))
    check(
        door,
        Case(
            "ReduceStdV2Update",
            [x, about.to(dtype)],
            [wide.var(1).to(dtype)],
            options,
            0.05 if limit else None,
        ),
    )
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
@pytest.mark.parametrize(
    ("name", "function", "empty"), [("Cumsum", torch.cumsum, 0), ("Cumprod", torch.cumprod, 1)]
)
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


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_running_logarithms(door, dtype):
    x = sample((2, 4), -2, 2, dtype)
    want = x.double().logcumsumexp(1).to(dtype)
    check(door, Case("CumulativeLogsumexp", [x, scalar(1)], [want], {"exclusive": False, "reverse": False}))
    back = x.double().flip(1).logcumsumexp(1).flip(1).to(dtype)
    check(door, Case("CumulativeLogsumexpD", [x], [back], {"axis": 1, "exclusive": False, "reverse": True}))


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
