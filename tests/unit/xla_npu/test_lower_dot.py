"""Products against NumPy in a wider type, and what graphs they become."""

import itertools

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.unit.xla_npu.jax_programs import check_jax
from tests.unit.xla_npu.oracle import check, program, run_npu
from xla_npu import frontend
from xla_npu.lowering import Context, load_rules
from xla_npu.types import element_named, tensor_type

ELEMENTS = (
    "f32", "f64", "bf16", "f16", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64",
    "i1", "complex<f32>", "complex<f64>",
)  # fmt: skip
# Subscripts of the operands; a letter in both and in the result is a batch dimension.
EQUATIONS = (
    ("ij,jk->ik", (3, 4, 5)),
    ("ji,jk->ik", (3, 4, 5)),
    ("bij,bkj->bik", (2, 3, 4, 5)),
    ("jbi,kjb->bik", (2, 3, 4, 5)),
    ("iabj,jkba->baik", (2, 3, 4, 5, 2)),
    ("ij,ij->", (3, 4)),
    ("i,j->ij", (3, 4)),
    (",ij->ij", (3, 4)),
    ("b,b->b", (3,)),
    ("aijb,bkja->ik", (2, 3, 4, 5, 6)),
)


def sample(shape, element, seed=0):
    rng = np.random.default_rng(seed)
    dtype = element_named(element).numpy
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype.kind == "b":
        return rng.integers(0, 3, shape) == 0
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def type_of(shape, element):
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def dot_line(number, left, right, result, batch, contracting):
    """The product of arguments 2n and 2n + 1. `left`, `right`, `result`: (shape, element) pairs."""
    t, u, v = (type_of(*x) for x in (left, right, result))
    sides = f"contracting_dims = {list(contracting[0])} x {list(contracting[1])}"
    if batch[0]:
        sides = f"batching_dims = {list(batch[0])} x {list(batch[1])}, {sides}"
    return (
        f"%{number} = stablehlo.dot_general %a{2 * number}, %a{2 * number + 1}, {sides} : ({t}, {u}) -> {v}",
        t,
        u,
        v,
    )


def dots_text(*products):
    """A program of products, each given as the arguments of `dot_line` behind the first."""
    lines, *types = zip(*(dot_line(i, *product) for i, product in enumerate(products)), strict=True)
    results = ", ".join(f"%{i}" for i in range(len(products)))
    body = "\n".join(lines) + f"\nreturn {results} : {', '.join(types[2])}"
    return program(body, [t for pair in zip(*types[:2], strict=True) for t in pair], list(types[2]))


def from_equation(equation, numbers, element, result_element=None):
    """The arguments of `dot_line` for an einsum of two operands, and those."""
    letters = dict(zip(sorted(set(equation) - set(",->")), numbers, strict=True))
    (left, right), out = equation.split("->")[0].split(","), equation.split("->")[1]
    batch = [c for c in out if c in left and c in right]
    summed = [c for c in left if c in right and c not in out]
    shapes = [tuple(letters[c] for c in part) for part in (left, right, out)]
    product = (
        (shapes[0], element),
        (shapes[1], element),
        (shapes[2], result_element or element),
        ([left.index(c) for c in batch], [right.index(c) for c in batch]),
        ([left.index(c) for c in summed], [right.index(c) for c in summed]),
    )
    return product, [sample(shapes[0], element, 1), sample(shapes[1], element, 2)]


def check_equations(equations, element, limit):
    products, arrays = zip(*(from_equation(*equation, element) for equation in equations), strict=True)
    wanted = [
        np.asarray(expected(equation, pair, element))
        for (equation, _), pair in zip(equations, arrays, strict=True)
    ]
    check(dots_text(*products), [a for pair in arrays for a in pair], limit, limit, wanted)


def expected(equation, arrays, element):
    """By NumPy in a type that loses nothing but what the result's rounding does."""
    dtype = element_named(element).numpy
    if dtype.kind == "b":
        return (np.einsum(equation, *(a.astype(np.int64) for a in arrays)) > 0).astype(dtype)
    with np.errstate(over="ignore"):
        if dtype.kind in "iu":
            return np.einsum(equation, *(a.astype(np.uint64) for a in arrays)).astype(dtype)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return np.einsum(equation, *(a.astype(wide) for a in arrays)).astype(dtype)


def tolerance(element):
    return {"bf16": 2e-2, "f16": 4e-3, "f32": 1e-5, "complex<f32>": 1e-5}.get(element, 1e-13)


@pytest.mark.parametrize("element", ELEMENTS)
def test_dimensions_in_any_place(element):
    check_equations(EQUATIONS, element, tolerance(element))


@pytest.mark.parametrize("element", ["f64", "i64", "ui64", "i32", "complex<f32>", "complex<f64>"])
def test_larger_matrices(element):
    equations = (("ij,kj->ik", (33, 40, 50)), ("jbi,bjk->bik", (3, 20, 30, 40)))
    check_equations(equations, element, 30 * tolerance(element))


@pytest.mark.parametrize(
    ("element", "result"),
    [
        ("bf16", "f32"),
        ("f16", "f32"),
        ("i8", "i32"),
        ("i8", "f32"),
        ("f32", "f64"),
        ("ui8", "i64"),
        ("f32", "bf16"),
    ],
)
def test_the_result_in_another_type(element, result):
    product, arrays = from_equation("bij,bjk->bik", (2, 3, 4, 5), element, result)
    wide = np.int64 if result in ("i32", "i64") else np.float64
    want = np.einsum("bij,bjk->bik", *(a.astype(wide) for a in arrays)).astype(element_named(result).numpy)
    limit = tolerance("bf16" if result == "bf16" else "f32")
    check(dots_text(product), arrays, limit, limit, [want])


@pytest.mark.parametrize(("left", "right"), [("f8E4M3FN", "f8E5M2"), ("f8E8M0FNU", "f32"), ("bf16", "f32")])
def test_operands_of_two_types(left, right):
    arrays = [sample((3, 4), "f32", i).astype(element_named(e).numpy) for i, e in enumerate((left, right))]
    arrays[1] = arrays[1].reshape(4, 3)
    text = dots_text((((3, 4), left), ((4, 3), right), ((3, 3), "f32"), ((), ()), ((1,), (0,))))
    want = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    check(text, arrays, 1e-5, 1e-5, [want.astype(np.float32)])


def test_small_integers_in_bytes():
    arrays = [sample((3, 4), "i8", i) // 16 for i in range(2)]
    stored = [a.astype(ml_dtypes.int4) for a in arrays]
    text = dots_text((((3, 4), "i4"), ((3, 4), "i4"), ((3, 3), "i32"), ((), ()), ((1,), (1,))))
    check(text, stored, expected=[arrays[0].astype(np.int32) @ arrays[1].T])


@pytest.mark.parametrize("element", ["f32", "f64", "i32", "i1", "complex<f64>"])
def test_empty_dimensions(element):
    shapes = [s for s in itertools.product((0, 2), (0, 3), (0, 4)) if 0 in s]
    products = [
        (((m, k), element), ((k, n), element), ((m, n), element), ((), ()), ((1,), (0,)))
        for m, k, n in shapes
    ]
    arrays = [sample(shape, element) for m, k, n in shapes for shape in ((m, k), (k, n))]
    wanted = [np.zeros((m, n), element_named(element).numpy) for m, _, n in shapes]
    check(dots_text(*products), arrays, expected=wanted)


def test_nonfinite_numbers():
    left = np.array([[np.inf, 1], [np.nan, 0], [0, 2]])
    right = np.array([[0.0, 1, -np.inf], [1, 2, 3]])
    for element in ("f32", "f64", "bf16"):
        dtype = element_named(element).numpy
        text = dots_text((((3, 2), element), ((2, 3), element), ((3, 3), element), ((), ()), ((1,), (0,))))
        with np.errstate(invalid="ignore"):
            check(text, [left.astype(dtype), right.astype(dtype)], expected=[(left @ right).astype(dtype)])
    wide_left, wide_right = np.tile(left, (20, 20)), np.tile(right, (20, 20))  # by the operator
    text = dots_text((((60, 40), "f64"), ((40, 60), "f64"), ((60, 60), "f64"), ((), ()), ((1,), (0,))))
    with np.errstate(invalid="ignore"):
        check(text, [wide_left, wide_right], expected=[wide_left @ wide_right])


def test_dot_of_matrices_and_vectors():
    for shapes in (((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5))):
        arrays = [sample(shape, "f32", i) for i, shape in enumerate(shapes)]
        want = np.asarray(arrays[0] @ arrays[1])
        t, u = (type_of(shape, "f32") for shape in shapes)
        v = type_of(want.shape, "f32")
        text = program(f"%0 = stablehlo.dot %a0, %a1 : ({t}, {u}) -> {v}\nreturn %0 : {v}", [t, u], [v])
        check(text, arrays, 1e-5, 1e-5, [want])


def nodes_of(text):
    load_rules()
    module = frontend.parse(text.encode())
    table = frontend.functions(module)
    context = Context("t", table)
    block = table["main"].regions[0].blocks[0]
    types = [tensor_type(argument.type) for argument in block.arguments]
    context.lower_block(
        block, [context.builder.input(f"a{i}", t.dtype, t.shape) for i, t in enumerate(types)]
    )
    return [node.type for node in context.builder.graph.nodes if node.type not in ("Data", "Const")]


@pytest.mark.parametrize(
    ("equation", "numbers", "nodes"),
    [
        ("ij,jk->ik", (3, 4, 5), ["MatMulV2"]),
        ("ji,kj->ik", (3, 4, 5), ["MatMulV2"]),
        ("bti,ij->btj", (2, 3, 4, 5), ["BatchMatMulV2"]),
        ("bti,ji->btj", (2, 3, 4, 5), ["BatchMatMulV2"]),
        ("abij,abkj->abik", (2, 3, 4, 5, 6), ["BatchMatMulV2"]),
        ("abij,abik->abjk", (2, 3, 4, 5, 6), ["BatchMatMulV2"]),
        (
            "bti,btj->ij",
            (2, 3, 4, 5),
            ["Reshape", "Reshape", "MatMulV2"],
        ),  # the gradient of a dense layer's weight
    ],
)
def test_no_transposes_where_the_operator_has_flags(equation, numbers, nodes):
    assert nodes_of(dots_text(from_equation(equation, numbers, "f32")[0])) == nodes


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, np.float64])
def test_jax_products(dtype):
    a, b = np.arange(24).reshape(2, 3, 4).astype(dtype) - 7, np.arange(24).reshape(2, 4, 3).astype(dtype)
    check_jax(lambda a, b: [a @ b, jnp.tensordot(a, b, ((1, 2), (2, 1))), jnp.vdot(a, b), jnp.inner(a, a),
                            jnp.einsum("bij,cji,bkj->cik", a, b, a)], a, b, tolerance=1e-5)  # fmt: skip


def test_operations_without_precision_config_and_with_an_algorithm():
    a = sample((3, 4), "f32")
    text = dots_text((((3, 4), "f32"), ((3, 4), "f32"), ((3, 3), "f32"), ((), ()), ((1,), (1,))))
    precise = text.replace(
        "contracting_dims = [1] x [1]", "contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST]"
    )
    np.testing.assert_array_equal(run_npu(text, [a, a])[0], run_npu(precise, [a, a])[0])
