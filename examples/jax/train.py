"""Trains the decoder of model.py with optax on bytes of a source file. `JAX_PLATFORMS=npu python train.py`."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from model import Config, init, logits

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
config = Config()
text = np.frombuffer(Path(jax.__file__).with_name("numpy").joinpath("__init__.py").read_bytes(), np.uint8)
params = init(config, jax.random.key(0))
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))
state = optimizer.init(params)


def loss_of(params, tokens):
    predicted = logits(config, params, tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(predicted, tokens[:, 1:]).mean()


@jax.jit(donate_argnums=(0, 1))
def update(params, state, tokens):
    loss, gradients = jax.value_and_grad(loss_of)(params, tokens)
    changes, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, changes), state, loss


print(f"on {jax.devices()[0]}: {jax.devices()[0].device_kind}")
random, losses = np.random.default_rng(0), []
for step in range(STEPS):
    starts = random.integers(0, len(text) - config.length - 1, 8)
    tokens = jnp.asarray(np.stack([text[s : s + config.length + 1] for s in starts]), jnp.int32)
    params, state, loss = update(params, state, tokens)
    losses.append(float(loss))
    if step % 10 == 0 or step == STEPS - 1:
        print(f"step {step:3}  loss {losses[-1]:.6f}")
assert all(np.isfinite(losses)) and losses[-1] < 0.75 * losses[0], losses
print("right")
