"""Generates with a KV cache, one token a step, and checks it against the model without a cache.
`JAX_PLATFORMS=npu python generate.py`."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from model import Config, empty_cache, init, logits, step

config = Config()
params = init(config, jax.random.key(0))
prompt = jnp.asarray([list(b"The decoder reads: ")], jnp.int32)

scores, cache = step(config, params, prompt, empty_cache(config, 1), jnp.int32(0))
token = jnp.argmax(scores[:, -1:], axis=-1).astype(jnp.int32)
generated = [token]
began = time.perf_counter()
for position in range(prompt.shape[1], prompt.shape[1] + 63):
    scores, cache = step(config, params, token, cache, jnp.int32(position))
    token = jnp.argmax(scores[:, -1:], axis=-1).astype(jnp.int32)
    generated.append(token)
tokens = np.asarray(jnp.concatenate(generated, axis=1))
print(f"64 tokens in {time.perf_counter() - began:.3f} s on {jax.devices()[0]}: {tokens[0].tolist()}")

whole = jnp.zeros((1, config.length), jnp.int32)
whole = (
    whole.at[0, : prompt.shape[1]].set(prompt[0]).at[0, prompt.shape[1] : prompt.shape[1] + 64].set(tokens[0])
)
expected = np.asarray(jnp.argmax(jax.jit(logits, static_argnums=0)(config, params, whole), axis=-1))
np.testing.assert_array_equal(tokens[0], expected[0, prompt.shape[1] - 1 : prompt.shape[1] + 63])
print("right")
