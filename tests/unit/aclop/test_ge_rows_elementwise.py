"""GE operators that work element by element, against torch in float64: every dtype, awkward shapes, in place."""

import pytest
import torch
from torch.nn import functional as F

from .rows import FLOATS, SHAPES, Case, call, check, equal, sample, scalar

INTEGERS = (torch.int32, torch.int64)
REAL = FLOATS + INTEGERS


#: type: (reference, low, high of the input, dtypes, attributes)
UNARY = {
    "Abs": (torch.abs, -3, 3, REAL, {}),
    "Neg": (torch.neg, -3, 3, REAL, {}),
    "Sign": (torch.sign, -3, 3, REAL, {}),
    "Square": (torch.square, -3, 3, REAL, {}),
    "Sqrt": (torch.sqrt, 0, 9, FLOATS, {}),
    "Rsqrt": (torch.rsqrt, 0.1, 9, FLOATS, {}),
    "Reciprocal": (torch.reciprocal, 0.2, 9, FLOATS, {}),
    "Inv": (torch.reciprocal, 0.2, 9, FLOATS, {}),
    "Sinc": (torch.sinc, -3, 3, FLOATS, {}),
    "Ndtri": (torch.special.ndtri, 0.1, 0.9, FLOATS, {}),
    "BesselI0e": (torch.special.i0e, -2, 2, (torch.float32,), {}),
    "BesselI1e": (torch.special.i1e, -2, 2, (torch.float32,), {}),
    "SquaredRelu": (lambda x: F.relu(x) ** 2, -2, 2, FLOATS, {}),
    "Logit": (lambda x: torch.logit(x, 0.2), 0.05, 0.95, FLOATS, {"eps": 0.2}),
    "ThresholdV2D": (lambda x: F.threshold(x, 0.5, 2), -3, 3, FLOATS, {"threshold": 0.5, "value": 2.0}),
    "Exp": (torch.exp, -3, 3, FLOATS, {"base": -1.0, "scale": 1.0, "shift": 0.0}),
    "Expm1": (torch.expm1, -2, 2, FLOATS, {}),
    "Log": (torch.log, 0.1, 9, FLOATS, {"base": -1.0, "scale": 1.0, "shift": 0.0}),
    "Log1p": (torch.log1p, -0.5, 9, FLOATS, {}),
    "Sin": (torch.sin, -3, 3, FLOATS, {}),
    "Cos": (torch.cos, -3, 3, FLOATS, {}),
    "Tan": (torch.tan, -1, 1, FLOATS, {}),
    "Asin": (torch.asin, -0.9, 0.9, FLOATS, {}),
    "Acos": (torch.acos, -0.9, 0.9, FLOATS, {}),
    "Atan": (torch.atan, -3, 3, FLOATS, {}),
    "Sinh": (torch.sinh, -2, 2, FLOATS, {}),
    "Cosh": (torch.cosh, -2, 2, FLOATS, {}),
    "Tanh": (torch.tanh, -2, 2, FLOATS, {}),
    "Asinh": (torch.asinh, -3, 3, FLOATS, {}),
    "Acosh": (torch.acosh, 1.5, 5, FLOATS, {}),
    "Atanh": (torch.atanh, -0.8, 0.8, FLOATS, {}),
    "Erf": (torch.erf, -2, 2, FLOATS, {}),
    "Erfc": (torch.erfc, -2, 2, FLOATS, {}),
    "Erfinv": (torch.erfinv, -0.9, 0.9, FLOATS, {}),
    "Sigmoid": (torch.sigmoid, -4, 4, FLOATS, {}),
    "Relu": (torch.relu, -3, 3, REAL, {}),
    "Relu6": (F.relu6, -3, 9, REAL, {}),
    "Elu": (lambda x: F.elu(x, 0.7), -3, 3, FLOATS, {"alpha": 0.7, "scale": 1.0, "input_scale": 1.0}),
    "Selu": (F.selu, -3, 3, FLOATS, {}),
    "CeluV2": (lambda x: F.celu(x, 0.5), -3, 3, FLOATS, {"alpha": 0.5}),
    "Softplus": (F.softplus, -3, 30, FLOATS, {}),
    "SoftplusV2": (lambda x: F.softplus(x, 2, 3), -3, 3, FLOATS, {"beta": 2.0, "threshold": 3.0}),
    "Softsign": (F.softsign, -3, 3, FLOATS, {}),
    "Gelu": (lambda x: F.gelu(x, approximate="tanh"), -3, 3, FLOATS, {}),
    "GeluV2": (F.gelu, -3, 3, FLOATS, {"approximate": "none"}),
    "FastGelu": (lambda x: x * torch.sigmoid(1.702 * x), -3, 3, FLOATS, {}),
    "Swish": (lambda x: x * torch.sigmoid(0.5 * x), -3, 3, FLOATS, {"scale": 0.5}),
    "HardSwish": (F.hardswish, -5, 5, FLOATS, {}),
    "HardSigmoid": (lambda x: (0.2 * x + 0.4).clamp(0, 1), -5, 5, FLOATS, {"alpha": 0.2, "beta": 0.4}),
    "HardShrink": (lambda x: F.hardshrink(x, 0.5), -2, 2, FLOATS, {"lambd": 0.5}),
    "SoftShrink": (lambda x: F.softshrink(x, 0.5), -2, 2, FLOATS, {"lambd": 0.5}),
    "Mish": (F.mish, -3, 3, FLOATS, {}),
    "LogSigmoid": (F.logsigmoid, -3, 3, FLOATS, {}),
    "LeakyRelu": (lambda x: F.leaky_relu(x, 0.25), -3, 3, FLOATS, {"negative_slope": 0.25}),
    "Floor": (torch.floor, -3, 3, FLOATS, {}),
    "Ceil": (torch.ceil, -3, 3, FLOATS, {}),
    "Rint": (torch.round, -3, 3, FLOATS, {}),
    "Round": (torch.round, -3, 3, FLOATS, {"decimals": 0}),
    "Trunc": (torch.trunc, -3, 3, FLOATS, {}),
    "Identity": (torch.clone, -3, 3, (*REAL, torch.bool), {}),
    "TensorMove": (torch.clone, -3, 3, (*REAL, torch.bool), {}),
    "StopGradient": (torch.clone, -3, 3, REAL, {}),
    "ZerosLike": (torch.zeros_like, -3, 3, (*REAL, torch.bool), {}),
    "OnesLike": (torch.ones_like, -3, 3, (*REAL, torch.bool), {}),
    "Muls": (lambda x: x * 3, -3, 3, REAL, {"value": 3.0}),
    "Adds": (lambda x: x + 2, -3, 3, REAL, {"value": 2.0}),
    "Fills": (lambda x: torch.full_like(x, 3), -3, 3, REAL, {"value": 3.0}),
    "NanToNum": (torch.clone, -3, 3, FLOATS, {"nan": 0.0, "posinf": 1.0, "neginf": -1.0}),
    "Invert": (torch.bitwise_not, -9, 9, INTEGERS, {}),
    "LogicalNot": (torch.logical_not, 0, 1, (torch.bool,), {}),
}

#: type: (reference, low, high of both inputs, dtypes)
BINARY = {
    "Add": (torch.add, -3, 3, REAL),
    "AddV2": (torch.add, -3, 3, REAL),
    "Sub": (torch.sub, -3, 3, REAL),
    "Mul": (torch.mul, -3, 3, REAL),
    "Div": (torch.div, 0.5, 4, FLOATS),
    "RealDiv": (torch.div, 0.5, 4, FLOATS),
    "Maximum": (torch.maximum, -3, 3, REAL),
    "Minimum": (torch.minimum, -3, 3, REAL),
    "Pow": (torch.pow, 0.5, 2, FLOATS),
    "Atan2": (torch.atan2, -3, 3, FLOATS),
    "SquaredDifference": (lambda a, b: (a - b) ** 2, -3, 3, REAL),
    "Xlogy": (torch.xlogy, 0.5, 3, FLOATS),
    "Xdivy": (torch.div, 0.5, 3, FLOATS),
    "DivNoNan": (torch.div, 0.5, 3, FLOATS),
    "MulNoNan": (torch.mul, -3, 3, FLOATS),
    "BitwiseAnd": (torch.bitwise_and, -9, 9, (*INTEGERS, torch.bool)),
    "BitwiseOr": (torch.bitwise_or, -9, 9, (*INTEGERS, torch.bool)),
    "BitwiseXor": (torch.bitwise_xor, -9, 9, (*INTEGERS, torch.bool)),
    "LeftShift": (torch.bitwise_left_shift, 0, 5, INTEGERS),
    "RightShift": (torch.bitwise_right_shift, 0, 5, INTEGERS),
    "LogicalAnd": (torch.logical_and, 0, 1, (torch.bool,)),
    "LogicalOr": (torch.logical_or, 0, 1, (torch.bool,)),
}
COMPARISONS = {
    "Equal": torch.eq,
    "NotEqual": torch.ne,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
}


def gradient_of(function):
    """The reference of XGrad(dy, x): autograd through X in float64."""

    def reference(dy, x):
        leaf = x.detach().clone().requires_grad_()
        function(leaf).backward(dy)
        return leaf.grad

    return reference


#: type: (reference of (dy, x), inputs' order, attributes); "yd" operators take the output first.
GRADIENTS = {
    "ReluGrad": (gradient_of(F.relu), {}),
    "Relu6Grad": (gradient_of(F.relu6), {}),
    "HardSwishGrad": (gradient_of(F.hardswish), {}),
    "SiluGrad": (gradient_of(F.silu), {}),
    "FastGeluGrad": (gradient_of(lambda x: x * torch.sigmoid(1.702 * x)), {}),
    "GeluGradV2": (gradient_of(F.gelu), {"approximate": "none"}),
    "SoftplusGrad": (gradient_of(F.softplus), {}),
    "SoftplusV2Grad": (gradient_of(lambda x: F.softplus(x, 2, 1)), {"beta": 2.0, "threshold": 1.0}),
    "SoftsignGrad": (gradient_of(F.softsign), {}),
    "LogSigmoidGrad": (gradient_of(F.logsigmoid), {}),
    "LeakyReluGrad": (gradient_of(lambda x: F.leaky_relu(x, 0.2)), {"negative_slope": 0.2}),
    "HardSigmoidGrad": (
        gradient_of(lambda x: (0.2 * x + 0.5).clamp(0, 1)),
        {"alpha": 0.2, "beta": 0.5},
    ),
    "ThresholdGradV2D": (gradient_of(lambda x: F.threshold(x, 0.5, 0)), {"threshold": 0.5}),
    "EluGradV2": (
        gradient_of(lambda x: F.elu(x, 0.7)),
        {"alpha": 0.7, "scale": 1.0, "input_scale": 1.0, "is_result": False},
    ),
    "HardShrinkGrad": (gradient_of(lambda x: F.hardshrink(x, 0.5)), {"lambd": 0.5}),
    "SoftShrinkGrad": (gradient_of(lambda x: F.softshrink(x, 0.5)), {"lambd": 0.5}),
    "SwishGrad": (gradient_of(lambda x: x * torch.sigmoid(0.5 * x)), {"scale": 0.5}),
}
FROM_OUTPUT = {
    "SigmoidGrad": (gradient_of(torch.sigmoid), torch.sigmoid, {"complex_conj": False}),
    "TanhGrad": (gradient_of(torch.tanh), torch.tanh, {"complex_conj": False}),
    "SqrtGrad": (gradient_of(torch.sqrt), torch.sqrt, {}),
    "RsqrtGrad": (gradient_of(torch.rsqrt), torch.rsqrt, {}),
    "AsinhGrad": (gradient_of(torch.asinh), torch.asinh, {}),
    "SeluGrad": (gradient_of(F.selu), F.selu, {}),
    "AtanGrad": (gradient_of(torch.atan), torch.clone, {}),  # named y, it is the input
    "InvGrad": (gradient_of(torch.reciprocal), torch.reciprocal, {}),
    "ReciprocalGrad": (gradient_of(torch.reciprocal), torch.reciprocal, {}),
}


def wide(x):
    return x.double() if x.is_floating_point() else x


def narrow(value, dtype):
    return value if dtype == torch.bool else value.to(dtype)


def run_everywhere(door, name, inputs, attributes, expected):
    """Into fresh memory, and into the memory of an input of the same shape and dtype: the row is elementwise."""
    check(door, Case(name, inputs, [expected], attributes))
    for place, x in enumerate(inputs):
        if x is None or x.shape != expected.shape or x.dtype != expected.dtype:
            continue
        device = [None if y is None else y.npu() for y in inputs]
        assert call(door, name, device, [device[place]], attributes) == 0, door.message()
        equal(device[place].cpu(), expected, None, f"in place of input {place}")


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, row in UNARY.items() for dtype in row[3]], ids=str
)
def test_unary(door, name, dtype):
    function, low, high, _, attributes = UNARY[name]
    for shape in SHAPES:
        x = sample(shape, low, high, dtype)
        run_everywhere(door, name, [x], attributes, narrow(function(wide(x)), dtype))


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, row in BINARY.items() for dtype in row[3]], ids=str
)
def test_binary(door, name, dtype):
    function, low, high, _ = BINARY[name]
    for left, right in [(s, s) for s in SHAPES] + [((2, 3, 4), (4,)), ((3, 1), (1, 5)), ((), (2, 3))]:
        a, b = sample(left, low, high, dtype), sample(right, low, high, dtype)
        run_everywhere(door, name, [a, b], {}, narrow(function(wide(a), wide(b)), dtype))


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_comparisons(door, name, dtype):
    a, b = sample((3, 40), -2, 2, torch.int64).to(dtype), sample((40,), -2, 2, torch.int64).to(dtype)
    check(door, Case(name, [a, b], [COMPARISONS[name](a, b)]))


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_at_the_input(door, name, dtype):
    reference, attributes = GRADIENTS[name]
    for shape in SHAPES:
        dy, x = sample(shape, -2, 2, dtype), sample(shape, -4, 7, dtype)
        extra = [x] if name == "SwishGrad" else []  # the output, which it does not need
        run_everywhere(door, name, [dy, x, *extra], attributes, reference(dy.double(), x.double()).to(dtype))


@pytest.mark.parametrize("name", FROM_OUTPUT)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_at_the_output(door, name, dtype):
    reference, forward, attributes = FROM_OUTPUT[name]
    x = sample((3, 50), 0.5, 2, torch.float64)
    y, dy = forward(x).to(dtype), sample((3, 50), -2, 2, dtype)
    inputs = [dy, y] if name == "SeluGrad" else [y, dy]
    want = reference(dy.double(), x)
    check(door, Case(name, inputs, [want.to(dtype)], attributes, 0.03 if dtype != torch.float32 else 1e-4))


def test_gradients_with_an_order_of_their_own(door):
    x, dy = sample((4, 9), -3, 3, torch.float32), sample((4, 9), -1, 1, torch.float32)
    tanh_gelu = gradient_of(lambda v: F.gelu(v, approximate="tanh"))(dy.double(), x.double()).float()
    check(door, Case("GeluGrad", [dy, x, x], [tanh_gelu]))
    limits = gradient_of(lambda v: F.hardtanh(v, -2, 1))(dy.double(), x.double()).float()
    check(door, Case("HardtanhGrad", [x, dy], [limits], {"min_val": -2.0, "max_val": 1.0}))
    elu = gradient_of(F.elu)(dy.double(), x.double()).float()
    check(door, Case("EluGrad", [dy, F.elu(x)], [elu]))
    inside = sample((4, 9), -0.9, 0.9, torch.float32)
    for name, function in (("AsinGrad", torch.asin), ("AcosGrad", torch.acos)):
        want = gradient_of(function)(dy.double(), inside.double()).float()
        check(door, Case(name, [inside, dy], [want]))
    y = torch.acosh(x.abs() + 1.5)
    check(door, Case("AcoshGrad", [y, dy], [(dy / torch.sinh(y.double())).float()]))
    mish = gradient_of(F.mish)(dy.double(), x.double()).float()
    check(door, Case("MishGrad", [dy, x, None], [mish]))
    check(door, Case("PRelu", [x, torch.tensor([0.3])], [F.prelu(x, torch.tensor([0.3]))]))
    leaf, weight = x.clone().requires_grad_(), torch.tensor([0.3], requires_grad=True)
    F.prelu(leaf, weight).backward(dy)
    check(door, Case("PReluGrad", [dy, x, weight.detach()], [leaf.grad, weight.grad]))


CORNERS = [
    # Quotients and remainders round as TensorFlow says: floor to minus infinity, truncate to zero.
    ("FloorDiv", [-7, 7, -7, 7], [2, -2, -2, 2], [-4, -4, 3, 3]),
    ("TruncateDiv", [-7, 7, -7, 7], [2, -2, -2, 2], [-3, -3, 3, 3]),
    ("FloorMod", [-7, 7, -7, 7], [2, -2, -2, 2], [1, -1, -1, 1]),
    ("TruncateMod", [-7, 7, -7, 7], [2, -2, -2, 2], [-1, 1, -1, 1]),
    ("Mod", [-7, 7, -7, 7], [2, -2, -2, 2], [-1, 1, -1, 1]),
]


@pytest.mark.parametrize(("name", "a", "b", "want"), CORNERS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float16], ids=str)
def test_quotients_and_remainders(door, name, a, b, want, dtype):
    a, b, want = (torch.tensor(values).to(dtype) for values in (a, b, want))
    check(door, Case(name, [a, b], [want]))


def test_integer_division_keeps_every_digit(door):
    big = torch.tensor([2**31 - 1, -(2**31) + 1, 5], dtype=torch.int32)
    by = torch.tensor([1, 1, 0], dtype=torch.int32)
    check(door, Case("DivNoNan", [big, by], [torch.tensor([2**31 - 1, -(2**31) + 1, 0], dtype=torch.int32)]))


def test_zero_wins_over_what_is_not_a_number(door):
    inf, nan = float("inf"), float("nan")
    x, y = torch.tensor([inf, nan, 0.0, 1.0]), torch.tensor([0.0, 0.0, 0.0, 2.0])
    check(door, Case("MulNoNan", [x, y], [torch.tensor([0.0, 0.0, 0.0, 2.0])]))
    check(door, Case("DivNoNan", [x, y], [torch.tensor([0.0, 0.0, 0.0, 0.5])]))
    check(door, Case("Xdivy", [y, torch.tensor([0.0, nan, 1.0, 4.0])], [torch.tensor([0.0, 0.0, 0.0, 0.5])]))
    check(door, Case("Xlogy", [y, torch.tensor([0.0, 1.0, 0.0, 1.0])], [torch.zeros(4)]))


def test_halves_round_to_even(door):
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5])
    for name in ("Rint", "Round"):
        check(door, Case(name, [x], [torch.tensor([0.0, 2.0, 2.0, -0.0, -2.0])]))
    check(door, Case("Round", [torch.tensor([1.234])], [torch.tensor([1.23])], {"decimals": 2}))


def test_what_is_finite(door):
    x = torch.tensor([1.0, float("inf"), float("-inf"), float("nan")])
    for name in ("IsNan", "IsInf", "IsFinite"):
        check(door, Case(name, [x], [getattr(torch, name.lower())(x)]))
    check(
        door,
        Case(
            "NanToNum",
            [x],
            [torch.tensor([1.0, 5.0, 6.0, 4.0])],
            {"nan": 4.0, "posinf": 5.0, "neginf": 6.0},
        ),
    )


def test_exponentials_to_a_base(door):
    x = sample((5,), 0.5, 2, torch.float32)
    affine = {"base": 2.0, "scale": 3.0, "shift": 0.5}
    check(door, Case("Exp", [x], [torch.exp2(3 * x.double() + 0.5).float()], affine))
    check(door, Case("Log", [x], [torch.log2(3 * x.double() + 0.5).float()], affine))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_operators_of_three(door, dtype):
    a, b, c = (sample((3, 5), 0.5, 2, dtype) for _ in range(3))
    x, y, z = a.double(), b.double(), c.double()
    half = scalar(0.5, dtype)
    cases = [
        ("Addcmul", [a, b, c, half], x + 0.5 * y * z),
        ("Addcdiv", [a, b, c, half], x + 0.5 * y / z),
        ("Lerp", [a, b, c], x + z * (y - x)),
        ("FusedMulAdd", [a, b, c], x * y + z),
        ("FusedMulAddN", [a, b, half], x * 0.5 + y),
        ("AxpyV2", [a, b, half], x + 0.5 * y),
        (
            "ClipByValue",
            [a, scalar(0.9, dtype), scalar(1.5, dtype)],
            x.clamp(*[scalar(v, dtype).double() for v in (0.9, 1.5)]),
        ),
        ("ClipByValueV2", [a, b, b + 1], torch.minimum(torch.maximum(x, y), (b + 1).double())),
        ("ThresholdV2", [a, scalar(1.0, dtype), scalar(7.0, dtype)], torch.where(x > 1, x, 7.0)),
        ("ThresholdV2", [a, scalar(1.0, dtype)], torch.where(x > 1, x, 0.0)),
        ("MaskedFill", [a, a > 1, half], x.masked_fill(x > 1, 0.5)),
        ("SelectV2", [a > 1, a, b], torch.where(x > 1, x, y)),
        ("Select", [a > 1, a, b], torch.where(x > 1, x, y)),
        ("IndexFillD", [a, b, c], x * y + z),
    ]
    for name, inputs, want in cases:
        attributes = {"dim": 0} if name == "IndexFillD" else {}
        run_everywhere(door, name, inputs, attributes, want.to(dtype))
    run_everywhere(door, "Axpy", [a, b], {"alpha": 0.5}, (x + 0.5 * y).to(dtype))
    for name in ("AddN", "AccumulateNV2"):
        run_everywhere(door, name, [a, b, c], {"N": 3}, (x + y + z).to(dtype))


def test_a_condition_of_one_dimension_selects_rows(door):
    a, b = torch.arange(6.0).view(3, 2), -torch.ones(3, 2)
    want = torch.stack([a[0], b[1], a[2]])
    check(door, Case("Select", [torch.tensor([True, False, True]), a, b], [want]))
    check(door, Case("SelectV2", [torch.tensor([[True], [False], [True]]), a, b], [want]))


def test_casts(door):
    x = torch.tensor([-1.7, 0.0, 2.5])
    for dtype, number in [(torch.int32, 3), (torch.bool, 12), (torch.bfloat16, 27), (torch.int64, 9)]:
        check(door, Case("Cast", [x], [x.to(dtype)], {"dst_type": number}))
    check(door, Case("Bitcast", [x], [x.view(torch.int32)], {"type": 3}))


def test_the_next_number(door):
    a, b = torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.0])
    check(door, Case("NextAfter", [a, b], [torch.nextafter(a, b)], tolerance=0.0))


def test_complex_numbers(door):
    real, imag = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])
    both = torch.complex(real, imag)
    check(door, Case("Complex", [real, imag], [both], {"Tout": 16}))
    check(door, Case("Real", [both], [real], {"Tout": 0}))
    check(door, Case("Imag", [both], [imag], {"Tout": 0}))
