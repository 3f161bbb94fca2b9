"""Broadcasts, reshapes, transposes, slices, pads, joins and dynamic slices."""

import ml_dtypes
import numpy as np
import pytest

from tests.unit.xla_npu.oracle import check, program, run_npu
from xla_npu.errors import Unsupported

DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "ui8": np.uint8,
    "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f32": np.float32, "f64": np.float64, "complex<f32>": np.complex64, "complex<f64>": np.complex128,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


def values(shape, element, start=0):
    """Numbers that differ, up to the largest of unsigned types."""
    count = int(np.prod(shape))
    numbers = (np.arange(count) + start) % 100
    dtype = np.dtype(DTYPES[element])
    if dtype.kind == "u":
        return (np.iinfo(dtype).max - numbers.astype(dtype)).astype(dtype).reshape(shape)
    if dtype.kind == "c":
        return (numbers - 1j * numbers[::-1]).astype(dtype).reshape(shape)
    return (numbers % 2 if dtype.kind == "b" else numbers).astype(dtype).reshape(shape)


def tensor(shape, element):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def unary(operation, shape, result, element="f32", form="{op} %a0"):
    """%0 = operation : (type) -> type"""
    before, after = tensor(shape, element), tensor(result, element)
    text = program(
        f"%0 = stablehlo.{operation} : ({before}) -> {after}\nreturn %0 : {after}", [before], [after]
    )
    check(text, [values(shape, element)])


@pytest.mark.parametrize(
    ("shape", "dims", "result"),
    [
        ((), [], (2, 3)),
        ((3,), [1], (2, 3)),
        ((3,), [0], (3, 2)),
        ((1, 3), [0, 1], (2, 3)),
        ((2, 1), [0, 2], (2, 4, 3)),
        ((2, 3), [0, 2], (2, 1, 3)),
        ((2, 3), [2, 0], (3, 4, 2)),
        ((0, 1), [0, 1], (0, 5)),
        ((), [], ()),
    ],
)
def test_broadcast_in_dim(shape, dims, result):
    unary(f"broadcast_in_dim %a0, dims = {dims}", shape, result)


@pytest.mark.parametrize(
    ("shape", "perm"), [((2, 3, 4), [2, 0, 1]), ((1, 3, 1), [2, 0, 1]), ((0, 3), [1, 0]), ((), [])]
)
def test_transpose(shape, perm):
    unary(f"transpose %a0, dims = {perm}", shape, [shape[i] for i in perm])


@pytest.mark.parametrize("element", DTYPES)
def test_slice(element):
    unary("slice %a0 [1:3, 0:5:2]", (4, 5), (2, 3), element)


@pytest.mark.parametrize(
    ("bounds", "result"), [("1:1, 0:5", (0, 5)), ("0:4, 0:5", (4, 5)), ("3:4, 4:5:7", (1, 1))]
)
def test_slice_bounds(bounds, result):
    unary(f"slice %a0 [{bounds}]", (4, 5), result)


@pytest.mark.parametrize("element", DTYPES)
def test_reverse(element):
    unary("reverse %a0, dims = [0, 2]", (2, 3, 2), (2, 3, 2), element)


PADS = [
    ([1, 2], [0, 3], [0, 0]),
    ([-1, 0], [2, -2], [0, 0]),
    ([0, 0], [0, 0], [2, 1]),
    ([-3, 1], [2, -4], [1, 2]),
    ([-5, 0], [4, 0], [0, 0]),
    ([4, 0], [-6, 0], [0, 0]),
    ([-2, 0], [-1, 0], [0, 0]),
]


@pytest.mark.parametrize(("low", "high", "interior"), PADS)
def test_pad(low, high, interior):
    check(*pad_program((3, 4), low, high, interior, "f32"))


@pytest.mark.parametrize("shape", [(0, 4), (1, 1)])
def test_pad_of_little(shape):
    check(*pad_program(shape, [2, 1], [0, 1], [3, 1], "f32"))


@pytest.mark.parametrize("element", DTYPES)
def test_pad_types(element):
    check(*pad_program((3, 4), [1, -1], [0, 2], [0, 1], element))


def pad_program(shape, low, high, interior, element):
    result = [
        lo + hi + n + max(n - 1, 0) * gap for n, lo, hi, gap in zip(shape, low, high, interior, strict=True)
    ]
    types = [tensor(shape, element), f"tensor<{element}>"]
    after = tensor(result, element)
    body = (
        f"%0 = stablehlo.pad %a0, %a1, low = {low}, high = {high}, interior = {interior}"
        f" : ({', '.join(types)}) -> {after}\nreturn %0 : {after}"
    )
    return program(body, types, [after]), [values(shape, element), values((), element, 7)]


@pytest.mark.parametrize("element", DTYPES)
def test_concatenate(element):
    types = [tensor(shape, element) for shape in ((2, 3), (2, 0), (2, 1))]
    after = tensor((2, 4), element)
    body = f"%0 = stablehlo.concatenate %a0, %a1, %a2, dim = 1 : ({', '.join(types)}) -> {after}"
    inputs = [values(shape, element, i) for i, shape in enumerate(((2, 3), (2, 0), (2, 1)))]
    check(program(f"{body}\nreturn %0 : {after}", types, [after]), inputs)


def test_get_dimension_size():
    body = "%0 = stablehlo.get_dimension_size %a0, dim = 1 : (tensor<2x7xf32>) -> tensor<i32>"
    text = program(f"{body}\nreturn %0 : tensor<i32>", ["tensor<2x7xf32>"], ["tensor<i32>"])
    check(text, [np.zeros((2, 7), np.float32)])


def dynamic_slice(shape, sizes, element, index):
    before, after = tensor(shape, element), tensor(sizes, element)
    starts = [f"tensor<{index}>"] * len(shape)
    names = ", ".join(f"%a{i + 1}" for i in range(len(shape)))
    body = (
        f"%0 = stablehlo.dynamic_slice %a0, {names}, sizes = {list(sizes)}"
        f" : ({', '.join([before, *starts])}) -> {after}\nreturn %0 : {after}"
    )
    return program(body, [before, *starts], [after])


def dynamic_update(shape, sizes, element, index):
    before, update = tensor(shape, element), tensor(sizes, element)
    starts = [f"tensor<{index}>"] * len(shape)
    names = ", ".join(f"%a{i + 2}" for i in range(len(shape)))
    body = (
        f"%0 = stablehlo.dynamic_update_slice %a0, %a1, {names}"
        f" : ({', '.join([before, update, *starts])}) -> {before}\nreturn %0 : {before}"
    )
    return program(body, [before, update, *starts], [before])


SLICES = [
    ((4, 5), (1, 5)),
    ((4, 5), (4, 1)),
    ((4, 5), (2, 5)),
    ((4, 5), (4, 3)),
    ((4, 5), (2, 3)),
    ((4, 5), (4, 5)),
    ((4, 5), (0, 2)),
    ((6,), (2,)),
    ((2, 3, 4), (1, 3, 2)),
]
STARTS = [(0, 0, 0), (1, 2, 1), (-7, 9, -1), (100, -100, 100)]


@pytest.mark.parametrize(("shape", "sizes"), SLICES)
def test_dynamic_slice(shape, sizes):
    text = dynamic_slice(shape, sizes, "f32", "i32")
    for starts in STARTS:
        check(text, [values(shape, "f32"), *map(np.int32, starts[: len(shape)])])


@pytest.mark.parametrize(("shape", "sizes"), SLICES)
def test_dynamic_update_slice(shape, sizes):
    text = dynamic_update(shape, sizes, "f32", "i32")
    for starts in STARTS:
        inputs = [values(shape, "f32"), values(sizes, "f32", 50), *map(np.int32, starts[: len(shape)])]
        check(text, inputs)


@pytest.mark.parametrize("element", DTYPES)
def test_dynamic_slices_of_types(element):
    x, update = values((4, 5), element), values((2, 3), element, 50)
    starts = [np.int32(1), np.int32(9)]
    check(dynamic_slice((4, 5), (2, 3), element, "i32"), [x, *starts])
    check(dynamic_slice((4, 5), (1, 5), element, "i32"), [x, *starts])
    check(dynamic_update((4, 5), (2, 3), element, "i32"), [x, update, *starts])


@pytest.mark.parametrize("index", ["i8", "i16", "i64", "ui8", "ui16", "ui32", "ui64"])
def test_start_indices_of_types(index):
    # The reference interpreter takes the largest unsigned numbers for negative ones, so NumPy says what is right.
    dtype, x = np.dtype(DTYPES[index]), values((4, 5), "f32")
    text = dynamic_slice((4, 5), (2, 3), "f32", index)
    for start in (0, 1, np.iinfo(dtype).max, np.iinfo(dtype).min):
        first = min(max(int(start), 0), 2)
        check(text, [x, np.array(start, dtype), np.array(1, dtype)], expected=[x[first : first + 2, 1:4]])


def test_shapes_as_operands():
    body = """%s = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
    %0 = stablehlo.dynamic_reshape %a0, %s : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<3x2xf32>
    %b = stablehlo.constant dense<[4, 3, 2]> : tensor<3xi32>
    %1 = stablehlo.dynamic_broadcast_in_dim %0, %b, dims = [1, 2]
      : (tensor<3x2xf32>, tensor<3xi32>) -> tensor<4x3x2xf32>
    return %1 : tensor<4x3x2xf32>"""
    x = values((2, 3), "f32")
    check(
        program(body, ["tensor<2x3xf32>"], ["tensor<4x3x2xf32>"]),
        [x],
        expected=[np.broadcast_to(x.reshape(3, 2), (4, 3, 2))],
    )


def test_bounds_that_are_computed_are_refused():
    types = ["tensor<6xf32>", *["tensor<1xi32>"] * 3]
    body = f"""%0 = stablehlo.real_dynamic_slice %a0, %a1, %a2, %a3 : ({", ".join(types)}) -> tensor<2xf32>
    return %0 : tensor<2xf32>"""
    inputs = [np.zeros(6, np.float32), *[np.ones(1, np.int32)] * 3]
    with pytest.raises(Unsupported, match="known when compiling"):
        run_npu(program(body, types, ["tensor<2xf32>"]), inputs)
