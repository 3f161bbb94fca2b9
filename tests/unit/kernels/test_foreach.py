"""torch._foreach_*: lists of tensors against the same call on the CPU (a loop over single operators)."""

import pytest
import torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32]
FLOATS = DTYPES[:3]
SHAPES = [(3, 4), (), (0, 2), (65,), (2, 3, 5)]

UNARY = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"]


EACH = [0.5, -1.0, 2.0, 3.0, 0.125]


def tensors(dtype, seed=0, low=0.1, high=0.9):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return [(torch.rand(s, generator=generator) * (high - low) + low).to(dtype) for s in SHAPES]
    return [torch.randint(1, 5, s, generator=generator).to(dtype) for s in SHAPES]


def to_npu(argument):  # torch wants the scalars of a list in a tensor on the CPU
    if isinstance(argument, list) and argument and isinstance(argument[0], torch.Tensor):
        return [t.npu() for t in argument]
    return argument


def check(name, *arguments, **options):
    expected = getattr(torch, f"_foreach_{name}")(*arguments, **options)
    actual = getattr(torch, f"_foreach_{name}")(*map(to_npu, arguments), **options)
    torch.testing.assert_close([t.cpu() for t in actual], list(expected))
    if name == "norm":
        return
    inplace, moved = getattr(torch, f"_foreach_{name}_"), list(map(to_npu, arguments))
    if expected[0].dtype == arguments[0][0].dtype:
        inplace(*moved, **options)
        torch.testing.assert_close([t.cpu() for t in moved[0]], list(expected))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    check(name, tensors(dtype))


@pytest.mark.parametrize("name", ["abs", "neg", "sign", "ceil", "floor", "round", "trunc"])
def test_unary_on_integers(name):
    check(name, tensors(torch.int32))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_list_with_list(name, dtype):
    check(name, tensors(dtype), tensors(dtype, seed=1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_list_with_scalar(name, dtype):
    check(name, tensors(dtype), 2 if dtype == torch.int32 else 0.7)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_list_with_scalars(name, dtype):
    check(name, tensors(dtype), [1, 2, 3, 2, 1] if dtype == torch.int32 else [0.3, 0.7, 1.5, 2.0, 0.25])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha(name, dtype):
    check(name, tensors(dtype), tensors(dtype, seed=1), alpha=3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize(
    "value", [0.5, [0.5, -1.0, 2.0, 3.0, 0.125], torch.tensor([0.5, -1.0, 2.0, 3.0, 0.125])]
)
def test_multiply_add(name, dtype, value):
    check(name, tensors(dtype), tensors(dtype, seed=1), tensors(dtype, seed=2), value)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_lerp(dtype):
    check("lerp", tensors(dtype), tensors(dtype, seed=1), 0.3)
    check("lerp", tensors(dtype), tensors(dtype, seed=1), tensors(dtype, seed=2))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norm(dtype, order):
    lists = [t for t in tensors(dtype) if t.numel()]
    check("norm", lists, order)


def test_more_tensors_than_one_call_takes():
    many = [torch.full((2,), float(i)) for i in range(130)]
    check("add", many, many)
    check("mul", many, 0.5)
    check("sqrt", many)


def test_copy_converts_and_zero_fills():
    source = tensors(torch.float32)
    target = [torch.full_like(t, 7, dtype=torch.bfloat16).npu() for t in source]
    torch._foreach_copy_(target, to_npu(source))
    torch.testing.assert_close([t.cpu() for t in target], [t.bfloat16() for t in source])
    torch._foreach_zero_(target)
    assert not any(t.any() for t in target)


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_check_and_unscale(dtype, bad):
    grads = tensors(dtype)
    if bad is not None:
        grads[3][7] = bad
    moved, found = to_npu(grads), torch.zeros(1).npu()
    torch._amp_foreach_non_finite_check_and_unscale_(moved, found, torch.full((1,), 0.25).npu())
    assert found.item() == (bad is not None)
    torch.testing.assert_close([t.cpu() for t in moved], [t * 0.25 for t in grads], equal_nan=True)
