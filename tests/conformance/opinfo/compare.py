"""Decides whether what the NPU returned is what the CPU returned: structure, dtype, shape and value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo, OpInfo

#: Double-precision types, and what torch_npu computes in their place (it warns "Device do not support
#: double dtype now").
NARROWED = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@dataclass(frozen=True)
class Difference:
    """One way in which two results differ; `kind` is structure, dtype, shape, value or narrowed (float32
    where double was due).
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Tolerance:
    """Absolute and relative tolerance, as torch.testing.assert_close has them; None means its default for
    the dtype.
    """

    absolute: float | None = None
    relative: float | None = None


def tolerance_of(op: OpInfo, dtype: torch.dtype) -> Tolerance:
    """The widest tolerance that the OpInfo record itself asks for on the CPU in its consistency tests, or
    assert_close's default.
    """
    absolute, relative = 0.0, 0.0
    for entry in op.decorators:
        if not isinstance(entry, DecorateInfo) or entry.device_type not in (None, "cpu"):
            continue
        if entry.dtypes is not None and dtype not in entry.dtypes:
            continue
        for decorator in entry.decorators:
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                absolute = max(absolute, decorator.d[dtype].atol)
                relative = max(relative, decorator.d[dtype].rtol)
    if not absolute and not relative:
        return Tolerance()
    default_relative, default_absolute = torch.testing._comparison.default_tolerances(dtype)
    return Tolerance(max(absolute, default_absolute), max(relative, default_relative))


def differences(
    expected: Any, actual: Any, tolerance: Tolerance, precise: Any = None, path: str = "result"
) -> list[Difference]:
    """Every difference between two results (tensors, numbers, None, sequences and dictionaries of them).

    `precise`, if given, is the result in double precision: where the plain comparison fails, it decides.
    """
    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, torch.Tensor):
            return [Difference("structure", f"{path} is a {type(actual).__name__}, not a tensor")]
        return _tensor_differences(expected, actual, tolerance, precise, path)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or expected.keys() != actual.keys():
            return [Difference("structure", f"{path}: the keys differ")]
        keys = list(expected)
        path, expected, actual = f"{path}.values", [expected[k] for k in keys], [actual[k] for k in keys]
        precise = [precise[k] for k in keys] if precise is not None else None
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        if not isinstance(actual, Sequence) or len(expected) != len(actual):
            return [Difference("structure", f"{path}: {len(expected)} parts expected, got {actual!r:.80}")]
        references = precise if isinstance(precise, Sequence) else [None] * len(expected)
        parts = zip(expected, actual, references, range(len(expected)), strict=True)
        return [d for e, a, p, i in parts for d in differences(e, a, tolerance, p, f"{path}[{i}]")]
    if isinstance(expected, torch.device):
        return []
    if isinstance(expected, float | complex) and type(expected) is type(actual):
        dtype = torch.float32 if isinstance(expected, float) else torch.complex64
        pair = torch.tensor(expected, dtype=dtype), torch.tensor(actual, dtype=dtype)
        return _tensor_differences(*pair, tolerance, None, path)
    if type(expected) is not type(actual) or expected != actual:
        return [Difference("value", f"{path} is {actual!r:.80}, expected {expected!r:.80}")]
    return []


def _tensor_differences(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: Tolerance, precise: Any, path: str
) -> list[Difference]:
    if expected.shape != actual.shape:
        text = f"{path} has shape {list(actual.shape)}, expected {list(expected.shape)}"
        return [Difference("shape", text)]
    if expected.layout != actual.layout:
        return [Difference("structure", f"{path} has layout {actual.layout}, expected {expected.layout}")]
    found: list[Difference] = []
    actual = actual.detach().cpu().resolve_conj().resolve_neg()
    expected = expected.detach().resolve_conj().resolve_neg()
    if expected.dtype != actual.dtype:
        kind = "narrowed" if NARROWED.get(expected.dtype) == actual.dtype else "dtype"
        found.append(Difference(kind, f"{path} has dtype {actual.dtype}, expected {expected.dtype}"))
        narrower = min(
            expected, actual, key=lambda t: t.element_size()
        ).dtype  # the values still have to agree
        expected, actual = expected.to(narrower), actual.to(narrower)
    options: dict[str, float] = {}
    if tolerance.relative is not None and (expected.is_floating_point() or expected.is_complex()):
        options = {"rtol": tolerance.relative, "atol": tolerance.absolute or 0.0}
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=False, **options)
    except AssertionError as error:
        if isinstance(precise, torch.Tensor) and as_accurate_as_the_cpu(expected, actual, precise.detach()):
            return found
        text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        found.append(Difference("value", f"{path}: {text[:300]}"))
    return found


def as_accurate_as_the_cpu(expected: torch.Tensor, actual: torch.Tensor, precise: torch.Tensor) -> bool:
    """True if `actual` is as near to a double-precision reference as the CPU's own result is.

    Asked only after the plain comparison failed: sums and products in low precision may differ by the order
    of summation, and then the CPU's result is no better a judge than the NPU's. Allowed per element: four
    units in the last place of the reference, plus twice the CPU's largest error, which itself counts up to
    32 units of the largest value only. Integers have no such leeway.
    """
    if precise.shape != expected.shape or not (expected.is_floating_point() or expected.is_complex()):
        return False
    unit = torch.finfo(expected.dtype).eps
    wide = torch.complex128 if expected.is_complex() else torch.float64
    e, a, p = expected.to(wide), actual.to(wide), precise.to(wide)
    differ = ~((a == e) | ((a != a) & (e != e)))
    e, a, p = e[differ], a[differ], p[differ]
    if not bool(torch.isfinite(p).all() and torch.isfinite(a).all()):
        return False
    cpu_error = (e - p).abs().nan_to_num(0.0, 0.0, 0.0).max().clamp(max=32 * unit * p.abs().max())
    return bool(((a - p).abs() <= 2 * cpu_error + 4 * unit * p.abs()).all())
