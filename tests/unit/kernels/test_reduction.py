"""Reductions and scans against float64: norms, widths of sums, lists of dimensions, places of extrema."""

import math

import pytest
import torch
import torch_npu  # noqa: F401

from . import aclnn

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def same(got, want, tolerance=1e-5):
    torch.testing.assert_close(
        got.cpu().double(), want.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [math.inf, -math.inf, 0, 1, 2, 3, 0.5, -1.5])
@pytest.mark.parametrize("dims", [None, (0,), (1, 2)])
def test_vector_norm_of_every_order(dtype, order, dims):
    torch.manual_seed(0)
    x = torch.randn(3, 40, 5).to(dtype)
    got = torch.linalg.vector_norm(x.npu(), order, dim=dims, keepdim=dims is not None)
    want = torch.linalg.vector_norm(x.double(), order, dim=dims, keepdim=dims is not None)
    same(got, want.to(dtype), 1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_is_summed_in_float(dtype):
    # Alone, bfloat16 would stop counting at 256 and half at 2048.
    x = torch.ones(4096, 3, dtype=dtype).npu()
    assert torch.equal(x.sum(0).cpu(), torch.full((3,), 4096.0).to(dtype))
    assert torch.equal(x.mean().cpu(), torch.tensor(1.0).to(dtype))
    assert torch.equal(torch.nansum(x, 0).cpu(), torch.full((3,), 4096.0).to(dtype))
    same(torch.logsumexp(torch.zeros(4096, dtype=dtype).npu(), 0), torch.tensor(math.log(4096)), 4e-3)
    factors = torch.full((256,), 1 + 2**-7, dtype=torch.bfloat16)
    same(torch.prod(factors.npu()), factors.double().prod(), 4e-3)


@pytest.mark.parametrize("correction", [0, 1, 3])
@pytest.mark.parametrize("dims", [None, (1,), (0, 2)])
def test_moments(correction, dims):
    torch.manual_seed(0)
    x = 100 + torch.randn(4, 7, 6)
    for function in (torch.var, torch.std):
        same(
            function(x.npu(), dims, correction=correction), function(x.double(), dims, correction=correction)
        )
    for function in (torch.var_mean, torch.std_mean):
        for got, want in zip(
            function(x.npu(), dims, correction=correction, keepdim=True),
            function(x.double(), dims, correction=correction, keepdim=True),
            strict=True,
        ):
            same(got, want)


def test_reductions_take_strided_operands_and_outputs():
    torch.manual_seed(0)
    x = torch.randn(6, 5, 4)
    strided = x.npu()[::2].transpose(0, 2)
    want = x[::2].transpose(0, 2)
    out = torch.empty(10, 3).npu()[::2]
    torch.sum(strided, 0, out=out)
    same(out, want.sum(0))
    torch.amax(strided, 0, out=out)
    same(out, want.amax(0))
    values, places = strided.max(1)
    same(values, want.max(1).values)
    assert torch.equal(places.cpu(), want.max(1).indices)
    same(x[:1, :1].npu().expand(3, 4, 4).sum((0, 1)), 12 * x[0, 0])


def test_reductions_without_elements():
    empty = torch.empty(3, 0)
    assert torch.equal(empty.npu().sum(1).cpu(), torch.zeros(3))
    assert torch.equal(empty.npu().prod(1).cpu(), torch.ones(3))
    assert empty.npu().mean(1).isnan().all().item()
    assert empty.npu().all().item() and not empty.npu().any().item()
    assert torch.empty(0, 3).npu().amax(1).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.uint8])
def test_truth_of_a_slice(dtype):
    x = torch.tensor([[[1, 0], [1, 1]], [[0, 0], [1, 1]]]).to(dtype)
    for dims in (0, (0, 2), (0, 1, 2)):
        assert torch.equal(torch.all(x.npu(), dims).cpu(), torch.all(x, dims))
        assert torch.equal(torch.any(x.npu(), dims).cpu(), torch.any(x, dims))


def test_integer_sums_wrap_and_widen():
    x = torch.tensor([2**31 - 1, 1], dtype=torch.int32)
    assert x.npu().sum().item() == 2**31
    assert x.npu().sum(dtype=torch.int32).item() == -(2**31)
    assert x.npu().prod().item() == 2**31 - 1


def test_an_empty_list_of_axes_is_everything_or_nothing():
    x = torch.arange(6.0).view(2, 3).npu()
    whole, nothing = torch.empty(1, 1).npu(), torch.empty(2, 3).npu()
    aclnn.call("MeanV2", x, (), True, False, whole)
    aclnn.call("MeanV2", x, (), True, True, nothing)
    assert whole.item() == 2.5 and torch.equal(nothing, x)
    aclnn.call("MaxV2", x, (), True, False, whole)
    assert whole.item() == 5
    aclnn.call("ReduceLogSum", x, (), True, False, whole)
    assert whole.item() == pytest.approx(math.log(15))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumsum_v2(exclusive, reverse):
    x = torch.tensor([[1.0, math.inf, 3.0], [4.0, 5.0, 6.0]])
    out = torch.empty(2, 3).npu()
    aclnn.call("CumsumV2", x.npu(), 1, exclusive, reverse, out)
    want = torch.empty(2, 3)
    for row in range(2):
        total = 0.0
        for column in reversed(range(3)) if reverse else range(3):
            want[row, column] = total if exclusive else total + x[row, column]
            total += float(x[row, column])
    same(out, want)


def test_cumulative_product_in_place_and_by_dtype():
    x = torch.tensor([[2, 3], [4, 5]], dtype=torch.int32).npu()
    assert torch.equal(torch.cumprod(x, 0).cpu(), torch.tensor([[2, 3], [8, 15]]))
    assert torch.cumprod(x, 0, dtype=torch.float32).dtype == torch.float32
    aclnn.call("InplaceCumprod", x, aclnn.Scalar(1))
    assert torch.equal(x.cpu(), torch.tensor([[2, 6], [4, 20]], dtype=torch.int32))


def test_order_statistics():
    x = torch.tensor([[3.0, math.nan, 1.0, 2.0], [5.0, 4.0, 8.0, 6.0]])
    for function in (torch.median, torch.nanmedian):
        values, places = function(x.npu(), 1)
        assert torch.equal(values.cpu(), function(x, 1).values) or values[0].isnan().item()
        assert torch.equal(places.cpu(), function(x, 1).indices)
    values, places = torch.kthvalue(x.npu(), 2, 1)
    assert values.cpu().tolist() == [2.0, 5.0] and places.cpu().tolist() == [3, 0]
    assert torch.argmax(x.npu(), 1).cpu().tolist() == [1, 2]


def test_counts():
    assert torch.bincount(torch.tensor([0, 2, 2, 5]).npu(), minlength=8).cpu().tolist() == [
        1,
        0,
        2,
        0,
        0,
        1,
        0,
        0,
    ]
    weights = torch.tensor([0.5, 1.0, 2.0])
    assert torch.bincount(torch.tensor([1, 0, 1]).npu(), weights.npu()).cpu().tolist() == [1.0, 2.5]
    x = torch.tensor([0.0, 0.5, 1.0, 2.0, 9.0])
    for dtype in DTYPES:
        assert torch.histc(x.to(dtype).npu(), 4, 0, 2).cpu().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf"), float("-inf"), 0.0])
@pytest.mark.parametrize("size", [1024, 3_000_017])
def test_norm_of_many_elements_is_as_exact_as_of_few(order: float, size: int) -> None:
    """One running float32 sum over millions is wrong in the fourth digit, and gradients are clipped by it."""
    x = torch.randn(size)
    expected = torch.linalg.vector_norm(x.double(), order)
    for actual in (torch.linalg.vector_norm(x.npu(), order), torch._foreach_norm([x.npu()], order)[0]):
        torch.testing.assert_close(actual.cpu().double(), expected, rtol=5e-7, atol=0)
