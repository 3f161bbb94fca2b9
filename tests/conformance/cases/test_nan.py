"""Every scan and reduction propagates NaN: in f32, bf16 and f16, for any position and length (case
cummax-nan).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
#: Around powers of two and above any tile that fits a cache.
LENGTHS = (1, 5, 64, 1000, 4099, 100_003)
NAN = float("nan")


def _values(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Ones and minus ones, whose sums and products are exact in every dtype (as far as a sum stays small)."""
    signs = torch.tensor(np.random.default_rng(length).integers(0, 2, length) * 2 - 1)
    return signs.to(dtype)


def _with_nan(length: int, position: int, dtype: torch.dtype) -> torch.Tensor:
    values = _values(length, dtype)
    values[position] = NAN
    return values


def _positions(length: int) -> list[int]:
    return sorted({0, length // 2, length - 1})


def test_the_case_itself(npu: torch.device) -> None:
    x = torch.tensor([1.0, 3.0, NAN, 5.0, 4.0], device=npu)
    largest, smallest = torch.cummax(x, 0), torch.cummin(x, 0)
    np.testing.assert_array_equal(largest.values.cpu(), [1.0, 3.0, NAN, NAN, NAN])
    np.testing.assert_array_equal(smallest.values.cpu(), [1.0, 1.0, NAN, NAN, NAN])
    np.testing.assert_array_equal(largest.indices.cpu(), [0, 1, 2, 2, 2])
    np.testing.assert_array_equal(smallest.indices.cpu(), [0, 0, 2, 2, 2])


SCANS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "cummax": (lambda x: torch.cummax(x, 0).values, np.maximum.accumulate),
    "cummin": (lambda x: torch.cummin(x, 0).values, np.minimum.accumulate),
    "cumsum": (lambda x: torch.cumsum(x, 0), np.cumsum),
    "cumprod": (lambda x: torch.cumprod(x, 0), np.cumprod),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 0), np.logaddexp.accumulate),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_scans(npu: torch.device, name: str, dtype: torch.dtype) -> None:
    on_npu, in_numpy = SCANS[name]
    for length in LENGTHS:
        for position in _positions(length):
            x = _with_nan(length, position, dtype)
            expected = in_numpy(x.to(torch.float64).numpy())
            actual = on_npu(x.to(npu)).cpu()
            assert actual.dtype == dtype
            if name == "logcumsumexp":
                torch.testing.assert_close(
                    actual.double(), torch.from_numpy(expected), rtol=2e-2, atol=1e-2, equal_nan=True
                )
            elif name == "cumsum" and dtype != torch.float32:  # a running sum beyond 256 is not exact in bf16
                np.testing.assert_array_equal(actual.isnan(), np.isnan(expected), f"{length}, {position}")
                few = slice(0, 64)
                np.testing.assert_array_equal(actual[few].double(), expected[few], f"{length}, {position}")
            else:
                np.testing.assert_array_equal(
                    actual.double(), expected, f"length {length}, NaN at {position}"
                )


@pytest.mark.parametrize("name", ["cummax", "cummin", "cumsum", "cumprod"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scans_along_any_axis(npu: torch.device, name: str, dim: int) -> None:
    x = _values(6 * 37 * 5, torch.float32).reshape(6, 37, 5)
    x[2, 17, 3] = NAN
    in_numpy = {
        "cummax": np.maximum.accumulate,
        "cummin": np.minimum.accumulate,
        "cumsum": np.cumsum,
        "cumprod": np.cumprod,
    }
    result = getattr(torch, name)(x.to(npu), dim)
    values = result if isinstance(result, torch.Tensor) else result.values
    np.testing.assert_array_equal(values.cpu(), in_numpy[name](x.numpy(), axis=dim))


REDUCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: x.sum(),
    "sum of a row": lambda x: x.reshape(1, -1).sum(1),
    "mean": lambda x: x.mean(),
    "prod": lambda x: x.prod(),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: x.amax(0),
    "amin": lambda x: x.amin(0),
    "aminmax": lambda x: torch.stack(torch.aminmax(x)),
    "max along an axis": lambda x: x.max(0).values,
    "min along an axis": lambda x: x.min(0).values,
    "norm": lambda x: torch.linalg.vector_norm(x),
    "infinity norm": lambda x: torch.linalg.vector_norm(x, float("inf")),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "softmax": lambda x: torch.softmax(x, 0).sum(),
    "dot": lambda x: torch.dot(x, x),
    "median": lambda x: x.median(),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(npu: torch.device, name: str, dtype: torch.dtype) -> None:
    for length in LENGTHS:
        for position in _positions(length):
            actual = REDUCTIONS[name](_with_nan(length, position, dtype).to(npu)).cpu()
            assert bool(actual.isnan().all()), f"length {length}, NaN at {position}: {actual}"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_positions_and_orders_with_nan(npu: torch.device, dtype: torch.dtype) -> None:
    for length in LENGTHS[1:]:
        position = length // 2
        x = _with_nan(length, position, dtype).to(npu)
        assert x.argmax().item() == position and x.argmin().item() == position
        assert x.max(0).indices.item() == position and x.min(0).indices.item() == position
        rising = torch.sort(x).values.cpu()  # NaN counts as the largest
        assert bool(rising[-1].isnan()) and not bool(rising[:-1].isnan().any())
        assert bool((rising[1:-1] >= rising[:-2]).all())
        assert bool(torch.topk(x, 2).values.cpu().isnan().tolist() == [True, False])
        assert x.nansum().isfinite().item()


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_larger_and_smaller_of_two(npu: torch.device, name: str) -> None:
    a = torch.tensor([1.0, NAN, 3.0, NAN, -0.0, float("inf")])
    b = torch.tensor([NAN, 2.0, 1.0, NAN, 0.0, NAN])
    actual = getattr(torch, name)(a.to(npu), b.to(npu)).cpu()
    np.testing.assert_array_equal(actual, getattr(np, name)(a.numpy(), b.numpy()))


@pytest.mark.parametrize(
    "function",
    [torch.relu, torch.nn.functional.relu6, lambda x: x.clamp(0, 1), lambda x: x.clamp_min(0), torch.sign],
    ids=["relu", "relu6", "clamp", "clamp_min", "sign"],
)
def test_clamping_keeps_nan(npu: torch.device, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.tensor([NAN, -1.0, 0.5])
    actual, expected = function(x.to(npu)).cpu(), function(x)
    np.testing.assert_array_equal(actual, expected)
