"""A classifier of MNIST's size on generated digits. `JAX_PLATFORMS=npu python mlp.py`."""

import jax
import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(0)
# Ten fixed pictures of 28 x 28, seen through noise.
pictures = random.standard_normal((10, 784), dtype=np.float32)
labels = random.integers(0, 10, 2048)
images = pictures[labels] + 2.0 * random.standard_normal((2048, 784), dtype=np.float32)

sizes = (784, 256, 128, 10)
keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
initial = jax.nn.initializers.he_normal()
params = [(initial(k, (i, o)), jnp.zeros(o)) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def forward(params, x):
    for weight, bias in params[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return x @ params[-1][0] + params[-1][1]


def loss_of(params, x, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(forward(params, x)), y[:, None], axis=1))


@jax.jit(donate_argnums=0)
def update(params, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients), loss


for epoch in range(4):
    for start in range(0, 2048, 128):
        params, loss = update(params, images[start : start + 128], labels[start : start + 128])
    print(f"epoch {epoch}  loss {float(loss):.6f}")
accuracy = float(jnp.mean(jnp.argmax(jax.jit(forward)(params, images), axis=1) == labels))
print(f"on {jax.devices()[0]}: {accuracy:.1%} right")
assert accuracy > 0.95
print("right")
