"""The same JAX programs on npu and on XLA:CPU: training steps, decoding with a KV cache, an elementwise chain, and
what compiling each costs with nothing cached."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.pair import Comparison, report

_MODELS = Path(__file__).resolve().parents[1] / "examples" / "jax"
Work = Callable[[], None]
# A program: its function and its arguments; what it returns first takes the place of its first argument.
Program = tuple[Callable[..., Any], list[Any]]


def mlp() -> Program:
    """A training step of a 784-512-512-10 MLP, 128 rows."""
    import jax
    import jax.numpy as jnp

    sizes = (784, 512, 512, 10)
    keys = jax.random.split(jax.random.key(0), 3)
    params = [
        (jax.nn.initializers.he_normal()(k, (i, o)), jnp.zeros(o))
        for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        for weight, bias in params[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        scores = jax.nn.log_softmax(x @ params[-1][0] + params[-1][1])
        return -jnp.mean(jnp.take_along_axis(scores, y[:, None], axis=1))

    def update(params: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), loss

    x = jax.random.normal(jax.random.key(1), (128, 784))
    return update, [params, x, jnp.arange(128) % 10]


def transformer() -> Program:
    """A training step of the example's decoder with AdamW, 8 sequences of 128."""
    import jax
    import optax

    sys.path.insert(0, str(_MODELS))
    from model import Config, init, logits

    config, optimizer = Config(), optax.adamw(1e-3)
    params = init(config, jax.random.key(0))

    def loss_of(params: Any, tokens: Any) -> Any:
        scores = logits(config, params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(scores, tokens[:, 1:]).mean()

    def update(carry: Any, tokens: Any) -> Any:
        params, state = carry
        loss, gradients = jax.value_and_grad(loss_of)(params, tokens)
        changes, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, changes), state), loss

    tokens = jax.random.randint(jax.random.key(1), (8, config.length + 1), 0, 256)
    return update, [(params, optimizer.init(params)), tokens]


def chain() -> Program:
    """Twelve elementwise operations over 4M floats."""
    import jax
    import jax.numpy as jnp

    def update(x: Any) -> Any:
        y = x * 0.5 + 0.25
        y = jnp.maximum(jnp.maximum(y, 0) * 1.5 - 0.125, -1)
        y = jnp.sqrt(jnp.minimum(jnp.abs(y), 2.0) + 1.0) * 0.75
        return -y, None

    return update, [jax.random.normal(jax.random.key(0), (4 * 1024 * 1024,))]


def tiny() -> Program:
    """An addition and a sine of 16 floats."""
    import jax.numpy as jnp

    return lambda x: (jnp.sin(x) + 1.0, None), [jnp.ones(16)]


ROUNDS = 5  # of compiling
PROGRAMS: dict[str, Callable[[], Program]] = {
    "mlp": mlp,
    "transformer": transformer,
    "chain": chain,
    "tiny": tiny,
}


def running(platform: str, name: str, executor: str | None = None) -> Work:
    """One call of the compiled program, waited for. `executor`: of npu, None its default; XLA always fuses."""
    os.environ["JAX_PLATFORMS"] = platform
    import jax

    function, arguments = PROGRAMS[name]()
    options = {"npu_compiler": executor} if executor and platform == "npu" else None
    jitted = jax.jit(function, compiler_options=options)
    state = [arguments[0]]

    def work() -> None:
        state[0] = jax.block_until_ready(jitted(state[0], *arguments[1:]))[0]

    work()
    return work


def compiling(platform: str, name: str) -> Work:
    """Lowered beforehand as often as it is compiled: a compiled program is kept with what was lowered."""
    os.environ["JAX_PLATFORMS"] = platform
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    os.environ["NPU_CACHE_DIR"] = tempfile.mkdtemp()
    import jax

    function, arguments = PROGRAMS[name]()
    lowered = [jax.jit(lambda *given: function(*given)).lower(*arguments) for _ in range(ROUNDS + 2)]

    def work() -> None:
        lowered.pop().compile()

    return work


def decoding(platform: str) -> Work:
    """64 tokens of the example's decoder, one a step."""
    os.environ["JAX_PLATFORMS"] = platform
    sys.path.insert(0, str(_MODELS))
    import jax
    import jax.numpy as jnp
    from model import Config, empty_cache, init, step

    config = Config()
    params = init(config, jax.random.key(0))

    @jax.jit
    def pick(scores: Any) -> Any:
        return jnp.argmax(scores[:, -1:], axis=-1).astype(jnp.int32)

    def work() -> None:
        token, cache = jnp.zeros((1, 1), jnp.int32), empty_cache(config, 1)
        for position in range(64):
            scores, cache = step(config, params, token, cache, jnp.int32(position))
            token = pick(scores)
        token.block_until_ready()

    work()
    return work


def _pair(title: str, goal: float, work: Callable[..., Work], *arguments: Any, rounds: int = 9) -> Comparison:
    return Comparison(
        title, partial(work, "npu", *arguments), partial(work, "cpu", *arguments), goal, rounds=rounds
    )


COMPARISONS = [
    _pair("MLP training step", 1.1, running, "mlp"),
    _pair("transformer training step", 1.1, running, "transformer"),
    _pair("64 tokens with a KV cache", 1.5, decoding),
    _pair("elementwise chain, afir", 1.5, running, "chain", "afir"),
    _pair("compile: tiny", 1.0, compiling, "tiny", rounds=ROUNDS),
    _pair("compile: MLP", 1.0, compiling, "mlp", rounds=ROUNDS),
    _pair("compile: transformer", 1.0, compiling, "transformer", rounds=ROUNDS),
]


def run(cores: list[int]) -> bool:
    """Prints a line per program; returns whether any ratio is beyond its goal."""
    return report(COMPARISONS, cores, "npu", "XLA:CPU")
