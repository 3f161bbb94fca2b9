"""gather and scatter: every form of their dimension numbers, indices out of range, duplicates, combiners."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.lax import GatherDimensionNumbers, ScatterDimensionNumbers

from tests.unit.xla_npu.jax_programs import check_jax
from tests.unit.xla_npu.oracle import check, program

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip
_name = lambda dtype: np.dtype(dtype).name  # noqa: E731


def numbers(dtype, shape=(3, 4, 5)):
    dtype = np.dtype(dtype)
    array = np.arange(np.prod(shape)).reshape(shape) % 7
    if dtype.kind == "u":
        return (np.iinfo(dtype).max - array.astype(dtype)).astype(dtype)
    return (array - (1j * array if dtype.kind == "c" else 3 * (dtype.kind != "b"))).astype(dtype)


# offset_dims, collapsed_slice_dims, start_index_map, slice_sizes, indices; JAX's index vectors are last.
GATHERS = {
    "rows": ((1, 2), (0,), (0,), (1, 4, 5), [[2], [0], [7], [-1]]),
    "kept dimension": ((1, 2, 3), (), (0,), (1, 4, 5), [[2], [0], [7]]),
    "columns": ((0, 2), (1,), (1,), (3, 1, 5), [[[2], [9]], [[0], [-9]]]),
    "points": ((), (0, 1, 2), (0, 1, 2), (1, 1, 1), [[2, 3, 4], [0, 0, 0], [9, -9, 2]]),
    "points, turned": ((1,), (0, 2), (2, 0), (1, 4, 1), [[[0, 1], [3, 2], [9, -4]]]),
    "a part of a row": ((0, 2), (0,), (2, 0), (1, 2, 3), [[0, 1], [3, 2], [9, -4]]),
    "windows": ((1, 2, 3), (), (1,), (3, 2, 5), [[0], [2], [3], [-1]]),
    "windows of all": ((0, 1, 2), (), (0, 1, 2), (2, 2, 2), [[0, 1, 2], [5, 5, 5]]),
    "a window in front": ((1, 2, 3), (), (0,), (3, 1, 2), [[0], [2]]),
    "everything": ((1, 2, 3), (), (0, 1), (3, 4, 5), [[0, 0], [2, 2]]),
    "no indices": ((1, 2), (0,), (0,), (1, 4, 5), np.zeros((0, 1))),
}


@pytest.mark.parametrize("name", GATHERS)
def test_gather(name):
    offset, collapsed, mapped, sizes, indices = GATHERS[name]
    dims = GatherDimensionNumbers(offset, collapsed, mapped)

    def f(x, i):
        return lax.gather(x, i, dims, sizes, mode="promise_in_bounds")

    check_jax(f, X, np.array(indices, np.int32))


@pytest.mark.parametrize("dtype", DTYPES, ids=_name)
def test_gather_of_types(dtype):
    index = np.array([[2, 0], [1, -1]])
    check_jax(
        lambda x, i: (x[i], x[i, :, i], jnp.take_along_axis(x, i[:, :, None][:1], 1)), numbers(dtype), index
    )


@pytest.mark.parametrize("dtype", [d for d in DTYPES if np.dtype(d).kind in "iu"], ids=_name)
def test_indices_of_types(dtype):
    indices = np.array([0, 2, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    gather = GatherDimensionNumbers((1, 2), (0,), (0,))
    scatter = ScatterDimensionNumbers((1, 2), (0,), (0,))

    def f(x, i):
        rows = lax.gather(x, i[:, None], gather, (1, 4, 5), mode="promise_in_bounds")
        return rows, lax.scatter_add(x, i[:, None], rows, scatter)

    check_jax(f, X, indices)


def test_the_index_vector_in_another_dimension():
    body = """%0 = "stablehlo.gather"(%a0, %a1) <{
      dimension_numbers = #stablehlo.gather<offset_dims = [0, 3], collapsed_slice_dims = [0],
        start_index_map = [2, 0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 4, 2>, indices_are_sorted = false}>
      : (tensor<3x4x5xf32>, tensor<2x2x3xi64>) -> tensor<4x2x3x2xf32>
    return %0 : tensor<4x2x3x2xf32>"""
    indices = np.array([[[0, 1, 2], [2, 1, 0]], [[3, 9, -1], [9, -1, 1]]])
    text = program(body, ["tensor<3x4x5xf32>", "tensor<2x2x3xi64>"], ["tensor<4x2x3x2xf32>"])
    check(text, [X, indices])


def test_indices_without_a_vector():
    body = """%0 = "stablehlo.gather"(%a0, %a1) <{
      dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1],
        operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [1],
        index_vector_dim = 2>,
      slice_sizes = array<i64: 1, 1, 5>, indices_are_sorted = false}>
      : (tensor<3x4x5xf32>, tensor<2x3xi64>) -> tensor<5x2x3xf32>
    return %0 : tensor<5x2x3xf32>"""
    text = program(body, ["tensor<3x4x5xf32>", "tensor<2x3xi64>"], ["tensor<5x2x3xf32>"])
    check(text, [X, np.array([[0, 3, 1], [9, -1, 2]])])


B = np.arange(24).reshape(2, 3, 4)
BATCHED = {
    "rows": (lambda x, i: x[i], B, np.array([[0, 2], [-1, 1]])),
    "windows": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), B, np.array([0, 5])),
    "updates": (lambda x, i: lax.dynamic_update_slice(x, -x[:2, :3], (i, i)), B, np.array([0, 5])),
    "set": (lambda x, i: x.at[i].set(i[:, None]), B, np.array([[0, 2], [-1, 7]])),
    "add": (lambda x, i: x.at[i, i].add(i), B, np.array([[0, 2, 2], [-1, 7, 0]])),
    "sort": (lambda x, i: x[jnp.argsort(i)], B, np.array([[2, 1, 0], [0, 2, 1]])),
}


@pytest.mark.parametrize("name", BATCHED)
def test_batching_dimensions(name):
    function, x, i = BATCHED[name]
    check_jax(jax.vmap(function), x, i)
    check_jax(jax.vmap(function, in_axes=(2, 0), out_axes=1), np.moveaxis(x, 0, 2), i)


def test_batches_of_batches():
    check_jax(jax.vmap(jax.vmap(lambda x, i: x[i])), B, B % 5 - 1)


# update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, the shape of an update (of all updates
# where windows come first), indices
SCATTERS = {
    "rows": ((1, 2), (0,), (0,), (4, 5), [[2], [0], [7], [-1], [2]]),
    "columns": ((0, 2), (1,), (1,), (3, 2, 5), [[2], [9]]),
    "points": ((), (0, 1, 2), (0, 1, 2), (), [[2, 3, 4], [0, 0, 0], [9, -9, 2], [2, 3, 4]]),
    "points, turned": ((0,), (0, 2), (2, 0), (4, 4), [[0, 1], [3, 2], [9, -4], [0, 1]]),
    "windows": ((1, 2, 3), (), (1,), (3, 2, 5), [[0], [2], [3], [-1], [1]]),
    "windows of all": ((1, 2, 3), (), (0, 1, 2), (2, 2, 2), [[0, 1, 2], [5, 5, 5], [1, 2, 3], [2, 2, 2]]),
    "a window in front": ((1, 2, 3), (), (0,), (1, 2, 3), [[0], [2], [3]]),
    "everything": ((1, 2, 3), (), (0, 1), (3, 4, 5), [[0, 0], [1, 0]]),
    "nothing": ((1, 2), (0,), (0,), (4, 5), np.zeros((0, 1))),
}
METHODS = (lax.scatter, lax.scatter_add, lax.scatter_sub, lax.scatter_mul, lax.scatter_max, lax.scatter_min)


@pytest.mark.parametrize("name", SCATTERS)
def test_scatter(name):
    window, inserted, mapped, shape, indices = SCATTERS[name]
    dims, indices = ScatterDimensionNumbers(window, inserted, mapped), np.array(indices, np.int32)
    full = shape if 0 in window else (len(indices), *shape)
    updates = (np.arange(np.prod(full)) % 11 - 5).astype(np.float32).reshape(full)

    def f(x, i, u):
        return [method(x, i, u, dims) for method in METHODS]

    check_jax(f, X, indices, updates, tolerance=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=_name)
def test_scatter_of_types(dtype):
    x, index = numbers(dtype), np.array([2, 2, 9, -1])
    order = np.dtype(dtype).kind != "c"
    arithmetic = np.dtype(dtype).kind != "b"

    def f(x, i):
        results = [x.at[i].set(x[:1]), x.at[:, i, 1].set(x[1, 1, 1])]
        if arithmetic:
            results += [x.at[:, i, 1].add(x[1, 1, 1]), x.at[:, i].multiply(x[:, :1])]
        if order:
            results += [x.at[:, i, 1].max(x[1, 1, 1]), x.at[i].min(x[:1])]
        return results

    check_jax(f, x, index, tolerance=1e-6 if np.dtype(dtype).kind in "fcV" else 0.0)


def test_flags_are_combined():
    flags = np.array([True, False, False, True])
    body = """%0 = "stablehlo.scatter"(%a0, %a1, %a2) <{{
      scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
      ^bb0(%x: tensor<i1>, %y: tensor<i1>):
        %z = stablehlo.{} %x, %y : tensor<i1>
        stablehlo.return %z : tensor<i1>
    }}) : (tensor<4xi1>, tensor<3x1xi32>, tensor<3xi1>) -> tensor<4xi1>
    return %0 : tensor<4xi1>"""
    indices = np.array([[0], [1], [1]], np.int32)
    for name in ("or", "and", "xor", "add", "maximum", "minimum"):
        text = program(
            body.format(name), ["tensor<4xi1>", "tensor<3x1xi32>", "tensor<3xi1>"], ["tensor<4xi1>"]
        )
        check(text, [flags, indices, np.array([False, True, True])])


COMBINER = """%0{} = "stablehlo.scatter"({}) <{{
  scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = {}}}> ({{
  {}
}}) : {}
return {}"""


@pytest.mark.parametrize("unique", ["false", "true"])
def test_any_combiner(unique):
    region = """^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %h = stablehlo.constant dense<0.5> : tensor<f32>
        %s = stablehlo.multiply %x, %h : tensor<f32>
        %z = stablehlo.subtract %s, %y : tensor<f32>
        stablehlo.return %z : tensor<f32>"""
    types = ["tensor<4x3xf32>", "tensor<5x1xi32>", "tensor<5x3xf32>"]
    signature = f"({', '.join(types)}) -> {types[0]}"
    body = COMBINER.format("", "%a0, %a1, %a2", unique, region, signature, f"%0 : {types[0]}")
    indices = np.array(
        [[2], [0], [2], [9], [-1]] if unique == "false" else [[2], [0], [1], [9], [-1]], np.int32
    )
    x, updates = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((5, 3), np.float32)
    check(program(body, types, [types[0]]), [x, indices, updates])


def test_several_operands():
    region = """^bb0(%x: tensor<f32>, %i: tensor<i32>, %y: tensor<f32>, %j: tensor<i32>):
        %p = stablehlo.compare GT, %y, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %a = stablehlo.select %p, %y, %x : tensor<i1>, tensor<f32>
        %b = stablehlo.select %p, %j, %i : tensor<i1>, tensor<i32>
        stablehlo.return %a, %b : tensor<f32>, tensor<i32>"""
    results = "tensor<4x2xf32>, tensor<4x2xi32>"
    updates = "tensor<3x2xf32>, tensor<3x2xi32>"
    types = [*results.split(", "), "tensor<3x1xi32>", *updates.split(", ")]
    body = COMBINER.format(
        ":2",
        "%a0, %a1, %a2, %a3, %a4",
        "false",
        region,
        f"({results}, tensor<3x1xi32>, {updates}) -> ({results})",
        f"%0#0, %0#1 : {results}",
    )
    x = np.zeros((4, 2), np.float32)
    given = [x, x.astype(np.int32), np.array([[1], [1], [3]], np.int32)]
    given += [np.array([[1, 5], [2, 4], [-1, 3]], np.float32), np.arange(6, dtype=np.int32).reshape(3, 2)]
    check(program(body, types, results.split(", ")), given)


def test_numbers_that_are_none():
    x = np.array([1, np.nan, -0.0, np.inf, 0.0], np.float32)
    indices = np.array([0, 1, 2, 2, 4])
    updates = np.array([np.nan, 1, -0.0, -0.0, -0.0], np.float32)

    def f(x, i, u):
        return x.at[i].add(u), x.at[i].max(u), x.at[i].min(u), x.at[i].multiply(u), 1 / x.at[i].add(u)

    check_jax(f, x, indices, updates)


def test_indexing():
    i = np.array([1, 0, 2])
    check_jax(lambda x, i: (x[1], x[-1, ..., None], x[i, None, i], x[:, ::-2, 1:3]), X, i)
    check_jax(lambda x, i: (x[i[0]], x[i[0], :, i[1]], x[..., i[2]]), X, i)
    check_jax(lambda x, i: x.at[:, i].get(mode="fill", fill_value=-1), X, i + 2)
    check_jax(lambda x, i: x.at[i, i].apply(jnp.square), X, i)
    check_jax(lambda x, i: (jnp.roll(x, i[0], 1), jnp.repeat(x, 2, 1), jnp.rot90(x)), X, i)


def test_gradients():
    i = np.array([1, 1, 0])
    check_jax(
        lambda x, i: jax.grad(lambda x: (x[i] ** 2 * x[:, i]).sum() if 0 else (x[i] ** 2).sum())(x), X, i
    )
    check_jax(lambda x, i: jax.ops.segment_sum(x, i, 4), X, i)
    check_jax(lambda x, i: jax.ops.segment_max(x, i, 4), X, i)


LOOPS = {
    "each element from the one before": lambda i, a: a.at[i + 1].set(a[i] * 2 + 1),
    "dropped and from the end": lambda i, a: a.at[i - 3].set(a[i] * 2 + 1, mode="drop"),
    "reads all of it": lambda i, a: a.at[i].set(a[i + 1] + a[::-1].max()),
    "writes twice": lambda i, a: a.at[i].add(a[i + 1]).at[i + 1].set(a[0]),
    "a reversed window": lambda i, a: lax.dynamic_update_slice(a, a[::-1][:2], (i,)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_writes_what_it_reads(name):
    check_jax(lambda x, n: lax.fori_loop(0, n, LOOPS[name], x), np.arange(6, dtype=np.float32), np.int64(4))
