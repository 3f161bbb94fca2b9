"""A small Llama-style decoder in plain JAX: what train.py trains and generate.py decodes with."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Config:
    """Sizes of the model. `vocab` counts bytes, so that text needs no tokenizer."""

    vocab: int = 256
    dim: int = 128
    hidden: int = 352
    heads: int = 4
    layers: int = 4
    length: int = 128


def init(config: Config, key: jax.Array) -> dict:
    """Parameters in float32; those of the layers are stacked along the first axis, for scan."""
    dense = jax.nn.initializers.lecun_normal(in_axis=-2, out_axis=-1)
    keys = iter(jax.random.split(key, 9))
    d, h, n = config.dim, config.hidden, config.layers
    return {
        "embed": 0.02 * jax.random.normal(next(keys), (config.vocab, d)),
        "unembed": dense(next(keys), (d, config.vocab)),
        "norm": jnp.ones(d),
        "layers": {
            **{name: dense(next(keys), (n, d, d)) for name in ("wq", "wk", "wv", "wo")},
            **{name: dense(next(keys), (n, d, h)) for name in ("gate", "up")},
            "down": dense(next(keys), (n, h, d)),
            "norm1": jnp.ones((n, d)),
            "norm2": jnp.ones((n, d)),
        },
    }


def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight


def rotary(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary embedding (arXiv:2104.09864) of x [batch, length, heads, dim] at positions [length]."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def block(config: Config, x: jax.Array, w: dict, cache: tuple, start: jax.Array) -> tuple[jax.Array, tuple]:
    """One layer over x [batch, length, dim], which stands at positions start, start + 1, ...

    Args:
        cache: keys and values [batch, config.length, heads, dim / heads]; what lies after x is masked.
    """
    batch, length, _ = x.shape
    positions = start + jnp.arange(length)
    split = (batch, length, config.heads, config.dim // config.heads)
    normed = rms_norm(x, w["norm1"])
    q = rotary((normed @ w["wq"]).reshape(split), positions)
    k = rotary((normed @ w["wk"]).reshape(split), positions)
    v = (normed @ w["wv"]).reshape(split)
    keys, values = (
        jax.lax.dynamic_update_slice(c, new, (0, start, 0, 0)) for c, new in zip(cache, (k, v), strict=True)
    )
    mask = jnp.arange(keys.shape[1])[None, :] <= positions[:, None]
    attended = jax.nn.dot_product_attention(q, keys, values, mask=mask[None, None])
    x = x + attended.reshape(batch, length, config.dim) @ w["wo"]
    normed = rms_norm(x, w["norm2"])
    return x + (jax.nn.silu(normed @ w["gate"]) * (normed @ w["up"])) @ w["down"], (keys, values)


def empty_cache(config: Config, batch: int) -> tuple[jax.Array, jax.Array]:
    """Keys and values of all layers, stacked: [layers, batch, length, heads, dim / heads]."""
    shape = (config.layers, batch, config.length, config.heads, config.dim // config.heads)
    return jnp.zeros(shape), jnp.zeros(shape)


@partial(jax.jit, static_argnums=0, donate_argnums=3)
def step(
    config: Config, params: dict, tokens: jax.Array, cache: tuple, start: jax.Array
) -> tuple[jax.Array, tuple]:
    """Logits [batch, length, vocab] of tokens [batch, length] at `start`, and the cache with them in it."""

    def layer(x: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        return block(config, x, inputs[0], inputs[1], start)

    x, cache = jax.lax.scan(layer, params["embed"][tokens], (params["layers"], cache))
    return rms_norm(x, params["norm"]) @ params["unembed"], cache


def logits(config: Config, params: dict, tokens: jax.Array) -> jax.Array:
    """Logits of whole sequences [batch, config.length], for training."""
    return step(config, params, tokens, empty_cache(config, tokens.shape[0]), jnp.int32(0))[0]
