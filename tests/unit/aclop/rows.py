"""A GE operator called with tensors of the host: what the tables of test_ge_rows_*.py share."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .conftest import Door

#: One rounding of the result, and what float32 loses on the way.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
I32, I64, F32 = torch.int32, torch.int64, torch.float32
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0, 3), (7,), (2, 3, 4))


@dataclass
class Case:
    """One call: `expected` are the outputs, in their dtypes; an input that is None is left out."""

    type: str
    inputs: Sequence[torch.Tensor | None]
    expected: Sequence[torch.Tensor]
    attributes: dict[str, Any] = field(default_factory=dict)
    tolerance: float | None = None

    def __str__(self) -> str:
        attributes = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        shapes = "x".join("none" if x is None else str(tuple(x.shape)) for x in self.inputs)
        return f"{self.type}({attributes}){shapes}".replace(" ", "")


def attribute(name: str, value: Any) -> tuple:
    """The arguments of Door for one attribute, by the value's Python type."""
    match value:
        case bool():
            return ("Bool", name, int(value))
        case int():
            return ("Int", name, ctypes.c_int64(value))
        case float():
            return ("Float", name, value)
        case str():
            return ("String", name, value.encode())
        case [bool(), *_]:
            return ("ListBool", name, len(value), (ctypes.c_uint8 * len(value))(*value))
        case [float(), *_]:
            return ("ListFloat", name, len(value), (ctypes.c_float * len(value))(*value))
        case list():
            return ("ListInt", name, len(value), (ctypes.c_int64 * max(len(value), 1))(*value))
    raise TypeError(f"no kind of attribute for {value!r}")


def ints(*values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def scalar(value: float, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype)


def call(
    door: Door,
    name: str,
    inputs: Sequence[torch.Tensor | None],
    outputs: Sequence[torch.Tensor],
    attributes: dict[str, Any],
    version: int = 1,
) -> int:
    """Runs the operator on the device; `outputs` are tensors of the device."""
    device = [None if x is None else x.npu() for x in inputs]
    return door(name, device, outputs, [attribute(*pair) for pair in attributes.items()], version)


def blank(like: torch.Tensor) -> torch.Tensor:
    """Memory of the device that holds anything but the result."""
    if like.dtype == torch.bool:
        return torch.ones_like(like).npu()
    return torch.full(like.shape, 77, dtype=like.dtype).npu()


def check(door: Door, case: Case) -> None:
    """The outputs of a call are the expected ones."""
    outputs = [blank(want) for want in case.expected]
    assert call(door, case.type, case.inputs, outputs, case.attributes) == 0, door.message()
    torch.npu.synchronize()
    for number, (got, want) in enumerate(zip(outputs, case.expected, strict=True)):
        equal(got.cpu(), want, case.tolerance, f"output {number}")


def equal(got: torch.Tensor, want: torch.Tensor, tolerance: float | None = None, what: str = "") -> None:
    if want.is_floating_point() or want.is_complex():
        limit = TOLERANCE.get(want.dtype, 2e-5) if tolerance is None else tolerance
        wide = torch.complex128 if want.is_complex() else torch.float64
        torch.testing.assert_close(
            got.to(wide), want.to(wide), rtol=limit, atol=limit, equal_nan=True, msg=lambda m: f"{what}: {m}"
        )
    else:
        assert got.tolist() == want.tolist(), what


def sample(shape: Sequence[int], low: float, high: float, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(tuple(shape)) < 0.5
    values = torch.rand(tuple(shape), dtype=torch.float64) * (high - low) + low
    return values.to(dtype)


#: Operands of the tables.
X = torch.arange(24.0).view(2, 3, 4)
I = ints(2, 0)  # noqa: E741
ROWS = torch.tensor([[0, 2], [1, 0]])


def leaf(x: torch.Tensor) -> torch.Tensor:
    return x.double().detach().requires_grad_()


def grads(y: torch.Tensor, dy: torch.Tensor, *leaves: torch.Tensor) -> list[torch.Tensor]:
    """The gradients of `leaves` when dy arrives at y, in float32."""
    return [g.to(F32) for g in torch.autograd.grad(y, leaves, dy.double())]
