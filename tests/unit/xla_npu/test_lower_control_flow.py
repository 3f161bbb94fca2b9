"""Loops and branches, from JAX, against XLA on cpu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.unit.xla_npu.oracle import check, program, run_npu
from xla_npu.errors import CompileError

F = np.float32
X = np.linspace(-2, 2, 6, dtype=F).reshape(2, 3)
W = np.array([[0.5, -1, 0.25], [1, 0.5, 0], [0, 0.125, -0.5]], F)


def same_as_cpu(function: Callable[..., Any], *arguments: Any, rtol: float = 1e-5) -> None:
    lowered = jax.jit(function).lower(*arguments)
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
    given = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    ours = run_npu(lowered.as_text(), [given[i] for i in kept])
    for x, y in zip(ours, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6)


def collatz(n):
    return lax.while_loop(
        lambda s: s[0] > 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0)
    )


@pytest.mark.parametrize("n", [1, 2, 27])
def test_while_of_unknown_length(n):
    same_as_cpu(collatz, np.int32(n))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_fori_loop_with_closures(n):
    def power(w, x, n):
        big = jnp.full((40, 3), 0.5, F)  # a constant of around
        return lax.fori_loop(0, n, lambda i, y: jnp.tanh(y @ w) + big[0] * i, x)

    same_as_cpu(power, W, X, np.int32(n))


def test_scan_its_gradient_and_both_directions():
    def recurrence(w, xs):
        def step(h, x):
            h = jnp.tanh(h @ w + x)
            return h, h.sum()

        h, sums = lax.scan(step, jnp.zeros(3, F), xs)
        _, back = lax.scan(step, h, xs, reverse=True)
        return (sums + back).sum()

    same_as_cpu(recurrence, W, X)
    same_as_cpu(jax.value_and_grad(recurrence, argnums=(0, 1)), W, X, rtol=1e-4)
    same_as_cpu(jax.jacfwd(recurrence), W, X, rtol=1e-4)


def test_scan_of_nothing_and_of_empty_arrays():
    same_as_cpu(lambda xs: lax.scan(lambda c, x: (c + 1, x * 2), jnp.int32(0), xs), np.zeros((0, 3), F))
    same_as_cpu(lambda xs: lax.scan(lambda c, x: (c + 1, x * 2), jnp.int32(0), xs), np.zeros((4, 0), F))


def test_states_that_change_places_and_stay():
    def swap(x, y):
        return lax.fori_loop(0, 3, lambda i, s: (s[1], s[0], s[2]), (x, y, x + y))

    same_as_cpu(swap, X, -X)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 7])
def test_switch(index):
    branches = [lambda x, w: x @ w, lambda x, w: x * 2 + w[0], lambda x, w: x]
    same_as_cpu(lambda i, x, w: lax.switch(i, branches, x, w), np.int32(index), X, W)


@pytest.mark.parametrize("flag", [True, False])
def test_cond_and_its_gradient(flag):
    def choose(flag, x, w):
        return lax.cond(flag, lambda x: (jnp.sin(x) @ w).sum(), lambda x: 3.0 * x.sum(), x)

    same_as_cpu(choose, flag, X, W)
    same_as_cpu(jax.grad(choose, argnums=(1, 2)), flag, X, W)


def test_batched_predicates_and_lengths():
    flags = np.array([True, False, True])
    xs = np.arange(3, dtype=F)
    same_as_cpu(jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)), flags, xs)
    same_as_cpu(
        jax.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x)), np.array([0, 1, 5], np.int32), xs
    )
    same_as_cpu(jax.vmap(collatz), np.array([1, 6, 7], np.int32))


def test_nested():
    def nested(x, n):
        def outer(i, s):
            total, grid = s
            inner = lax.fori_loop(
                0, i, lambda j, t: t + lax.cond(j % 2 == 0, lambda: x[0, 0], lambda: 1.0 * n), 0.0
            )
            return total + inner, grid.at[i].set(inner)

        return lax.fori_loop(0, n, outer, (jnp.float32(0), jnp.zeros(6, F)))

    same_as_cpu(nested, X, np.int32(5))


def test_loops_of_several_types():
    with jax.enable_x64(True):

        def body(i, s):
            a, b, c, d, e = s
            return a + i, ~b, c * 2, d + 1, e

        start = (np.float64(1.5), np.bool_(True), np.array([1, -2], F), np.uint32(2**32 - 2), np.int64(2**40))
        same_as_cpu(lambda *s: lax.fori_loop(0, 3, body, s), *start)


def test_associative_scan_and_map():
    same_as_cpu(lambda x: lax.associative_scan(jnp.add, x), np.arange(7, dtype=F))
    same_as_cpu(lambda x: lax.map(lambda r: r * r.sum(), x), X)


def test_stablehlo_if_and_case_of_one_branch():
    t = "tensor<2xf32>"
    text = program(
        f"""%0 = "stablehlo.if"(%a0) ({{ stablehlo.return %a1 : {t} }}, {{ %n = stablehlo.negate %a1 : {t}
        stablehlo.return %n : {t} }}) : (tensor<i1>) -> {t}
        %1 = "stablehlo.case"(%a2) ({{ stablehlo.return %0 : {t} }}) : (tensor<i32>) -> {t}
        return %1 : {t}""",
        ["tensor<i1>", t, "tensor<i32>"],
        [t],
    )
    for flag in (True, False):
        check(text, [np.array(flag), np.array([1, -0.0], F), np.array(4, np.int32)])


def test_an_operation_without_rule_in_a_body_is_named():
    text = program(
        """%0 = "stablehlo.if"(%a0) ({ %1 = stablehlo.custom_call @nothing() : () -> tensor<f32>
        stablehlo.return %1 : tensor<f32> }, { %2 = stablehlo.constant dense<1.0> : tensor<f32>
        stablehlo.return %2 : tensor<f32> }) : (tensor<i1>) -> tensor<f32>
        return %0 : tensor<f32>""",
        ["tensor<i1>"],
        ["tensor<f32>"],
    )
    with pytest.raises(CompileError, match="nothing"):
        run_npu(text, [np.bool_(True)])
