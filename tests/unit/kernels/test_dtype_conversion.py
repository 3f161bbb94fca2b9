"""Copies and casts between every pair of dtypes, with strides and offsets on both sides."""

import itertools

import pytest
import torch

DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
    torch.int64, torch.bool, torch.complex64,
]  # fmt: skip
PAIRS = [
    pytest.param(*pair, id=f"{pair[0]}-{pair[1]}".replace("torch.", ""))
    for pair in itertools.product(DTYPES, DTYPES)
]


def values(dtype):
    """Numbers that every dtype of the list holds."""
    return torch.tensor([[0, 1, 2, 100], [3, 0, 77, 1], [5, 6, 7, 127]]).to(dtype)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_to(source, target):
    x = values(source)
    torch.testing.assert_close(x.npu().to(target).cpu(), x.to(target), rtol=0, atol=0)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_copy_between_strided_views(source, target):
    x = values(source)
    expected = torch.full((5, 9), 1).to(target)
    actual = expected.npu()
    expected[1:5, 2::2][:, :3].copy_(x.t())
    actual[1:5, 2::2][:, :3].copy_(x.npu().t())
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_broadcasts(dtype):
    row = values(dtype)[0]
    target = torch.zeros(3, 4, dtype=dtype).npu()
    target.copy_(row.npu())
    torch.testing.assert_close(target.cpu(), row.expand(3, 4), rtol=0, atol=0)


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16], ids=str)
def test_narrowing_rounds_to_even_and_keeps_what_is_not_finite(narrow):
    ties = [1 + 2**-9, 1 + 3 * 2**-9, 1 + 2**-12]
    x = torch.tensor([*ties, 65519.0, 1e38, -1e-8, -0.0, float("inf"), float("nan")])
    torch.testing.assert_close(x.npu().to(narrow).cpu(), x.to(narrow), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fills(dtype):
    x = torch.empty(4, 6, dtype=dtype).npu()
    for expected, fill in [
        (0, x.zero_),
        (1, lambda: x.fill_(1)),
        (1, lambda: x.fill_(torch.tensor(1).npu())),
    ]:
        fill()
        torch.testing.assert_close(x.cpu(), torch.full((4, 6), expected).to(dtype), rtol=0, atol=0)
    x.zero_()
    x[1:3, ::2].fill_(1)
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] = 1
    torch.testing.assert_close(x.cpu(), expected.to(dtype), rtol=0, atol=0)
