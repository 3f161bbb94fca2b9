"""Scans longer than any internal tile, with lengths that are no multiple of one (case long-scan)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

LENGTHS = (16_384, 100_003)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_integers_are_exact_and_wrap_around(
    npu: torch.device, length: int, name: str, first: int, width: type[np.signedinteger]
) -> None:
    x: np.ndarray[Any, Any] = np.arange(first, first + length, dtype=np.int32)
    dtype = {np.int32: torch.int32, np.int64: torch.int64}[width]
    actual = getattr(torch, name)(torch.from_numpy(x).to(npu), 0, dtype=dtype).cpu()
    with np.errstate(over="ignore"):
        expected = getattr(np, name)(x, dtype=width)
    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_int32_gives_int64_unless_told_otherwise(npu: torch.device, name: str) -> None:
    x: np.ndarray[Any, Any] = np.arange(1, 100_004, dtype=np.int32)
    actual = getattr(torch, name)(torch.from_numpy(x).to(npu), 0).cpu()
    assert actual.dtype == torch.int64
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(actual, getattr(np, name)(x, dtype=np.int64))


def test_float32_sum_of_ones(npu: torch.device) -> None:
    n = 16_777_217  # 2^24 + 1: the first whole number that float32 does not hold
    actual = torch.cumsum(torch.ones(n, device=npu), 0).cpu().numpy()
    expected: np.ndarray[Any, Any] = np.arange(1, n + 1, dtype=np.float64)
    assert np.max(np.abs(actual - expected) / expected) <= 1e-6
    assert abs(torch.ones(n, device=npu).sum().item() - n) <= 1e-6 * n


@pytest.mark.parametrize("shape", [(3, 100_003), (100_003, 3), (7, 1025, 9)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_along_any_axis(npu: torch.device, shape: tuple[int, ...], dim: int) -> None:
    x = np.random.default_rng(0).integers(-9, 10, shape)
    actual = torch.cumsum(torch.from_numpy(x).to(npu), dim).cpu()
    np.testing.assert_array_equal(actual, np.cumsum(x, axis=dim))


@pytest.mark.parametrize("length", LENGTHS)
def test_running_largest_and_its_place(npu: torch.device, length: int) -> None:
    x = np.random.default_rng(1).integers(0, length, length)
    values, indices = torch.cummax(torch.from_numpy(x).to(npu), 0)
    np.testing.assert_array_equal(values.cpu(), np.maximum.accumulate(x))
    np.testing.assert_array_equal(x[indices.cpu().numpy()], np.maximum.accumulate(x))
