"""Exchanges that programs write themselves (shard_map, pmap), on eight devices; expected values by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import tests.unit.xla_npu.jax_npu  # noqa: F401 (registers npu)
from tests.unit.xla_npu.sharded_programs import mesh_of

Array = np.ndarray[Any, Any]
P = PartitionSpec
SPEC = P("x", "y")  # 2 x 4 parts


def data(dtype: Any = np.float32) -> Array:
    random = np.random.default_rng(0)
    if np.dtype(dtype).kind == "c":
        return (random.normal(size=(8, 16)) + 1j * random.normal(size=(8, 16))).astype(dtype)
    return random.integers(0, 2 if np.dtype(dtype).kind == "b" else 5, (8, 16)).astype(dtype)


def parts(x: Array) -> Array:
    """[2, 4, 4, 4]: the part of each device."""
    return x.reshape(2, 4, 4, 4).transpose(0, 2, 1, 3)


def whole(pieces: Array) -> Array:
    """The array whose parts these are."""
    rows, columns, height, width = pieces.shape
    return pieces.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)


def run(function: Callable[..., Any], x: Array, out: Any = SPEC, spec: Any = SPEC, **options: Any) -> Array:
    mesh = mesh_of("2x4", jax.devices("npu"))
    options.setdefault("check_vma", False)
    mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=out, **options)
    return np.asarray(jax.jit(mapped)(x))


ALL = (
    np.float32,
    np.int32,
    np.uint32,
    np.int8,
    np.uint8,
    np.uint16,
    np.bool_,
    np.complex64,
    jnp.bfloat16,
    np.float16,
)
NUMBERS = tuple(dtype for dtype in ALL if dtype is not np.bool_)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_psum(dtype: Any) -> None:
    x = data(dtype)
    want = parts(x).sum(1, keepdims=True, dtype=x.dtype).repeat(4, 1)
    np.testing.assert_allclose(run(lambda a: lax.psum(a, "y"), x), whole(want), rtol=1e-6)


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype is not np.complex64])
def test_pmax(dtype: Any) -> None:
    want = parts(data(dtype)).max(0, keepdims=True).repeat(2, 0)
    np.testing.assert_array_equal(run(lambda a: lax.pmax(a, "x"), data(dtype)), whole(want))


@pytest.mark.parametrize("dtype", ALL)
def test_all_gather(dtype: Any) -> None:
    want = np.concatenate([data(dtype)] * 4, 1)
    np.testing.assert_array_equal(
        run(lambda a: lax.all_gather(a, "y", axis=1, tiled=True), data(dtype)), want
    )


@pytest.mark.parametrize("dtype", ALL)
def test_all_to_all(dtype: Any) -> None:
    """Row i of a device's part goes to the device i."""
    x = data(dtype)
    want = parts(x).transpose(0, 2, 3, 1)[..., None].swapaxes(2, 3)  # x, to, from, column, 1
    got = run(lambda a: lax.all_to_all(a, "y", 0, 0, tiled=True), x)
    np.testing.assert_array_equal(parts(got), want[..., 0])


@pytest.mark.parametrize("dtype", NUMBERS)
def test_psum_scatter(dtype: Any) -> None:
    x = data(dtype)
    sums = parts(x).sum(1, dtype=x.dtype)  # x, row, column
    got = run(lambda a: lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True), x)
    np.testing.assert_allclose(got, sums.reshape(8, 4), rtol=1e-6)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(i, (i + 1) % 4) for i in range(4)], id="ring"),
        pytest.param([(0, 1), (1, 2), (2, 0), (3, 3)], id="odd ring and itself"),
        pytest.param([(0, 3), (2, 1)], id="some get nothing"),
        pytest.param([], id="nobody"),
    ],
)
def test_ppermute(dtype: Any, pairs: list[tuple[int, int]]) -> None:
    given = parts(data(dtype))
    want = np.zeros_like(given)
    for source, target in pairs:
        want[:, target] = given[:, source]
    np.testing.assert_array_equal(run(lambda a: lax.ppermute(a, "y", pairs), data(dtype)), whole(want))


def test_ppermute_along_two_axes() -> None:
    given = parts(data()).reshape(8, 4, 4)
    want = np.roll(given, 3, 0).reshape(2, 4, 4, 4)
    pairs = [(i, (i + 3) % 8) for i in range(8)]
    np.testing.assert_array_equal(run(lambda a: lax.ppermute(a, ("x", "y"), pairs), data()), whole(want))


def test_groups_within_an_axis() -> None:
    given = parts(data())
    want = np.stack([given[:, 0], *[given[:, 1:].sum(1)] * 3], 1)
    got = run(lambda a: lax.psum(a, "y", axis_index_groups=[[0], [1, 2, 3]]), data())
    np.testing.assert_array_equal(got, whole(want))


def test_the_number_of_the_device() -> None:
    got = run(lambda a: 0 * a + lax.axis_index(("x", "y")), data())
    np.testing.assert_array_equal(parts(got)[:, :, 0, 0], np.arange(8).reshape(2, 4))


def test_exchanges_in_loops_and_branches() -> None:
    def ring(a: Any) -> Any:
        pairs = [(i, (i + 1) % 4) for i in range(4)]
        return lax.scan(lambda c, _: (lax.ppermute(c, "y", pairs) + a, None), a, None, length=3)[0]

    def branch(a: Any) -> Any:
        total = lax.psum(a.sum(), ("x", "y"))
        return lax.cond(total > 0, lambda b: lax.psum(b, "y"), lambda b: b - lax.pmax(b, "x"), a)

    given = parts(data())
    np.testing.assert_array_equal(run(ring, data()), whole(given.sum(1, keepdims=True).repeat(4, 1)))
    np.testing.assert_array_equal(run(branch, data()), whole(given.sum(1, keepdims=True).repeat(4, 1)))
    want = -data() - parts(-data()).max(0).transpose(1, 0, 2).reshape(4, 16)[np.arange(8) % 4]
    np.testing.assert_array_equal(run(branch, -data()), want)


def test_a_region_that_is_manual_along_one_axis() -> None:
    """The other axis cuts what is inside as the partitioner likes."""
    x = data()
    got = run(
        lambda a: jnp.sort(lax.psum(a, "y") @ jnp.ones((4, 8)) + lax.axis_index("y"), 0),
        x,
        out=P(None, "y"),
        spec=P(None, "y"),
        axis_names={"y"},
    )
    sums = x.reshape(8, 4, 4).sum(1).sum(1)
    want = np.concatenate([np.sort(sums + rank)[:, None].repeat(8, 1) for rank in range(4)], 1)
    np.testing.assert_array_equal(got, want)


def test_pmap() -> None:
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    got = jax.pmap(lambda a: a - lax.pmean(a, "i"), axis_name="i", devices=jax.devices("npu"))(x)
    np.testing.assert_allclose(np.asarray(got), x - x.mean(0), rtol=1e-6)


def test_a_mesh_in_another_order_of_devices() -> None:
    devices = jax.devices("npu")
    mesh = mesh_of("2x4", [devices[i] for i in (5, 2, 7, 0, 1, 6, 3, 4)])
    x = jax.device_put(data(), NamedSharding(mesh, SPEC))
    mapped = jax.shard_map(
        lambda a: lax.psum(a, "y") + lax.axis_index("x"), mesh=mesh, in_specs=SPEC, out_specs=P("x")
    )
    want = parts(data()).sum(1) + np.arange(2)[:, None, None]
    np.testing.assert_array_equal(np.asarray(jax.jit(mapped)(x)), want.reshape(8, 4))


def test_some_of_the_devices() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices("npu")[3:7]), ("x",))
    mapped = jax.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    np.testing.assert_array_equal(np.asarray(jax.jit(mapped)(data())), data().reshape(4, 2, 16).sum(0))


def test_nothing_at_all() -> None:
    assert run(lambda a: a[:, 4:], data()).shape == (8, 0)


def test_unreduced_results_and_arguments() -> None:
    """Summands stay on their devices until somebody asks for the sum."""
    mesh = mesh_of("2x4", jax.devices("npu"))
    explicit = jax.sharding.Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Explicit,) * 2)
    x, w = data(), np.ones((16, 4), np.float32)
    with jax.set_mesh(explicit):
        a, b = jax.device_put(x, P("x", "y")), jax.device_put(w, P("y", None))
        summands = jax.jit(
            lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=P("x", None, unreduced={"y"}))
        )
        total = jax.jit(lambda u: jax.sharding.reshard(u, P("x", None)))(summands(a, b))
    np.testing.assert_array_equal(np.asarray(total), x @ w)


def test_callbacks_are_made_once() -> None:
    """By one device for whole arrays, by each device for its own part in shard_map."""
    mesh, calls = mesh_of("2x4", jax.devices("npu")), []

    def twice(a: Any) -> Any:
        return jax.pure_callback(lambda v: (calls.append(v.shape), 2 * np.asarray(v))[1], a, a)

    got = jax.jit(twice, in_shardings=NamedSharding(mesh, SPEC))(data())
    np.testing.assert_array_equal(np.asarray(got), 2 * data())
    assert calls == [(8, 16)]
    calls.clear()
    np.testing.assert_array_equal(run(twice, data()), 2 * data())
    assert calls == [(4, 4)] * 8
