"""A fixed sample of JAX's primitive harnesses (inside the jax wheel), on npu against cpu."""

from __future__ import annotations

import zlib
from typing import Any

import jax
import numpy as np
import pytest
from jax._src.internal_test_util.test_harnesses import Harness, all_harnesses

_PER_GROUP = 6  # harnesses of one primitive
# Relative to the largest value of a result: what two right libraries may differ by (LAPACK's vectors are compared by
# JAX's own tests, which know their freedom).
_TOLERANCE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 4e-2,
}
_FREE = ("eig", "eigh", "svd", "qr", "schur", "hessenberg", "tridiagonal", "geqp3", "householder_product")


def _sample() -> list[Harness]:
    """The same harnesses in every run: of each primitive those whose names have the smallest checksums."""
    groups: dict[str, list[Harness]] = {}
    for harness in all_harnesses:
        if harness.group_name not in _FREE:
            groups.setdefault(harness.group_name, []).append(harness)
    chosen = []
    for members in groups.values():
        chosen += sorted(members, key=lambda h: zlib.crc32(h.fullname.encode()))[:_PER_GROUP]
    return sorted(chosen, key=lambda h: h.fullname)


def _run(harness: Harness, platform: str) -> list[np.ndarray[Any, Any]]:
    device = jax.devices(platform)[0]
    with jax.default_device(device), jax.enable_x64(True):
        arguments = jax.device_put(harness.dyn_args_maker(np.random.default_rng(0)), device)
        results = jax.jit(harness.dyn_fun)(*arguments)
        return [np.asarray(each) for each in jax.tree.leaves(jax.tree.map(_plain, results))]


def _plain(value: Any) -> Any:
    return jax.random.key_data(value) if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key) else value


@pytest.mark.slow
@pytest.mark.parametrize("harness", _sample(), ids=lambda h: h.fullname)
def test_npu_equals_cpu(harness: Harness) -> None:
    try:
        expected = _run(harness, "cpu")
    except Exception as error:  # JAX's own limits on cpu are no question to npu
        with pytest.raises(type(error)):
            _run(harness, "npu")
        return
    for ours, theirs in zip(_run(harness, "npu"), expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        tolerance = _TOLERANCE.get(theirs.dtype.name)
        if tolerance is None:
            np.testing.assert_array_equal(ours, theirs)
            continue
        wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
        finite = np.abs(theirs.astype(wide))[np.isfinite(theirs.astype(wide))]
        scale = tolerance * max(1.0, float(finite.max(initial=0.0)))
        np.testing.assert_allclose(ours.astype(wide), theirs.astype(wide), rtol=tolerance, atol=scale)
