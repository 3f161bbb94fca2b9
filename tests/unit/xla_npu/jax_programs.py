"""What JAX traces and lowers for npu, run by our graphs and compared with XLA on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from tests.unit.xla_npu.oracle import run_npu


def check_jax(function: Callable[..., Any], *inputs: Any, tolerance: float = 0.0) -> None:
    """The function's results on npu equal those on cpu, exactly unless a tolerance (relative and absolute) is given."""
    arrays = [np.asarray(value) for value in inputs]
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu), jax.enable_x64(True):
        traced = jax.jit(function).trace(*arrays)
        text = traced.lower(lowering_platforms=("npu",)).as_text()
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arrays))]
    main = text[text.index("@main(") :]
    count = len(re.findall(r"%arg\d+:", main[: main.index("->")]))
    assert count == len(arrays), "an argument is not used"
    for ours, theirs in zip(run_npu(text, arrays), wanted, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if tolerance:
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(ours, theirs)
