"""JAX's linear algebra on npu: each primitive becomes one custom call that xla_npu.host.lapack runs.

JAX has generic lowerings for some of these (LU as a loop, QR as two calls and masks); one call to LAPACK serves better.
Registered through JAX's own `mlir.register_lowering`, so no list of JAX's is touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from jax._src.interpreters import mlir
from jax._src.lax import linalg

PLATFORM = "npu"
_PREFIX = "npu_lapack_"
Parameters = dict[str, Any]
_DTYPES = ("float32", "float64", "complex64", "complex128", "int32")  # int32: of pivots


def _eigh(
    ctx: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any
) -> Parameters:
    del sort_eigenvalues  # LAPACK sorts
    _only(algorithm, "eigh", "QR")
    first, last = subset_by_index or (0, ctx.avals_in[0].shape[-1])
    return {"lower": lower, "first": first, "last": last}


def _eig(ctx: Any, **parameters: Any) -> Parameters:
    _only(parameters["implementation"], "eig", "LAPACK")
    return {
        "left": parameters["compute_left_eigenvectors"],
        "right": parameters["compute_right_eigenvectors"],
    }


def _svd(
    ctx: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any = None, algorithm: Any = None
) -> Parameters:
    rank = min(ctx.avals_in[0].shape[-2:])
    if subset_by_index not in (None, (0, rank)):
        raise NotImplementedError("svd of npu has no subset_by_index: slice its results")
    _only(algorithm, "svd", "DEFAULT", "QR", "DIVIDE_AND_CONQUER")
    driver = "gesvd" if algorithm is not None and algorithm.name == "QR" else "gesdd"
    return {"full_matrices": bool(full_matrices), "compute_uv": compute_uv, "driver": driver}


def _schur(ctx: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any) -> Parameters:
    del select_callable
    if sort_eig_vals:
        raise NotImplementedError("schur of npu does not sort eigenvalues")
    return {"vectors": compute_schur_vectors}


def _only(algorithm: Any, what: str, *known: str) -> None:
    if algorithm is not None and algorithm.name not in known:
        raise NotImplementedError(
            f"{what} of npu has the algorithms {', '.join(known)}, not {algorithm.name}"
        )


# Primitive, routine of xla_npu.host.lapack, its parameters from the primitive's.
_ROUTINES: tuple[tuple[Any, str, Callable[..., Parameters]], ...] = (
    (linalg.lu_p, "lu", lambda ctx: {}),
    (linalg.lu_pivots_to_permutation_p, "lu_pivots_to_permutation",
     lambda ctx, *, permutation_size: {"size": permutation_size}),
    (linalg.geqrf_p, "geqrf", lambda ctx: {}),
    (linalg.geqp3_p, "geqp3", lambda ctx, *, use_magma: {}),
    (linalg.qr_p, "qr", lambda ctx, *, use_magma, **parameters: parameters),
    (linalg.householder_product_p, "householder_product", lambda ctx: {}),
    (linalg.ormqr_p, "ormqr", lambda ctx, **parameters: parameters),
    (linalg.eigh_p, "eigh", _eigh),
    (linalg.eig_p, "eig", _eig),
    (linalg.schur_p, "schur", _schur),
    (linalg.hessenberg_p, "hessenberg", lambda ctx: {}),
    (linalg.tridiagonal_p, "tridiagonal", lambda ctx, *, lower: {"lower": lower}),
    (linalg.svd_p, "svd", _svd),
    (linalg.tridiagonal_solve_p, "tridiagonal_solve",
     lambda ctx, *, perturb_singular: {"perturb": perturb_singular}),
)  # fmt: skip


def register() -> None:
    """Tells JAX how to lower its linear algebra for npu."""
    for primitive, name, parameters in _ROUTINES:
        mlir.register_lowering(primitive, _rule(primitive, name, parameters), platform=PLATFORM)


def targets() -> list[str]:
    """The custom calls that programs for npu may hold of these."""
    return [_PREFIX + name for _, name, _ in _ROUTINES]


def _rule(primitive: Any, name: str, parameters: Callable[..., Parameters]) -> Callable[..., Any]:
    def rule(ctx: Any, *operands: Any, **given: Any) -> Sequence[Any]:
        for aval in (*ctx.avals_in, *ctx.avals_out):
            if not all(isinstance(size, int) for size in aval.shape):
                raise NotImplementedError(f"{primitive.name} on npu needs shapes known when compiling")
        dtype = ctx.avals_in[0].dtype
        if dtype.name not in _DTYPES:
            raise NotImplementedError(
                f"Unsupported dtype {dtype.name} of {primitive.name}: LAPACK has {_DTYPES}"
            )
        config = json.dumps(parameters(ctx, **given))
        types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out]
        return list(
            mlir.custom_call(
                _PREFIX + name, result_types=types, operands=operands, backend_config=config
            ).results
        )

    return rule
