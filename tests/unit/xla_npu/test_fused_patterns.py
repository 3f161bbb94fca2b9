"""What JAX writes for softmax, norms, activations and attention reaches CANN's fused operators, and near misses do not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from npu_common.graph import passes
from tests.unit.xla_npu.oracle import run_npu
from xla_npu import frontend
from xla_npu.lowering import Context, load_rules
from xla_npu.types import tensor_type

F32 = np.float32
X = jax.ShapeDtypeStruct((4, 8, 16), F32)
ROW = jax.ShapeDtypeStruct((16,), F32)


def operators(function, *arguments):
    """The types of the nodes after all passes, constants and inputs left out."""
    load_rules()
    module = frontend.parse(jax.jit(function).lower(*arguments).as_text().encode())
    frontend.simplify(module)
    table = frontend.functions(module)
    block = table["main"].regions[0].blocks[0]
    context = Context("t", table)
    types = [tensor_type(argument.type) for argument in block.arguments]
    inputs = [context.builder.input(f"a{i}", t.dtype, t.shape) for i, t in enumerate(types)]
    for value in context.lower_block(block, inputs):
        context.builder.output(value)
    passes.standard(check=True).run(context.builder.graph)
    return [node.type for node in context.builder.graph.order() if node.type not in ("Data", "Const")]


def layer_norm(x, gamma, beta):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gamma + beta


def rms_norm(x, gamma):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gamma


HEADS = jax.ShapeDtypeStruct((2, 8, 4, 16), F32)  # batch, positions, heads, size of a head


def attention(**options):
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **options)


FUSED = {
    "SoftmaxV2": (lambda x: jax.nn.softmax(x, -1), (X,)),
    "LayerNormV4": (layer_norm, (X, ROW, ROW)),
    "RmsNorm": (rms_norm, (X, ROW)),
    "GeluV2": (jax.nn.gelu, (X,)),
    "Swish": (jax.nn.silu, (X,)),
}
MISSES = {
    "SoftmaxV2": (
        lambda x: jnp.exp(x - jnp.max(x, -1, keepdims=True)) / jnp.sum(jnp.exp(x), -1, keepdims=True),
        (X,),
    ),
    "LayerNormV4": (
        lambda x, g, b: (x - jnp.mean(x, 0)) * lax.rsqrt(jnp.var(x, 0) + 1e-5) * g + b,
        (X, ROW, ROW),
    ),
    "RmsNorm": (lambda x, g: x * lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6) * g, (X, ROW)),
    "GeluV2": (lambda x: 0.5 * x * (1 + jnp.tanh(0.9 * (x + 0.044715 * x**3))), (X,)),
    "Swish": (lambda x: x / (2 + jnp.exp(-x)), (X,)),
}


@pytest.mark.parametrize("name", FUSED)
def test_what_jax_writes_is_one_operator(name):
    function, arguments = FUSED[name]
    assert operators(function, *arguments) == [name]


@pytest.mark.parametrize("name", FUSED)
def test_the_fused_program_means_the_same(name):
    function, arguments = FUSED[name]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=a.shape).astype(a.dtype) for a in arguments]
    text = jax.jit(function).lower(*arguments).as_text()
    want = np.asarray(jax.jit(function)(*(jax.device_put(a, jax.devices("cpu")[0]) for a in arrays)))
    np.testing.assert_allclose(run_npu(text, arrays, fuse=True)[0], want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", MISSES)
def test_near_misses_are_left_alone(name):
    function, arguments = MISSES[name]
    assert name not in operators(function, *arguments)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.5}], ids=str)
def test_attention_is_one_operator(options):
    function = attention(**options)
    found = operators(function, HEADS, HEADS, HEADS)
    assert found.count("FlashAttentionScore") == 1 and set(found) == {"FlashAttentionScore", "Transpose"}
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=HEADS.shape).astype(F32) for _ in range(3)]
    want = np.asarray(function(*(jax.device_put(a, jax.devices("cpu")[0]) for a in arrays)))
    text = jax.jit(function).lower(HEADS, HEADS, HEADS).as_text()
    np.testing.assert_allclose(run_npu(text, arrays, fuse=True)[0], want, rtol=2e-5, atol=2e-5)


def test_attention_whose_weights_are_used_is_left_alone():
    def function(q, k, v):
        weights = jax.nn.softmax(jnp.einsum("btnh,bsnh->bnts", q, k) * 0.25, -1)
        return weights, jnp.einsum("bnts,bsnh->btnh", weights, v)

    assert "FlashAttentionScore" not in operators(function, HEADS, HEADS, HEADS)


def test_numbers_stay_numbers():
    """A number that JAX broadcasts to an array does not become an array of the program."""
    assert operators(lambda x: jnp.maximum(x * 2 + 1, 0), X) == ["Mul", "Add", "Maximum"]
