"""Element-by-element operators that torch_npu has no function for, or calls in one of their forms only."""

import pytest
import torch

from .aclnn import Float, Scalar, call

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
F = torch.nn.functional


def numbers(seed=0, low=-0.9, high=0.9):
    return (
        torch.rand(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * (high - low)
        + low
    )


def close(actual, expected):
    tolerance = TOLERANCE.get(actual.dtype, 0)
    torch.testing.assert_close(actual.cpu(), expected.to(actual.dtype), rtol=tolerance, atol=tolerance)


def situ(x, beta, linear_beta, activate_left):
    gate, up = x.chunk(2, -1) if activate_left else reversed(x.chunk(2, -1))
    return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * (
        linear_beta * torch.tanh(up / linear_beta) if linear_beta > 0 else up
    )  # fmt: skip


# name, formula of x (and y) in float64, range of x
OF_ONE = [
    ("Square", torch.square, -3, 3),
    ("Lgamma", torch.lgamma, 0.1, 5),
    ("Digamma", torch.digamma, 0.5, 5),
    ("Ndtri", torch.special.ndtri, 0.05, 0.95),
    ("AsinWithAgent", torch.asin, -0.9, 0.9),
    ("AsinhV2", torch.asinh, -3, 3),
    ("SquaredRelu", lambda x: torch.relu(x) ** 2, -3, 3),
    ("Selu", F.selu, -3, 3),
    ("Softsign", F.softsign, -3, 3),
    ("HardsigmoidV2", F.hardsigmoid, -5, 5),
    ("TensorMove", lambda x: x, -3, 3),
    ("Gelu", lambda x: F.gelu(x, approximate="tanh"), -3, 3),
]
OF_TWO = [
    ("MulNoNan", torch.mul, 0.1, 3),
    ("AssignSub", torch.sub, -3, 3),
    ("RealDiv", torch.div, 0.5, 3),
    ("FloorDiv", torch.floor_divide, 0.5, 3),
    ("TruncateDiv", lambda x, y: torch.div(x, y, rounding_mode="trunc"), 0.5, 3),
    ("TruncateMod", torch.fmod, 0.5, 3),
    ("Xlog1py", torch.special.xlog1py, 0.1, 3),
    ("Heaviside", torch.heaviside, -3, 3),
    ("SiluMul", lambda x, y: F.silu(x) * y, -3, 3),
    ("AcoshGrad", lambda y, dy: dy / torch.sinh(y), 0.5, 3),
    ("AsinhGrad", lambda y, dy: dy / torch.cosh(y), -3, 3),
    ("AsinGrad", lambda x, dy: dy / torch.sqrt(1 - x * x), -0.8, 0.8),
    ("AcosGrad", lambda dy, x: -dy / torch.sqrt(1 - x * x), -0.8, 0.8),
    ("AcosGradV2", lambda x, dy: -dy / torch.sqrt(1 - x * x), -0.8, 0.8),
    ("AtanGrad", lambda x, dy: dy / (1 + x * x), -3, 3),
    ("SqrtBackward", lambda y, dy: dy / (2 * y), 0.5, 3),
    ("TanhGrad", lambda y, dy: dy * (1 - y * y), -0.9, 0.9),
    ("SoftsignBackward", lambda dy, x: dy / (1 + x.abs()) ** 2, -3, 3),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "formula", "low", "high"), OF_ONE, ids=[row[0] for row in OF_ONE])
def test_of_one_operand(name, formula, low, high, dtype):
    x = numbers(low=low, high=high).to(dtype)
    out = torch.empty(6, 4, dtype=dtype).npu().t()
    call(name, x.npu(), out)
    close(out, formula(x.double()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "formula", "low", "high"), OF_TWO, ids=[row[0] for row in OF_TWO])
def test_of_two_operands(name, formula, low, high, dtype):
    x, y = numbers(low=low, high=high).to(dtype), numbers(1, low, high).to(dtype)
    out = torch.empty(6, 4, dtype=dtype).npu().t()
    call(name, x.npu(), y.npu(), out)
    close(out, formula(x.double(), y.double()))


def test_mul_no_nan_is_0_where_the_second_factor_is_0():
    x, y = (
        torch.tensor([float("inf"), float("nan"), 2.0, 0.0]).npu(),
        torch.tensor([0.0, 0.0, 3.0, 5.0]).npu(),
    )
    out = torch.empty(4).npu()
    call("MulNoNan", x, y, out)
    close(out, torch.tensor([0.0, 0.0, 6.0, 0.0]))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_division_by_mode(mode):
    x, y = torch.tensor([7.0, -7.0, 7.5, -0.5]), torch.tensor([2.0, 2.0, -2.0, 1.0])
    expected = torch.div(x, y, rounding_mode=[None, "trunc", "floor"][mode])
    out = torch.empty(4).npu()
    call("DivV3", x.npu(), y.npu(), mode, out)
    close(out, expected)


def test_add_v3_adds_to_a_scalar():
    x = torch.tensor([1, 2, 3], dtype=torch.int32)
    out = torch.empty(3).npu()
    call("AddV3", Scalar(0.5), x.npu(), Scalar(2.0), out)
    close(out, 0.5 + 2.0 * x)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32], ids=str)
def test_sums_and_extremes_of_lists(dtype):
    lists = [(numbers(seed) * 9).to(dtype) for seed in range(3)]
    stacked = torch.stack(lists).double()
    for name, expected in [
        ("AddN", stacked.sum(0)), ("Sum", stacked.sum(0)), ("SumV2", stacked.sum(0)),
        ("MaxN", stacked.amax(0)), ("MinN", stacked.amin(0)),
    ]:  # fmt: skip
        out = torch.empty(4, 6, dtype=dtype).npu()
        call(name, [t.npu() for t in lists], out)
        close(out, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scalars_inside_tensors(dtype):
    x, y = numbers().to(dtype), numbers(1).to(dtype)
    out, alpha = torch.empty(4, 6, dtype=dtype).npu(), torch.tensor([0.5], dtype=dtype).npu()
    call("AxpyV2", x.npu(), y.npu(), alpha, out)
    close(out, x.double() + 0.5 * y.double())
    call("FusedMulAddN", x.npu(), y.npu(), alpha, out)
    close(out, 0.5 * x.double() + y.double())
    halved = torch.empty(4, 3, dtype=dtype).npu()
    call("FatreluMul", x.npu(), alpha, halved)
    a, b = x.double().chunk(2, -1)
    close(halved, torch.where(a < 0.5, 0.0, a) * b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("beta", [None, 1.0, 0.3])
def test_swish_and_its_gradient(dtype, beta):
    x, grad = (numbers() * 4).to(dtype), numbers(1).to(dtype)
    exact = x.double().requires_grad_()
    y = exact * torch.sigmoid((1.0 if beta is None else beta) * exact)
    (expected,) = torch.autograd.grad(y, exact, grad.double())
    out = torch.empty(4, 6, dtype=dtype).npu()
    call("Swish", x.npu(), beta and Scalar(beta), out)
    close(out, y.detach())
    call("SwishBackward", grad.npu(), x.npu(), beta and Scalar(beta), out)
    close(out, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("activate_left", [False, True])
@pytest.mark.parametrize(("beta", "linear_beta"), [(1.0, 0.0), (2.0, 3.0)])
def test_situ_glu_and_its_gradient(dtype, beta, linear_beta, activate_left):
    x, grad = (numbers() * 4).to(dtype), numbers(1)[:, :3].to(dtype)
    exact = x.double().requires_grad_()
    y = situ(exact, beta, linear_beta, activate_left)
    (expected,) = torch.autograd.grad(y, exact, grad.double())
    out, back = torch.empty(4, 3, dtype=dtype).npu(), torch.empty(4, 6, dtype=dtype).npu()
    call("SituGlu", x.npu(), -1, beta, linear_beta, activate_left, out)
    close(out, y.detach())
    call("SituGluGrad", grad.npu(), x.npu(), -1, beta, linear_beta, activate_left, back)
    close(back, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shrink_and_relu_with_mask(dtype):
    x = (numbers() * 3).to(dtype)
    out, mask = torch.empty(4, 6, dtype=dtype).npu(), torch.empty(4, 6, dtype=torch.uint8).npu()
    call("Shrink", x.npu(), Scalar(0.5), Scalar(0.25), out)
    exact = x.double()
    close(out, torch.where(exact > 0.5, exact - 0.25, torch.where(exact < -0.5, exact + 0.25, 0.0)))
    call("ReluV3", x.npu(), out, mask)
    close(out, torch.relu(x.double()))
    close(mask, x > 0)


def test_log_sigmoid_writes_the_buffer_it_is_given():
    x = numbers() * 5
    out, buffer = torch.empty(4, 6).npu(), torch.empty(4, 6).npu()
    call("LogSigmoidForward", x.float().npu(), out, buffer)
    close(out, F.logsigmoid(x))
    close(buffer, torch.exp(-x.abs()))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32], ids=str)
def test_older_foreach_operators_take_their_scalar_as_a_tensor(dtype):
    x = [(numbers(seed) * 9).to(dtype) for seed in range(3)]
    y = [(numbers(seed) * 9).to(dtype) for seed in (3, 4, 5)]
    value = 2
    scalar = torch.tensor([value], dtype=dtype).npu()
    moved, others = [t.npu() for t in x], [t.npu() for t in y]
    for name, arguments, expected in [
        ("ForeachAddScalar", [scalar], lambda a, b: a + value),
        ("ForeachSubScalar", [scalar], lambda a, b: a - value),
        ("ForeachMulScalar", [scalar], lambda a, b: a * value),
        ("ForeachMaximumScalar", [scalar], lambda a, b: a.clamp_min(value)),
        ("ForeachMinimumScalar", [scalar], lambda a, b: a.clamp_max(value)),
        ("ForeachPowScalar", [scalar], lambda a, b: a**value),
        ("ForeachAddList", [others, scalar], lambda a, b: a + value * b),
        ("ForeachSubList", [others, scalar], lambda a, b: a - value * b),
        ("ForeachMulScalarList", [[Scalar(value)] * 3], lambda a, b: a * value),
    ]:
        out = [torch.empty_like(t) for t in moved]
        call(name, moved, *arguments, out)
        for a, b, result in zip(x, y, out, strict=True):
            close(result, expected(a.double(), b.double()))


@pytest.mark.parametrize("name", ["Addcmul", "Addcdiv"])
def test_older_foreach_multiply_add(name):
    lists = [[numbers(3 * i + k, 0.5, 2) for k in range(3)] for i in range(3)]
    moved = [[t.float().npu() for t in items] for items in lists]
    scalars = torch.tensor([0.5, 2.0, -1.0])
    for form, by in [("ScalarList", scalars), ("List", scalars), ("Scalar", scalars[:1])]:
        out = [torch.empty(4, 6).npu() for _ in range(3)]
        call(f"Foreach{name}{form}", *moved, by.npu(), out)
        for k in range(3):
            a, b, c = (items[k] for items in lists)
            product = b * c if name == "Addcmul" else b / c
            close(out[k], a + (by[k] if len(by) > 1 else by[0]).double() * product)


def test_foreach_in_place_and_rounding():
    x = [torch.tensor([0.5, 1.5, -2.5, 2.7]), torch.tensor([-0.3])]
    moved = [t.npu() for t in x]
    for mode, function in [
        (1, torch.round), (2, torch.floor), (3, torch.ceil), (5, torch.trunc), (7, torch.frac),
    ]:  # fmt: skip
        out = [torch.empty_like(t) for t in moved]
        call("ForeachRoundOffNumber", moved, torch.tensor([mode], dtype=torch.int8).npu(), out)
        for a, result in zip(x, out, strict=True):
            close(result, function(a))
    call("ForeachAddListInplace", moved, moved, torch.tensor([1.0]).npu())
    call("ForeachMulScalarInplace", moved, torch.tensor([0.25]).npu())
    for a, result in zip(x, moved, strict=True):
        close(result, a / 2)


def test_bytes_are_masks():
    mask = torch.tensor([0, 1, 2, 0], dtype=torch.uint8).npu()
    x, out = torch.arange(4.0).npu(), torch.empty(4).npu()
    call("SWhere", mask, x, -x, out)
    close(out, torch.tensor([0.0, 1.0, 2.0, -3.0]))
    call("InplaceMaskedFillScalar", x, mask, Scalar(9.0))
    close(x, torch.tensor([0.0, 9.0, 9.0, 3.0]))


def test_approximate_equal():
    out = torch.empty(3, dtype=torch.bool).npu()
    call(
        "ApproximateEqual",
        torch.tensor([1.0, 1.0, 1.0]).npu(),
        torch.tensor([1.0, 1.05, 1.2]).npu(),
        Float(0.1),
        out,
    )
    assert out.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("SwiGlu", (-1, torch.empty(3, 2)), "cannot be halved"),
        ("GeluV2", (2, torch.empty(3, 5)), "approximate must be 0"),
        ("Abs", (torch.empty(4, 5),), "the output has shape"),
        ("DivMods", (Scalar(2.0), 3, torch.empty(3, 5)), "mode must be 0"),
    ],
    ids=["halves", "parameter", "shape", "mode"],
)
def test_what_is_not_supported_says_so(name, arguments, sentence, device_that_fails):
    moved = [a.npu() if isinstance(a, torch.Tensor) else a for a in arguments]
    with pytest.raises(RuntimeError, match=f"aclnn{name}.*{sentence}"):
        call(name, torch.ones(3, 5).npu(), *moved)
