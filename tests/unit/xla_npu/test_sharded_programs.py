"""Programs on parts of their arguments give what they give on whole ones, on one cpu device."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

import tests.unit.xla_npu.jax_npu  # noqa: F401 (registers npu)
from tests.unit.xla_npu.sharded_programs import MESHES, PROGRAMS, Program, draw_sharding, mesh_of
from xla_npu import partition

_BY_NAME = {program.name: program for program in PROGRAMS}


@cache
def expected(name: str) -> Any:
    """The results on one cpu device."""
    program = _BY_NAME[name]
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.map(np.asarray, jax.jit(program.function)(*program.arguments()))


def check(program: Program, mesh_name: str, seed: int) -> None:
    """Arguments, and in every second draw results, are cut as drawn."""
    random = np.random.default_rng([seed, *program.name.encode()])
    mesh = mesh_of(mesh_name, jax.devices("npu"))
    arguments, wanted = program.arguments(), expected(program.name)
    given = [draw_sharding(mesh, each.shape, random) for each in arguments]
    options = {}
    if random.integers(0, 2):
        options["out_shardings"] = jax.tree.map(lambda leaf: draw_sharding(mesh, leaf.shape, random), wanted)
    results = jax.jit(program.function, in_shardings=given, **options)(*arguments)
    jax.tree.map(lambda ours, theirs: _close(ours, theirs), results, wanted)


def _close(ours: Any, theirs: Any) -> None:
    ours = np.asarray(ours)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


# Each program with one mesh; the others are drawn in the slow test.
@pytest.mark.parametrize(
    ("name", "mesh"),
    [(each.name, list(MESHES)[number % len(MESHES)]) for number, each in enumerate(PROGRAMS)],
)
def test_a_program_on_parts(name: str, mesh: str) -> None:
    check(_BY_NAME[name], mesh, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", _BY_NAME)
def test_a_program_on_parts_drawn(name: str, mesh: str) -> None:
    for seed in range(2, 5):
        check(_BY_NAME[name], mesh, seed)


def test_the_default_rule_is_counted_and_right() -> None:
    """Batch normalisation has no partitioning rule."""
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = mesh_of("8", jax.devices("npu"))
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    partition.default_rule_counts(reset=True)
    function = lambda a: jax.lax.reduce_precision(jax.lax.linalg.householder_product(a, a[0]), 8, 20)  # noqa: E731
    cut = NamedSharding(mesh, PartitionSpec("x"))
    ours = jax.jit(function, in_shardings=cut)(x / 100)
    with jax.default_device(jax.devices("cpu")[0]):
        _close(ours, np.asarray(jax.jit(function)(x / 100)))
    assert sum(partition.default_rule_counts(reset=True).values()) == 1
