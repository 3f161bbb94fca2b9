"""Linear algebra over LAPACK: the routines that jaxlib itself takes from SciPy, so that results are those of JAX on cpu.

A routine works on one matrix of a batch; where LAPACK reports failure the results of that matrix are NaN, as JAX's own
lowerings for cpu define. xla_npu.linalg lowers JAX's primitives to custom calls `npu_lapack_<routine>`, whose
`backend_config` holds the routine's parameters as JSON.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from xla_npu.errors import Unsupported
from xla_npu.host import Array, Request, host_function, hosted

PREFIX = "npu_lapack_"
_Routine = Callable[..., Sequence[Array]]


class Failed(Exception):
    """LAPACK gave up on this matrix."""


def routine(name: str, rank: int = 2) -> Callable[[_Routine], _Routine]:
    """Registers a routine. `rank`: that of its first operand without the batch; all operands have the same batch."""

    def register(compute: _Routine) -> _Routine:
        target = PREFIX + name

        @hosted(f"custom_call:{target}")
        def request(op: Any) -> Request:
            return Request(target, str(op.attributes["backend_config"].value).encode())

        @host_function(target)
        def run(attributes: bytes, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
            parameters = json.loads(attributes or b"{}")
            batch = inputs[0].shape[: inputs[0].ndim - rank]
            for index in np.ndindex(batch):
                one = functools.partial(compute, *(x[index] for x in inputs), **parameters)
                _fill(outputs, index, one)

        return compute

    return register


def _fill(outputs: Sequence[Array], index: tuple[int, ...], compute: Callable[[], Sequence[Array]]) -> None:
    try:
        results = compute()
    except Failed:
        for output in outputs:
            output[index] = complex(np.nan, np.nan) if output.dtype.kind == "c" else np.nan
        return
    for output, result in zip(outputs, results, strict=True):
        output[index] = result


@functools.cache
def _routine_for(name: str, dtype: str) -> Any:
    """The LAPACK routine for the element type; o(r) and s(y) routines are called u(n) and h(e) for complex ones."""
    from scipy.linalg import lapack  # as late as this: most programs have no linear algebra

    if dtype in "FD":
        name = {"or": "un", "sy": "he"}.get(name[:2], name[:2]) + name[2:]
    return getattr(lapack, {"f": "s", "d": "d", "F": "c", "D": "z"}[dtype] + name)


def _call(name: str, a: Array, *more: Any, **options: Any) -> Any:
    """Calls a routine, returns its results without `info`. Raises Failed."""
    *results, info = _routine_for(name, a.dtype.char)(a, *more, **options)
    if info != 0:
        raise Failed
    return results


def _work(name: str, a: Array, *sizes: int, **options: Any) -> int:
    """The best size of the workspace, which LAPACK answers itself."""
    size, *_, info = _routine_for(f"{name}_lwork", a.dtype.char)(*sizes, **options)
    if info != 0:
        raise Failed
    return int(np.real(size))


def _worked(name: str, *operands: Any, **options: Any) -> Any:
    """As `_call`, of a routine that answers the size of its workspace itself; that is left out of the results."""
    function = _routine_for(name, operands[0].dtype.char)
    size = int(np.real(function(*operands, lwork=-1, **options)[-2][0]))
    *results, _, info = function(*operands, lwork=size, **options)
    if info != 0:
        raise Failed
    return results


@routine("cholesky")
def cholesky(a: Array, lower: bool = True) -> Sequence[Array]:
    """The other triangle is zero."""
    if a.size == 0:
        return (a,)
    return tuple(_call("potrf", a, lower=lower, clean=True))


@routine("lu")
def lu(a: Array) -> Sequence[Array]:
    """(m, n) -> the factors in one (m, n), the pivots of (min(m, n),) counted from 0, the permutation of (m,)."""
    permutation = np.arange(a.shape[0], dtype=np.int32)
    if a.size == 0:
        return a, np.zeros(min(a.shape), np.int32), permutation
    factors, pivots, info = _routine_for("getrf", a.dtype.char)(a)
    if info < 0:  # above zero: singular, which is no failure
        raise Failed
    return factors, pivots, _permuted(pivots, permutation)


@routine("lu_pivots_to_permutation", rank=1)
def lu_pivots_to_permutation(pivots: Array, size: int) -> Sequence[Array]:
    return (_permuted(pivots, np.arange(size, dtype=np.int32)),)


def _permuted(pivots: Array, rows: Array) -> Array:
    for row, other in enumerate(pivots):
        rows[row], rows[other] = rows[other], rows[row]
    return rows


@routine("geqrf")
def geqrf(a: Array) -> Sequence[Array]:
    """R above and on the diagonal, the reflectors below it, and their factors."""
    if a.size == 0:
        return a, np.zeros(min(a.shape), a.dtype)
    return tuple(_worked("geqrf", a))


@routine("geqp3")
def geqp3(a: Array, pivots: Array) -> Sequence[Array]:
    """As geqrf, with the columns' permutation, counted from 1, second. Columns whose pivot is not zero come first."""
    if a.size == 0:
        return a, np.arange(1, a.shape[1] + 1), np.zeros(min(a.shape), a.dtype)
    if pivots.any():
        return _leading(a, pivots)
    factored, order, taus = _worked("geqp3", a)
    return factored, order, taus


def _leading(a: Array, pivots: Array) -> Sequence[Array]:
    # SciPy's geqp3 always starts from zeros: factor the leading columns first, and only the rest with pivots.
    order = np.concatenate([np.flatnonzero(pivots), np.flatnonzero(pivots == 0)])
    count, taken = int(np.count_nonzero(pivots)), min(int(np.count_nonzero(pivots)), a.shape[0])
    whole = np.array(a[:, order], order="F")
    whole[:, :count], taus = geqrf(whole[:, :count])
    if count < a.shape[1]:
        adjoint = "T" if a.dtype.char in "fd" else "C"
        whole[:, count:] = ormqr_raw(whole[:, :taken], taus, whole[:, count:], "L", adjoint)
        rest, order_of_rest, more = geqp3(whole[taken:, count:], np.zeros(a.shape[1] - count))
        order[count:] = order[count:][order_of_rest - 1]
        whole[:taken, count:] = whole[:taken, count:][:, order_of_rest - 1]
        whole[taken:, count:], taus = rest, np.concatenate([taus, more])
    return whole, order + 1, taus


@routine("householder_product")
def householder_product(a: Array, taus: Array) -> Sequence[Array]:
    """The first columns of the product of the reflectors that geqrf gives."""
    if a.size == 0:
        return (a,)
    if taus.size == 0:
        return (np.eye(*a.shape, dtype=a.dtype),)
    return tuple(_worked("orgqr", a, taus))


@routine("ormqr")
def ormqr(a: Array, taus: Array, c: Array, left: bool, transpose: bool) -> Sequence[Array]:
    """Q c, Q^H c, c Q or c Q^H, Q given by reflectors."""
    if c.size == 0 or taus.size == 0:
        return (c,)
    adjoint = "T" if a.dtype.char in "fd" else "C"
    return (ormqr_raw(a[:, : taus.size], taus, c, "L" if left else "R", adjoint if transpose else "N"),)


def ormqr_raw(a: Array, taus: Array, c: Array, side: str, adjoint: str) -> Array:
    """LAPACK's ormqr. Raises Failed."""
    function = _routine_for("ormqr", a.dtype.char)
    size = int(np.real(function(side, adjoint, a, taus, c, -1)[1][0]))
    product, _, info = function(side, adjoint, a, taus, c, size)
    if info != 0:
        raise Failed
    return product


@routine("qr")
def qr(a: Array, pivoting: bool, full_matrices: bool) -> Sequence[Array]:
    """q, r and with `pivoting` the columns' order, counted from 0."""
    m, n = a.shape
    k = m if full_matrices else min(m, n)
    order: tuple[Array, ...] = ()
    if a.size == 0:
        order = (np.zeros(n, np.int32),) if pivoting else ()
        return np.eye(m, k, dtype=a.dtype), np.zeros((k, n), a.dtype), *order
    if pivoting:
        factored, columns, taus = geqp3(a, np.zeros(n, np.int32))
        order = (columns - 1,)
    else:
        factored, taus = geqrf(a)
    reflectors = np.zeros((m, k), a.dtype, order="F")
    reflectors[:, : min(n, k)] = factored[:, : min(n, k)]
    (q,) = householder_product(reflectors, taus)
    return q, np.triu(factored[:k]), *order


@routine("eigh")
def eigh(a: Array, lower: bool, first: int, last: int) -> Sequence[Array]:
    """Eigenvectors in columns and ascending eigenvalues, those of [first, last)."""
    if a.size == 0:
        return a[:, first:last], np.zeros(last - first, a.real.dtype)
    values, vectors = _call("syevd", a, lower=lower)
    return vectors[:, first:last], values[first:last]


@routine("eig")
def eig(a: Array, left: bool, right: bool) -> Sequence[Array]:
    """Eigenvalues, then the left and the right eigenvectors as asked for, all complex."""
    if not np.isfinite(a).all():
        raise Failed  # LAPACK may not return
    if a.size == 0:
        return a[0:0].reshape(0), *([a] * (left + right))
    size = _work("geev", a, len(a), compute_vl=left, compute_vr=right)
    *values, vl, vr = _call("geev", a, compute_vl=left, compute_vr=right, lwork=size)
    w = values[0] if len(values) == 1 else values[0] + np.array(1j, a.dtype.char.upper()) * values[1]
    vectors = [v for v, wanted in ((vl, left), (vr, right)) if wanted]
    return w, *(vectors if len(values) == 1 else [_unpacked(v, values[1]) for v in vectors])


def _unpacked(vectors: Array, imaginary: Array) -> Array:
    """LAPACK packs a pair of conjugate eigenvectors as real and imaginary part in two columns."""
    whole = vectors.astype(vectors.dtype.char.upper())
    for column in np.flatnonzero(imaginary > 0):
        whole[:, column].imag = vectors[:, column + 1]
        whole[:, column + 1] = whole[:, column].conj()
    return whole


@routine("schur")
def schur(a: Array, vectors: bool) -> Sequence[Array]:
    """The Schur form (quasi-triangular if real), with `vectors` the unitary matrix too."""
    if a.size == 0:
        return (a, a) if vectors else (a,)
    function = _routine_for("gees", a.dtype.char)
    size = int(np.real(function(_never, a, compute_v=vectors, lwork=-1)[-2][0]))
    form, *_, unitary, _, info = function(_never, a, compute_v=vectors, lwork=size)
    if info != 0:
        raise Failed
    return (form, unitary) if vectors else (form,)


def _never(*_: Any) -> None:
    """The selection of eigenvalues to come first, which is not asked for."""


@routine("hessenberg")
def hessenberg(a: Array) -> Sequence[Array]:
    """The Hessenberg form with the reflectors below it, and their factors."""
    if a.size == 0:
        return a, np.zeros(max(len(a) - 1, 0), a.dtype)
    size = _work("gehrd", a, len(a), lo=0, hi=len(a) - 1)
    return tuple(_call("gehrd", a, lo=0, hi=len(a) - 1, lwork=size))


@routine("tridiagonal")
def tridiagonal(a: Array, lower: bool) -> Sequence[Array]:
    """The reflectors, the diagonal, the one beside it, and the reflectors' factors."""
    if len(a) == 1:
        return a, a.real[0], np.zeros(0, a.real.dtype), np.zeros(0, a.dtype)
    size = _work("sytrd", a, len(a), lower=lower)
    return tuple(_call("sytrd", a, lower=lower, lwork=size))


@routine("svd")
def svd(a: Array, full_matrices: bool, compute_uv: bool, driver: str) -> Sequence[Array]:
    """Singular values, then u and v^H with `compute_uv`. `driver`: gesdd or gesvd."""
    m, n = a.shape
    if a.size == 0:
        shapes = ((m, m), (n, n)) if full_matrices else ((m, 0), (0, n))
        s = np.zeros(0, a.real.dtype)
        return (s, *(np.eye(*shape, dtype=a.dtype) for shape in shapes)) if compute_uv else (s,)
    options = {"compute_uv": compute_uv, "full_matrices": full_matrices}
    u, s, vt = _call(driver, a, lwork=_work(driver, a, m, n, **options), **options)
    return (s, u, vt) if compute_uv else (s,)


@routine("tridiagonal_solve", rank=1)
def tridiagonal_solve(
    below: Array, diagonal: Array, above: Array, b: Array, perturb: bool
) -> Sequence[Array]:
    """`below[0]` and `above[-1]` are outside the matrix."""
    if b.size == 0:
        return (b,)
    if perturb:
        return (_perturbed(below, diagonal, above, b),)
    if len(diagonal) == 1:
        if diagonal[0] == 0:
            raise Failed
        return (b / diagonal[0],)
    *_, x = _call("gtsv", below[1:], diagonal, above[:-1], b)
    return (x,)


def _perturbed(below: Array, diagonal: Array, above: Array, b: Array) -> Array:
    """A finite solution of a singular system: pivots near zero become eps max|U|, with their sign."""
    if len(diagonal) == 2:  # SciPy's gttrs begins at three rows: one more, on its own
        more = np.abs([below[1], *diagonal, above[0]]).max().astype(b.dtype)
        rows = np.concatenate([b, np.zeros_like(b[:1])])
        none = np.zeros(1, b.dtype)
        above = np.concatenate([above[:1], none, none])
        return _perturbed(np.append(below, none), np.append(diagonal, more), above, rows)[:2]
    if len(diagonal) == 1:
        upper, solve = (diagonal.copy(), above[:0], above[:0]), None
    else:
        below, main, above, second, swaps, _ = _routine_for("gttrf", b.dtype.char)(
            below[1:], diagonal, above[:-1]
        )
        upper, solve = (main, above, second), swaps
    largest = max((float(np.abs(part).max()) for part in upper if part.size), default=0.0)
    tiny = (np.finfo(b.dtype).eps * largest) or np.finfo(b.dtype).tiny
    main = upper[0]
    small = np.abs(main) < tiny
    main[small] = np.where(np.real(main[small]) < 0, -tiny, tiny)
    if solve is None:
        return b / main[0]
    (x,) = _call("gttrs", below, main, upper[1], upper[2], solve, b)
    return x


@hosted("stablehlo.cholesky")
def _cholesky_request(op: Any) -> Request:
    element = str(ir.RankedTensorType(op.operands[0].type).element_type)
    if element not in ("f32", "f64", "complex<f32>", "complex<f64>"):
        raise Unsupported(
            f"cholesky of {element} is not supported: LAPACK has f32, f64 and complex numbers of both"
        )
    lower = "lower" in op.attributes and bool(op.attributes["lower"].value)
    return Request(PREFIX + "cholesky", json.dumps({"lower": lower}).encode())
