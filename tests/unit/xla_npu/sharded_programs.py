"""Small programs, each about one family of operations, to be run on parts of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Program:
    """`shapes`: of the arguments; f32 unless `dtypes` says otherwise, "index" are numbers below 8."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = ()

    def arguments(self, seed: int = 0) -> list[Array]:
        random = np.random.default_rng(seed)
        made = []
        for index, shape in enumerate(self.shapes):
            dtype = self.dtypes[index] if index < len(self.dtypes) else "f4"
            if dtype == "index":
                made.append(random.integers(0, 8, shape).astype("i4"))
            elif np.dtype(dtype).kind in "iu":
                made.append(random.integers(-9 if np.dtype(dtype).kind == "i" else 0, 9, shape).astype(dtype))
            elif np.dtype(dtype).kind == "b":
                made.append(random.integers(0, 2, shape).astype(bool))
            elif np.dtype(dtype).kind == "c":
                made.append((random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype))
            else:
                made.append(random.normal(size=shape).astype(dtype))
        return made


def _(name: str, function: Callable[..., Any], *shapes: tuple[int, ...], dtypes: str = "") -> Program:
    return Program(name, function, shapes, tuple(dtypes.split()))


def _positive(a: Any) -> Any:
    return a @ a.T + 20 * jnp.eye(a.shape[0])


def _transformer(x: Any, wq: Any, wo: Any, w1: Any, w2: Any) -> Any:
    b, s, d = x.shape
    q = (x @ wq).reshape(b, s, 4, -1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, q) / 2 + jnp.where(jnp.tril(jnp.ones((s, s))) > 0, 0.0, -1e9)
    y = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), q).reshape(b, s, d) @ wo
    z = y / jnp.sqrt((y * y).mean(-1, keepdims=True) + 1e-5)
    return y + jax.nn.gelu(z @ w1) @ w2


def _loss_gradient(x: Any, *weights: Any) -> Any:
    return jax.grad(lambda w: (_transformer(x, *w) ** 2).mean())(weights)


_SQUARE, _LONG = (16, 8), (8, 24)

PROGRAMS = (
    # Elementwise
    _("arithmetic", lambda a, b: (a + b) * a - b / (1 + a * a), _SQUARE, _SQUARE),
    _("select", lambda a, b: jnp.where(a > b, a, -b), _SQUARE, _SQUARE),
    _("clamp", lambda a: jnp.clip(a, -0.5, 0.5), _SQUARE),
    _("functions", lambda a: jnp.tanh(a) + jnp.exp(a) * jnp.sin(a), _SQUARE),
    _("erf", lambda a: jax.scipy.special.erf(a), _SQUARE),
    _("integers", lambda a, b: (a ^ b) + (a << 2) - (b >> 1), _SQUARE, _SQUARE, dtypes="i4 i4"),
    _("complex", lambda a: a * jnp.conj(a) + a, _SQUARE, dtypes="c8"),
    _("convert", lambda a: a.astype(jnp.bfloat16).astype(jnp.float32), _SQUARE),
    _("bitcast", lambda a: lax.bitcast_convert_type(a, jnp.int32), _SQUARE),
    # Broadcasts, constants, counts
    _("broadcast", lambda a, b: a + b, _SQUARE, (8,)),
    _("broadcast of one", lambda a, b: a * b, _SQUARE, (16, 1)),
    _("broadcast anew", lambda a: jnp.broadcast_to(a[:, None], (16, 4, 8)), _SQUARE),
    _("constant", lambda a: a + np.arange(128, dtype="f4").reshape(16, 8), _SQUARE),
    _("iota", lambda a: a + lax.broadcasted_iota(jnp.float32, (16, 8), 0) * 100
      + lax.broadcasted_iota(jnp.float32, (16, 8), 1), _SQUARE),
    _("eye", lambda a: jnp.eye(16) @ a, _SQUARE),
    # Products
    _("matmul", lambda a, b: a @ b, _SQUARE, _LONG),
    _("matmul chain", lambda a, b, c: jnp.tanh(a @ b) @ c, _SQUARE, _LONG, (24, 16)),
    _("batched matmul", lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (4, 8, 6), (4, 6, 8)),
    _("outer", lambda a, b: jnp.einsum("i,j->ij", a, b), (16,), (8,)),
    _("inner", lambda a, b: jnp.vdot(a, b), (64,), (64,)),
    _("two contractions", lambda a, b: jnp.einsum("ijk,jkl->il", a, b), (8, 4, 6), (4, 6, 8)),
    _("integer matmul", lambda a, b: a @ b, _SQUARE, _LONG, dtypes="i4 i4"),
    _("convolution", lambda a, w: lax.conv(a, w, (1, 1), "SAME"), (8, 4, 6, 6), (8, 4, 3, 3)),
    _("grouped convolution", lambda a, w: lax.conv_general_dilated(
        a, w, (1, 1), "SAME", feature_group_count=4, dimension_numbers=("NCHW", "OIHW", "NCHW")),
      (8, 4, 6, 6), (8, 1, 3, 3)),
    # Reductions
    _("sum", lambda a: a.sum(), _SQUARE),
    _("sum of rows", lambda a: a.sum(1), _SQUARE),
    _("sum with a start", lambda a: lax.reduce(a, jnp.float32(3), lax.add, (0,)), _SQUARE),
    _("product", lambda a: a.prod(0), _SQUARE),
    _("max", lambda a: (a.max(0), a.min(1), a.max()), _SQUARE),
    _("any and all", lambda a: (a.any(0), a.all(1)), _SQUARE, dtypes="?"),
    _("xor", lambda a: lax.reduce(a, np.int32(0), lax.bitwise_xor, (0,)), _SQUARE, dtypes="i4"),
    _("argmax", lambda a: (a.argmax(0), a.argmin(1)), _SQUARE),
    _("mean and variance", lambda a: (a.mean(0), a.var(1)), _SQUARE),
    _("softmax", lambda a: jax.nn.softmax(a, 1), _SQUARE),
    _("logsumexp", lambda a: jax.nn.logsumexp(a, 0), _SQUARE),
    _("complex sum", lambda a: a.sum(0), _SQUARE, dtypes="c8"),
    _("unsigned", lambda a: (a.sum(0), a.max(1)), _SQUARE, dtypes="u4"),
    _("small unsigned", lambda a: (a.max(0), lax.reduce(a, np.uint8(0), lax.add, (1,))), _SQUARE, dtypes="u1"),
    _("bfloat16 sum", lambda a: a.astype(jnp.bfloat16).sum(1).astype(jnp.float32), (8, 8)),
    # Shapes
    _("reshape to one", lambda a: a.reshape(-1), _SQUARE),
    _("reshape apart", lambda a: a.reshape(4, 4, 2, 4), _SQUARE),
    _("reshape across", lambda a: a.reshape(8, 16), _SQUARE),
    _("reshape to uneven", lambda a: a.reshape(6, 32) * 2, (8, 24)),
    _("transpose", lambda a: a.T, _SQUARE),
    _("transpose of three", lambda a: a.transpose(2, 0, 1), (4, 8, 6)),
    _("squeeze", lambda a: a[:, 0, None, :], (8, 1, 16)),
    _("slice", lambda a: a[3:11, 1:7], _SQUARE),
    _("strided slice", lambda a: a[::2, ::-1], _SQUARE),
    _("pad", lambda a: jnp.pad(a, ((1, 3), (0, 0)), constant_values=7.0), _SQUARE),
    _("concatenate", lambda a, b: jnp.concatenate([a, b, a], 0), _SQUARE, (8, 8)),
    _("roll", lambda a: jnp.roll(a, 3, 1), _SQUARE),
    _("reverse", lambda a: a[::-1], _SQUARE),
    _("stack", lambda a, b: jnp.stack([a, b], 1), _SQUARE, _SQUARE),
    _("uneven inside", lambda a: (a[:13, :7] * 2).sum(0), _SQUARE),
    # Indices
    _("dynamic slice", lambda a, i: lax.dynamic_slice(a, (i, 0), (4, 8)), _SQUARE, (), dtypes="f4 index"),
    _("dynamic update", lambda a, b, i: lax.dynamic_update_slice(a, b, (i, i)), _SQUARE, (4, 8), (),
      dtypes="f4 f4 index"),
    _("take rows", lambda a, i: a[i], _SQUARE, (8,), dtypes="f4 index"),
    _("take columns", lambda a, i: jnp.take(a, i, axis=1), _SQUARE, (8,), dtypes="f4 index"),
    _("take along", lambda a, i: jnp.take_along_axis(a, i, axis=1), (16, 8), (16, 8), dtypes="f4 index"),
    _("scatter add", lambda a, i, b: a.at[i].add(b), _SQUARE, (8,), (8, 8), dtypes="f4 index"),
    _("scatter set columns", lambda a, i: a.at[:, i].set(1.0), _SQUARE, (4,), dtypes="f4 index"),
    _("one hot", lambda i: jax.nn.one_hot(i, 8), (16,), dtypes="index"),
    _("embedding gradient", lambda a, i: jax.grad(lambda w: (w[i] ** 2).sum())(a), _SQUARE, (4, 4),
      dtypes="f4 index"),
    # Order
    _("sort", lambda a: jnp.sort(a, 1), _SQUARE),
    _("argsort", lambda a: jnp.argsort(a, 0), _SQUARE),
    _("sort of pairs", lambda a, b: lax.sort((a, b), dimension=0, num_keys=1), _SQUARE, _SQUARE),
    _("top_k", lambda a: lax.top_k(a, 3), _SQUARE),
    _("cumsum", lambda a: jnp.cumsum(a, 1), _SQUARE),
    _("cummax", lambda a: lax.cummax(a, 0), _SQUARE),
    # Windows
    _("max pool", lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
      (8, 4, 4, 4)),
    _("max pool gradient", lambda a: jax.grad(lambda x: (lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID") ** 2).sum())(a), _SQUARE),
    # Random numbers
    _("normal", lambda a: a + jax.random.normal(jax.random.key(3), a.shape), _SQUARE),
    _("bits", lambda a: lax.rng_bit_generator(a, (16, 8), dtype=jnp.uint32)[1], (4,), dtypes="u4"),
    # Linear algebra, Fourier
    _("cholesky", lambda a: jnp.linalg.cholesky(_positive(a)), (8, 8)),
    _("triangular solve", lambda a, b: jax.scipy.linalg.solve_triangular(_positive(a), b), (8, 8), (8, 8)),
    _("batched cholesky", lambda a: jnp.linalg.cholesky(jax.vmap(_positive)(a)), (8, 4, 4)),
    _("fft", lambda a: jnp.abs(jnp.fft.fft(a, axis=1)), _SQUARE),
    # Control flow
    _("while", lambda a: lax.while_loop(
        lambda c: c[1].sum() < 1e3, lambda c: (c[0] + 1, jnp.abs(c[1]) * 2 + 1), (0, a)), _SQUARE),
    _("scan", lambda a, b: lax.scan(lambda c, r: (jnp.tanh(c @ b + r), c.sum()), jnp.zeros(8), a), _SQUARE, (8, 8)),
    _("fori", lambda a: lax.fori_loop(0, 3, lambda i, c: c + i * a.mean(0), a), _SQUARE),
    _("cond", lambda a: lax.cond(a.sum() > 0, lambda x: x * 2, lambda x: x - x.mean(0), a), _SQUARE),
    _("switch", lambda a, i: lax.switch(i % 3, [jnp.sin, lambda x: x.T.T, lambda x: x.sum() + x], a), _SQUARE, (),
      dtypes="f4 index"),
    _("remat", lambda a, b: jax.grad(lambda x: jax.checkpoint(lambda y: jnp.tanh(y @ b).sum())(x))(a), _SQUARE, _LONG),
    # Together
    _("transformer", _transformer, (4, 8, 16), (16, 16), (16, 16), (16, 32), (32, 16)),
    _("transformer gradient", _loss_gradient, (4, 8, 16), (16, 16), (16, 16), (16, 32), (32, 16)),
)  # fmt: skip

MESHES: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "8": ((8,), ("x",)),
    "2x4": ((2, 4), ("x", "y")),
    "4x2": ((4, 2), ("x", "y")),
    "2x2x2": ((2, 2, 2), ("x", "y", "z")),
}


def mesh_of(name: str, devices: list[Any]) -> Mesh:
    """A mesh over the eight devices."""
    shape, names = MESHES[name]
    return Mesh(np.array(devices).reshape(shape), names, axis_types=(AxisType.Auto,) * len(names))


def draw_sharding(mesh: Mesh, shape: tuple[int, ...], random: np.random.Generator) -> NamedSharding:
    """Each axis of the mesh cuts a dimension drawn for it that it divides, or none."""
    spec: list[list[str]] = [[] for _ in shape]
    left = list(shape)
    for name in random.permutation(mesh.axis_names):
        size = mesh.shape[name]
        dim = int(random.integers(-1, len(shape))) if shape else -1
        if dim >= 0 and left[dim] % size == 0:
            left[dim] //= size
            spec[dim].append(str(name))
    return NamedSharding(mesh, PartitionSpec(*(tuple(names) if names else None for names in spec)))
