"""triangular_solve against NumPy in float64, over every way that StableHLO writes it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.unit.xla_npu.oracle import check, program, run_npu

ELEMENTS = {"f32": "float32", "f64": "float64", "complex<f32>": "complex64", "complex<f64>": "complex128"}
TOLERANCE = {"f32": 1e-4, "f64": 1e-10, "complex<f32>": 1e-4, "complex<f64>": 1e-10}
WAYS = list(
    itertools.product([True, False], [True, False], [True, False], ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
)


def text(a, b, left, lower, unit, operation):
    return program(
        f'%0 = "stablehlo.triangular_solve"(%a0, %a1) {{left_side = {str(left).lower()}, lower = {str(lower).lower()},'
        f" unit_diagonal = {str(unit).lower()}, transpose_a = #stablehlo<transpose {operation}>}}"
        f" : ({a}, {b}) -> {b}\nreturn %0 : {b}",
        [a, b],
        [b],
    )


def values(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize(
    "element, batch", [("f32", ()), ("f64", (2, 3)), ("complex<f32>", (2,)), ("complex<f64>", ())]
)
def test_every_way(element, batch):
    for left, lower, unit, operation in WAYS:
        a = values((*batch, 3, 3), ELEMENTS[element], 0) + 2 * np.eye(3, dtype=ELEMENTS[element])
        a[..., 0, 2] = a[..., 2, 0] = 0.5
        b = values((*batch, *((3, 2) if left else (2, 3))), ELEMENTS[element], 1)
        whole = a.astype(np.complex128)
        used = np.tril(whole) if lower else np.triu(whole)
        if unit:
            used = used - used * np.eye(3) + np.eye(3)
        a[..., *((0, 2) if lower else (2, 0))] = np.nan  # the other triangle is not read
        turned = used if operation == "NO_TRANSPOSE" else used.swapaxes(-1, -2)
        turned = turned.conj() if operation == "ADJOINT" else turned
        x = np.linalg.solve(turned, b) if left else b @ np.linalg.inv(turned)
        if np.dtype(ELEMENTS[element]).kind != "c":
            x = x.real
        dims = "".join(f"{n}x" for n in batch)
        types = (f"tensor<{dims}3x3x{element}>", f"tensor<{dims}{b.shape[-2]}x{b.shape[-1]}x{element}>")
        check(
            text(*types, left, lower, unit, operation),
            [a, b],
            rtol=TOLERANCE[element],
            atol=TOLERANCE[element],
            expected=[x.astype(ELEMENTS[element])],
        )


def test_singular_and_empty():
    t = "tensor<2x2xf32>"
    a = np.array([[0, 0], [1, 2]], np.float32)
    (x,) = run_npu(text(t, t, True, True, False, "NO_TRANSPOSE"), [a, np.ones((2, 2), np.float32)])
    assert np.isinf(x[0]).all() and not np.isfinite(x[1]).any()
    check(
        text(t, "tensor<2x0xf32>", True, True, False, "NO_TRANSPOSE"),
        [a, np.zeros((2, 0), np.float32)],
        expected=[np.zeros((2, 0), np.float32)],
    )
