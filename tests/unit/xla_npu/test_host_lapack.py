"""The host's linear algebra against JAX on cpu (the same LAPACK behind XLA's calls) and against the definitions."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from jax import lax
from jax._src.lax.linalg import cholesky_p, geqp3, geqrf, ormqr
from jax.lax import linalg

from tests.unit.xla_npu import hosted

TYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-10, "complex128": 1e-10}


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def matrix(*shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def hermitian(*shape, dtype):
    a = matrix(*shape, dtype=dtype)
    return a + a.swapaxes(-1, -2).conj()


def same_as_cpu(function, *arguments, dtype="float32"):
    ours = hosted.run(function, *arguments)
    with jax.default_device(jax.devices("cpu")[0]):
        theirs = jax.tree.leaves(function(*arguments))
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, np.asarray(y), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


RECTANGLES = [
    ((4, 4), "float64"), ((5, 3), "float32"), ((3, 5), "complex128"), ((2, 1, 4, 2), "complex64"), ((1, 1), "float32"),
    ((0, 0), "float64"), ((3, 0), "complex64"), ((0, 3), "float32"), ((0, 2, 2), "float32"),
]  # fmt: skip
SQUARES = [((4, 4), "float32"), ((2, 3, 3), "complex64"), ((4, 4), "float64"), ((3, 3), "complex128"),
           ((1, 1), "float32"), ((0, 0), "float32"), ((2, 0, 0), "complex64")]  # fmt: skip


@pytest.mark.parametrize("shape, dtype", RECTANGLES)
def test_factorisations(shape, dtype):
    a = matrix(*shape, dtype=dtype)
    same_as_cpu(linalg.lu, a, dtype=dtype)
    for full in (True, False):
        same_as_cpu(partial(linalg.qr, full_matrices=full), a, dtype=dtype)
        same_as_cpu(partial(linalg.svd, full_matrices=full), a, dtype=dtype)
    same_as_cpu(partial(linalg.svd, compute_uv=False), a, dtype=dtype)
    if min(shape):
        same_as_cpu(partial(linalg.qr, pivoting=True), a, dtype=dtype)


@pytest.mark.parametrize("shape, dtype", SQUARES)
def test_square(shape, dtype):
    a = matrix(*shape, dtype=dtype)
    symmetric = hermitian(*shape, dtype=dtype)
    for lower in (True, False):
        same_as_cpu(partial(linalg.eigh, lower=lower, symmetrize_input=False), symmetric, dtype=dtype)
    same_as_cpu(linalg.schur, a, dtype=dtype)
    same_as_cpu(partial(linalg.eig, compute_left_eigenvectors=True), a, dtype=dtype)
    same_as_cpu(
        partial(linalg.eig, compute_left_eigenvectors=False, compute_right_eigenvectors=False), a, dtype=dtype
    )
    if shape[-1]:
        same_as_cpu(linalg.hessenberg, a, dtype=dtype)
        for lower in (True, False):
            same_as_cpu(partial(linalg.tridiagonal, lower=lower), symmetric, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_svd_by_the_other_driver(dtype):
    same_as_cpu(partial(linalg.svd, algorithm=linalg.SvdAlgorithm.QR), matrix(5, 3, dtype=dtype), dtype=dtype)


@pytest.mark.parametrize("shape, dtype", [((5, 3), "float32"), ((2, 4, 4), "complex128")])
def test_reflectors(shape, dtype):
    a = matrix(*shape, dtype=dtype)
    same_as_cpu(geqrf, a, dtype=dtype)
    raw, taus = hosted.run(geqrf, a)
    same_as_cpu(linalg.householder_product, raw, taus, dtype=dtype)
    c = matrix(*shape[:-2], shape[-2], 4, dtype=dtype, seed=1)
    for left in (True, False):
        for transpose in (True, False):
            operand = c if left else np.ascontiguousarray(c.swapaxes(-1, -2))
            same_as_cpu(partial(ormqr, left=left, transpose=transpose), raw, taus, operand, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("leading", [[0, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
@pytest.mark.parametrize("rows", [6, 4, 2])
def test_pivots_given(rows, leading, dtype):
    a, pivots = matrix(rows, 4, dtype=dtype), np.array(leading, np.int32)
    factored, order, taus = hosted.run(geqp3, a, pivots)
    assert sorted(order) == [1, 2, 3, 4]
    assert set(order[: sum(leading)] - 1) == set(np.flatnonzero(leading))
    q = np.asarray(
        linalg.householder_product(np.pad(factored, ((0, 0), (0, max(0, rows - 4))))[:, :rows], taus)
    )
    np.testing.assert_allclose(q @ np.triu(factored), a[:, order - 1], atol=TOLERANCE[dtype] * 10)
    if leading == [0, 1, 0, 1] and rows == 6:
        same_as_cpu(geqp3, a, pivots, dtype=dtype)


@pytest.mark.parametrize("batch, dtype", [((), "float32"), ((3,), "complex128")])
def test_tridiagonal_solve(batch, dtype):
    for n in (1, 2, 5):
        below, diagonal, above = (matrix(*batch, n, dtype=dtype, seed=s) for s in range(3))
        b = matrix(*batch, n, 2, dtype=dtype, seed=4)
        same_as_cpu(linalg.tridiagonal_solve, below, diagonal, above, b, dtype=dtype)


@TYPES
def test_singular_tridiagonal(dtype):
    below, diagonal, above = np.zeros((3, 4), dtype)
    diagonal[:2] = 2, -1
    b = matrix(4, 1, dtype=dtype)
    plain = hosted.run(linalg.tridiagonal_solve, below, diagonal, above, b)
    assert np.isnan(plain).all()
    (x,) = hosted.run(partial(linalg.tridiagonal_solve, perturb_singular=True), below, diagonal, above, b)
    np.testing.assert_allclose(x[:2], b[:2] / diagonal[:2, None], rtol=1e-5)
    assert np.isfinite(x).all()
    two = [np.array(row, dtype) for row in ([0, 1], [1, 3], [2, 0])]  # regular: pivots stay as they are
    (x,) = hosted.run(partial(linalg.tridiagonal_solve, perturb_singular=True), *two, b[:2])
    np.testing.assert_allclose(np.array([[1, 2], [1, 3]], dtype) @ x, b[:2], rtol=1e-4)


@TYPES
def test_cholesky(dtype):
    a = matrix(2, 4, 4, dtype=dtype)
    a = a @ a.swapaxes(-1, -2).conj() + np.eye(4, dtype=dtype)
    a[1] = -a[1]  # not positive definite: that matrix alone fails
    (ours,) = hosted.run(lambda x: cholesky_p.bind(x), a)
    np.testing.assert_allclose(ours[0] @ ours[0].conj().T, a[0], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert np.isnan(ours[1]).all() and not np.triu(ours[0], 1).any()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_what_fails_is_nan(dtype):
    a = matrix(2, 3, 3, dtype=dtype)
    a[0, 1, 1] = np.nan
    same_as_cpu(linalg.eig, a, dtype=dtype)
    for function in (linalg.svd, partial(linalg.eigh, symmetrize_input=False)):
        for result in hosted.run(function, a):
            assert np.isnan(result[0]).all() and not np.isnan(result[1]).any()


def test_pivots_to_permutation():
    pivots = np.array([[2, 2, 3], [0, 1, 2]], np.int32)
    (ours,) = hosted.run(partial(linalg.lu_pivots_to_permutation, permutation_size=5), pivots)
    np.testing.assert_array_equal(ours, [[2, 0, 3, 1, 4], [0, 1, 2, 3, 4]])


FFT = [("FFT", np.fft.fftn), ("IFFT", np.fft.ifftn), ("RFFT", np.fft.rfftn), ("IRFFT", np.fft.irfftn)]


@pytest.mark.parametrize("kind, reference", FFT)
@pytest.mark.parametrize(
    "shape, lengths",
    [((3, 8), (8,)), ((2, 5, 7), (5, 7)), ((4, 3, 6), (4, 3, 6)), ((0, 4), (4,)), ((3, 1), (1,))],
)
@pytest.mark.parametrize("bits", [32, 64])
def test_fft(kind, reference, shape, lengths, bits):
    complex_ = f"complex{2 * bits}"
    given = shape if kind != "IRFFT" else (*shape[:-1], shape[-1] // 2 + 1)
    x = matrix(*given, dtype=f"float{bits}" if kind == "RFFT" else complex_)
    (ours,) = hosted.run(lambda a: lax.fft(a, kind, lengths), x)
    axes = range(len(shape) - len(lengths), len(shape))
    tolerance = TOLERANCE[complex_]
    np.testing.assert_allclose(
        ours,
        reference(x.astype(np.result_type(x, np.float64)), lengths, axes),
        rtol=tolerance,
        atol=tolerance,
    )
