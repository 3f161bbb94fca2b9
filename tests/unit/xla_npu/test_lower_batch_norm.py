"""Batch normalisation against the specification's formulas, in float64: the reference interpreter does not have it."""

import numpy as np
import pytest

from tests.unit.xla_npu.oracle import check, program
from tests.unit.xla_npu.test_lower_dot import sample, type_of

SHAPES = (((2, 3, 4), 1), ((5, 2), 1), ((3, 2, 2, 4), 0), ((4,), 0))
TOLERANCE = {"f32": 1e-5, "f64": 1e-12, "bf16": 3e-2, "f16": 5e-3}


def arguments(shape, feature, element):
    x = sample(shape, element, 0)
    rows = [sample((shape[feature],), element, seed) for seed in (1, 2, 3)]
    return x, *rows, np.abs(sample((shape[feature],), element, 4)) + rows[0].dtype.type(0.5)


def formulas(x, scale, offset, mean, variance, grad, feature):
    """Inference, training and gradient, by NumPy."""
    others = tuple(axis for axis in range(x.ndim) if axis != feature)
    row = [-1 if axis == feature else 1 for axis in range(x.ndim)]
    x, grad = x.astype(np.float64), grad.astype(np.float64)
    scale, offset, mean, variance = (
        v.astype(np.float64).reshape(row) for v in (scale, offset, mean, variance)
    )
    epsilon = float(np.float32(0.01))

    def normal(mean, variance):
        return (x - mean) / np.sqrt(variance + epsilon)

    own_mean, own_variance = x.mean(others), x.var(others)
    trained = normal(own_mean.reshape(row), own_variance.reshape(row)) * scale + offset
    count = x.size // x.shape[feature]
    of_offset, of_scale = grad.sum(others), (grad * normal(mean, variance)).sum(others)
    inner = count * grad - of_offset.reshape(row) - normal(mean, variance) * of_scale.reshape(row)
    of_operand = scale / np.sqrt(variance + epsilon) / count * inner
    inferred = normal(mean, variance) * scale + offset
    return [inferred], [trained, own_mean, own_variance], [of_operand, of_scale, of_offset]


def settings(feature):
    return f"<{{epsilon = 0.01 : f32, feature_index = {feature} : i64}}>"


@pytest.mark.parametrize("element", TOLERANCE)
@pytest.mark.parametrize(("shape", "feature"), SHAPES)
def test_batch_norm(shape, feature, element):
    x, scale, offset, mean, variance = arguments(shape, feature, element)
    grad = sample(shape, element, 5)
    inferred, trained, gradients = (
        [v.astype(x.dtype) for v in values]
        for values in formulas(x, scale, offset, mean, variance, grad, feature)
    )
    t, r = type_of(shape, element), type_of((shape[feature],), element)
    limit = TOLERANCE[element]
    text = program(
        f'%0 = "stablehlo.batch_norm_inference"(%a0, %a1, %a2, %a3, %a4) {settings(feature)}'
        f" : ({t}, {r}, {r}, {r}, {r}) -> {t}\nreturn %0 : {t}",
        [t, r, r, r, r],
        [t],
    )
    check(text, [x, scale, offset, mean, variance], limit, limit, inferred)
    text = program(
        f'%0:3 = "stablehlo.batch_norm_training"(%a0, %a1, %a2) {settings(feature)}'
        f" : ({t}, {r}, {r}) -> ({t}, {r}, {r})\nreturn %0#0, %0#1, %0#2 : {t}, {r}, {r}",
        [t, r, r],
        [t, r, r],
    )
    check(text, [x, scale, offset], limit, limit, trained)
    text = program(
        f'%0:3 = "stablehlo.batch_norm_grad"(%a0, %a1, %a2, %a3, %a4) {settings(feature)}'
        f" : ({t}, {r}, {r}, {r}, {t}) -> ({t}, {r}, {r})\nreturn %0#0, %0#1, %0#2 : {t}, {r}, {r}",
        [t, r, r, r, t],
        [t, r, r],
    )
    check(text, [x, scale, mean, variance, grad], 4 * limit, 4 * limit, gradients)
