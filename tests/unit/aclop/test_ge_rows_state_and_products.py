"""GE operators that write into variables, matrix products and random numbers."""

import pytest
import torch

from .rows import (
    F32,
    FLOATS,
    I32,
    I64,
    Case,
    I,
    X,
    attribute,
    call,
    check,
    equal,
    ints,
    sample,
    scalar,
)


def written(door, name, inputs, attributes):
    device = [None if x is None else x.npu() for x in inputs]
    assert door(name, device, [device[0]], [attribute(*pair) for pair in attributes.items()]) == 0, (
        door.message()
    )
    return device[0].cpu()


LOCK = {"use_locking": False}
STATE = [
    ("Assign", [torch.zeros(3), torch.ones(3)], {"validate_shape": True, **LOCK}, torch.ones(3)),
    ("AssignAdd", [torch.ones(3), torch.ones(3)], LOCK, torch.full((3,), 2.0)),
    ("AssignSub", [torch.ones(3), torch.ones(3)], LOCK, torch.zeros(3)),
    ("ScatterUpdate", [X[0], ints(2, 0), -X[0, :2]], LOCK, torch.stack([-X[0, 1], X[0, 1], -X[0, 0]])),
    ("ScatterAdd", [torch.ones(3), ints(1, 1), torch.ones(2)], LOCK, torch.tensor([1.0, 3.0, 1.0])),
    ("ScatterSub", [torch.ones(3), ints(1, 1), torch.ones(2)], LOCK, torch.tensor([1.0, -1.0, 1.0])),
    (
        "ScatterNdSub",
        [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)],
        LOCK,
        torch.tensor([1.0, 1.0, -1.0]),
    ),
    (
        "ScatterMul",
        [torch.full((3,), 6.0), ints(1, 1), torch.tensor([2.0, 3.0])],
        LOCK,
        torch.tensor([6.0, 36.0, 6.0]),
    ),
    (
        "ScatterDiv",
        [torch.full((3,), 6.0), ints(1, 1), torch.tensor([2.0, 3.0])],
        LOCK,
        torch.tensor([6.0, 1.0, 6.0]),
    ),
    ("ScatterMax", [torch.ones(3), ints(1), torch.tensor([5.0])], LOCK, torch.tensor([1.0, 5.0, 1.0])),
    ("ScatterMin", [torch.ones(3), ints(1), torch.tensor([-5.0])], LOCK, torch.tensor([1.0, -5.0, 1.0])),
    ("ScatterNdUpdate", [X[0], torch.tensor([[2]]), -X[:1, 0]], LOCK, torch.cat([X[0, :2], -X[:1, 0]])),
    (
        "ScatterNdAdd",
        [torch.ones(3), torch.tensor([[2], [2]]), torch.ones(2)],
        LOCK,
        torch.tensor([1.0, 1.0, 3.0]),
    ),
    (
        "InplaceIndexAdd",
        [torch.ones(3), ints(0, 0), torch.ones(2), scalar(2.0, F32)],
        {"axis": 0},
        torch.tensor([5.0, 1.0, 1.0]),
    ),
    (
        "IndexPutV2",
        [X[0], scalar(9.0, F32), ints(0, 1), ints(1, 1), I],
        {"accumulate": False},
        X[0].index_fill(1, I, 9),
    ),
    ("FillV2", [torch.zeros(2), scalar(3.0, F32)], {}, torch.full((2,), 3.0)),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "want"), STATE)
def test_variables_are_written_in_place(door, name, inputs, attributes, want):
    equal(written(door, name, inputs, attributes), want)


def test_an_output_apart_from_the_variable_gets_the_value_too(door):
    var, out = torch.ones(3).npu(), torch.zeros(3).npu()
    assert door("AssignAdd", [var, torch.ones(3).npu()], [out], [("Bool", "use_locking", 0)]) == 0
    assert var.cpu().tolist() == out.cpu().tolist() == [2.0, 2.0, 2.0]


def test_a_cache_takes_one_token_per_sequence(door):
    cache, token = torch.zeros(2, 1, 4, 3), torch.randn(2, 1, 1, 3)
    want = cache.clone()
    want[0, :, 2:3], want[1, :, 0:1] = token[0], token[1]
    equal(written(door, "Scatter", [cache, ints(2, 0), token], {"reduce": "update", "axis": -2}), want)
    entries = [entry.npu() for entry in cache]
    by = [attribute("reduce", "update"), attribute("axis", -2)]
    assert door("ScatterList", [*entries, ints(2, 0).npu(), token.npu(), None], entries, by) == 0
    equal(torch.stack([entry.cpu() for entry in entries]), want)


@pytest.mark.parametrize("name", ["ApplyAdam", "ApplyAdamD", "ApplyAdamW"])
def test_a_step_of_an_optimizer(door, name):
    var, grad = torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    weight = var.clone().requires_grad_()
    decay = 0.1 if name == "ApplyAdamW" else 0.0
    optimizer = torch.optim.AdamW([weight], 0.01, (0.9, 0.99), 1e-12, decay)
    for _ in range(2):
        before = [weight.detach().clone()]
        before += [optimizer.state[weight].get(k, torch.zeros(5)).clone() for k in ("exp_avg", "exp_avg_sq")]
        weight.grad = grad.clone()
        optimizer.step()
    state = optimizer.state[weight]
    wanted = [weight.detach(), state["exp_avg"], state["exp_avg_sq"]]
    steps = 1 if name == "ApplyAdamW" else 2  # AdamW takes the powers of the step before
    numbers = [0.9**steps, 0.99**steps, 0.01, *([decay] if decay else []), 0.9, 0.99, 1e-12]
    device = [t.float().npu() for t in before]
    inputs = [*device, *(torch.tensor(v).npu() for v in numbers), grad.float().npu()]
    options = (
        {"amsgrad": False, "maximize": False} if decay else {"use_locking": False, "use_nesterov": False}
    )
    outputs = device if name != "ApplyAdam" else device[:1]
    pairs = [attribute(*pair) for pair in options.items()]
    assert door(name, inputs, outputs, pairs) == 0, door.message()
    for got, want in zip(device, wanted, strict=True):
        equal(got.cpu(), want.float())


# --- products ---


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("flip", [(False, False), (True, False), (False, True), (True, True)])
def test_matrix_products(door, dtype, flip):
    a, b, bias = sample((3, 5), -1, 1, dtype), sample((5, 4), -1, 1, dtype), sample((4,), -1, 1, dtype)
    want = a.double() @ b.double()
    left, right = (x.t().contiguous() if f else x for x, f in zip((a, b), flip, strict=True))
    limit = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype)
    plain = {"transpose_x1": flip[0], "transpose_x2": flip[1]}
    for name, extra in (
        ("MatMul", {}),
        ("MatMulV2", {"offset_x": 0}),
        ("MatMulV3", {"offset_x": 0, "opImplMode": 1}),
    ):
        check(door, Case(name, [left, right], [want.to(dtype)], {**plain, **extra}, limit))
        check(
            door,
            Case(name, [left, right, bias], [(want + bias.double()).to(dtype)], {**plain, **extra}, limit),
        )
    batch = {"adj_x1": flip[0], "adj_x2": flip[1]}
    many = [x.expand(2, *x.shape).contiguous() for x in (left, right)]
    out = want.to(dtype).expand(2, 3, 4).contiguous()
    for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        check(door, Case(name, many, [out], batch, limit))
        check(door, Case(name, [many[0], right], [out], batch, limit))
    relu = (want + bias.double()).relu().to(dtype)
    check(door, Case("FusedMatMul", [left, right, bias], [relu], {**plain, "fused_op_type": "relu"}, limit))


def test_products_by_equation_and_by_batches(door):
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    check(
        door,
        Case("Einsum", [a, b], [torch.einsum("bij,bjk->bki", a, b)], {"equation": "bij,bjk->bki", "N": 2}),
    )
    options = {"perm_x1": [0, 1, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2], "batch_split_factor": 1}
    check(door, Case("TransposeBatchMatMul", [a, b], [(a @ b).transpose(0, 1).contiguous()], options))


@pytest.mark.parametrize("dtype", [F32, torch.float64, I32, I64, torch.complex64, torch.float16], ids=str)
def test_sparse_times_dense(door, dtype):
    places = ints(0, 1, 2, 0, 0, 1, 2, 3).reshape(4, 2)
    values = torch.tensor([2, -3, 5, 2**31 - 1 if dtype == I32 else 7]).to(dtype)
    if dtype.is_complex:
        values = values * (1 + 2j)
    dense = torch.zeros(3, 4, dtype=dtype)
    for (row, column), value in zip(places.tolist(), values, strict=True):
        dense[row, column] += value
    right, wide = sample((4, 5), -3, 4, dtype), sample((5, 3), -3, 4, dtype)
    shape, plain = ints(3, 4), {"adjoint_a": False, "adjoint_b": False}
    both = {"adjoint_a": True, "adjoint_b": True}
    check(door, Case("SparseTensorDenseMatMul", [places, values, shape, right], [dense @ right], plain))
    want = [dense.mH @ wide.mH]
    check(door, Case("SparseTensorDenseMatMul", [places.int(), values, shape, wide], want, both))


def test_linear_systems(door):
    a = torch.randn(4, 4, dtype=torch.float64)
    square = (a @ a.t() + 4 * torch.eye(4, dtype=torch.float64)).float()
    rhs, lower = torch.randn(4, 2), square.tril()
    check(door, Case("MatrixInverse", [square], [square.double().inverse().float()], {"adjoint": False}))
    check(door, Case("Cholesky", [square], [torch.linalg.cholesky(square)]))
    solve = torch.linalg.solve_triangular
    options = {"lower": True, "adjoint": False}
    check(door, Case("MatrixTriangularSolve", [lower, rhs], [solve(lower, rhs, upper=False)], options))
    options["adjoint"] = True
    check(door, Case("MatrixTriangularSolve", [lower, rhs], [solve(lower.t(), rhs, upper=True)], options))


def test_bias_by_channel(door):
    x, bias = torch.randn(2, 3, 4, 5), torch.randn(3)
    check(door, Case("BiasAdd", [x, bias], [x + bias.view(1, 3, 1, 1)], {"data_format": "NCHW"}))
    check(door, Case("BiasAdd", [x, torch.ones(5)], [x + 1], {"data_format": "NHWC"}))
    check(door, Case("BiasAddGrad", [x], [x.double().sum((0, 2, 3)).float()], {"data_format": "NCHW"}))
    check(door, Case("BiasAddGrad", [x], [x.double().sum((0, 1, 2)).float()], {"data_format": "NHWC"}))


# --- random numbers: distributions, and the same for the same seed ---


def drawn(door, name, inputs, attributes, count=20000, dtype=F32):
    out = torch.zeros(count, dtype=dtype, device="npu")
    assert call(door, name, [ints(count), *inputs], [out], attributes) == 0, door.message()
    return out.cpu()


def test_uniform_and_normal_numbers(door):
    key, first, second = (torch.tensor(v, dtype=I64).to(torch.uint64) for v in ([7], [0, 1], [0, 2]))
    alg = scalar(1, I32)
    uniform = drawn(door, "StatelessRandomUniformV2", [key, first, alg], {"dtype": 0})
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    assert torch.equal(uniform, drawn(door, "StatelessRandomUniformV2", [key, first, alg], {"dtype": 0}))
    assert not torch.equal(uniform, drawn(door, "StatelessRandomUniformV2", [key, second, alg], {"dtype": 0}))
    normal = drawn(door, "StatelessRandomNormalV2", [key, first, alg], {"dtype": 0})
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03
    seeds = {"dtype": 0, "seed": 3, "seed2": 4}
    assert torch.equal(drawn(door, "RandomUniform", [], seeds), drawn(door, "RandomUniform", [], seeds))
    unseeded = {"dtype": 0, "seed": 0, "seed2": 0}
    again = [drawn(door, "RandomStandardNormal", [], unseeded) for _ in range(2)]
    assert not torch.equal(*again) and abs(again[0].std() - 1) < 0.03


def test_flags_and_permutations(door):
    flags = drawn(door, "StatelessBernoulli", [scalar(0.25, F32), scalar(5), scalar(0)], {"dtype": 0})
    assert abs(flags.mean() - 0.25) < 0.02 and set(flags.tolist()) == {0.0, 1.0}
    order = torch.zeros(100, dtype=I64, device="npu")
    assert (
        call(
            door, "StatelessRandperm", [scalar(100), scalar(1), scalar(2)], [order], {"layout": 0, "dtype": 9}
        )
        == 0
    )
    assert order.cpu().sort().values.tolist() == list(range(100))
