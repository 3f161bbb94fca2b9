"""Convolutions against XLA on the CPU, integers against the reference interpreter."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from tests.unit.xla_npu.jax_programs import check_jax
from tests.unit.xla_npu.oracle import check
from tests.unit.xla_npu.test_lower_dot import nodes_of

# Dimension numbers with the shapes of an operand and a kernel.
LAYOUTS = {
    "NHWC": (("NHWC", "HWIO", "NHWC"), (2, 9, 8, 4), (3, 2, 4, 6)),
    "NCHW": (("NCHW", "OIHW", "NCHW"), (2, 4, 9, 8), (6, 4, 3, 2)),
    "NWC": (("NWC", "WIO", "NWC"), (2, 9, 4), (3, 4, 6)),
    "mixed": (("HNWC", "OWIH", "CNHW"), (9, 2, 8, 4), (6, 2, 4, 3)),
}
OPTIONS = (
    {"window_strides": (1, 1), "padding": ((0, 0), (0, 0))},
    {"window_strides": (2, 2), "padding": ((1, 1), (0, 1))},
    {"window_strides": (1, 1), "padding": ((2, 1), (-1, 3)), "lhs_dilation": (2, 3)},
    {"window_strides": (2, 1), "padding": ((-2, 1), (4, 3)), "lhs_dilation": (2, 1), "rhs_dilation": (2, 3)},
    {"window_strides": (1, 2), "padding": ((3, 0), (0, 5)), "rhs_dilation": (1, 2)},
)


def convolution(numbers, **options):
    def f(x, w):
        return lax.conv_general_dilated(x, w, dimension_numbers=numbers, **options)

    return f


def sample(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dimension_numbers_strides_paddings_dilations(layout, dtype):
    numbers, x, w = LAYOUTS[layout]
    rank = len(x) - 2
    functions = [
        convolution(numbers, **{name: value[:rank] for name, value in options.items()})
        for options in (OPTIONS if np.dtype(dtype).kind == "f" or layout == "NHWC" else OPTIONS[:1])
    ]
    check_jax(
        lambda x, w: [f(x, w) for f in functions], sample(x, dtype, 0), sample(w, dtype, 1), tolerance=2e-4
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64])
def test_integers_wrap(dtype):
    numbers, x, w = ("NHWC", "HWIO", "NHWC"), (1, 3, 3, 2), (2, 2, 2, 3)
    x, w = sample(x, dtype, 0), sample(w, dtype, 1)
    f = convolution(numbers, window_strides=(1, 1), padding="SAME")
    with jax.enable_x64(True):
        check(jax.jit(f).trace(x, w).lower(lowering_platforms=("cpu",)).as_text(), [x, w])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_halves_are_rounded_once(dtype):
    numbers, x, w = LAYOUTS["NHWC"]
    x, w = sample(x, dtype, 0), sample(w, dtype, 1)
    for options in OPTIONS[:3]:
        f = convolution(numbers, **options)
        text = jax.jit(f).lower(x, w).as_text()
        want = np.asarray(f(x.astype(np.float32), w.astype(np.float32))).astype(dtype)
        check(text, [x, w], 1e-2, 1e-2, [want])
        wide = convolution(numbers, preferred_element_type=np.float32, **options)
        check(jax.jit(wide).lower(x, w).as_text(), [x, w], 1e-4, 1e-4,
              [np.asarray(f(x.astype(np.float32), w.astype(np.float32)))])  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_groups(dtype):
    numbers = ("NHWC", "HWIO", "NHWC")
    for x, w, options in (
        ((2, 5, 5, 4), (3, 3, 2, 6), {"feature_group_count": 2}),
        ((2, 5, 5, 4), (3, 3, 1, 8), {"feature_group_count": 4}),
        ((4, 5, 5, 4), (3, 3, 4, 6), {"batch_group_count": 2}),
        ((2, 4, 5, 4), (3, 2, 2, 6), {"feature_group_count": 2, "lhs_dilation": (2, 1)}),
    ):
        f = convolution(numbers, window_strides=(1, 1), padding=((1, 1), (2, 0)), **options)
        check_jax(f, sample(x, dtype, 0), sample(w, dtype, 1), tolerance=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_other_counts_of_spatial_dimensions(dtype):
    flat = convolution(("NC", "OI", "NC"), window_strides=(), padding=())
    check_jax(flat, sample((2, 4), dtype, 0), sample((6, 4), dtype, 1), tolerance=1e-5)
    deep = convolution(("NDHWC", "DHWIO", "NDHWC"), window_strides=(1, 2, 1), padding="SAME")
    check_jax(deep, sample((2, 4, 5, 5, 2), dtype, 0), sample((2, 3, 3, 2, 3), dtype, 1), tolerance=1e-4)
    numbers = lax.ConvDimensionNumbers((0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5))
    four = convolution(numbers, window_strides=(1, 1, 2, 1), padding="VALID")
    check_jax(
        four, sample((1, 2, 3, 3, 4, 3), dtype, 0), sample((2, 2, 2, 2, 2, 2), dtype, 1), tolerance=1e-4
    )


@pytest.mark.parametrize(
    ("groups", "stride", "padding", "dilation"),
    [
        (1, 1, "SAME", 1),
        (1, 2, "SAME", 1),
        (2, 2, "VALID", 1),
        (2, 3, "SAME", 2),
        (1, 2, ((1, 0), (0, 2)), 1),
    ],
)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_gradients_as_jax_writes_them(layout, groups, stride, padding, dilation):
    numbers = LAYOUTS[layout][0]
    x, w = (
        ((2, 9, 8, 4), (3, 3, 4 // groups, 6)) if layout == "NHWC" else ((2, 4, 9, 8), (6, 4 // groups, 3, 3))
    )
    f = convolution(
        numbers,
        window_strides=(stride, stride),
        padding=padding,
        feature_group_count=groups,
        rhs_dilation=(dilation, dilation),
    )

    def loss(x, w):
        y = f(x, w)
        return (y * jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape)).sum()

    check_jax(
        jax.grad(loss, argnums=(0, 1)), sample(x, np.float32, 0), sample(w, np.float32, 1), tolerance=5e-4
    )


def test_gradients_need_no_transposes():
    numbers, x, w = LAYOUTS["NHWC"]
    f = convolution(numbers, window_strides=(2, 2), padding="SAME")
    args = jax.ShapeDtypeStruct(x, np.float32), jax.ShapeDtypeStruct(w, np.float32)
    text = jax.jit(jax.grad(lambda x, w: jnp.sum(f(x, w) ** 2), argnums=(0, 1))).lower(*args).as_text()
    nodes = nodes_of(text)
    assert [n for n in nodes if n.startswith("Conv")] == [
        "Conv2D",
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
    ] or (
        sorted(n for n in nodes if n.startswith("Conv"))
        == ["Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"]
    )
    assert "Transpose" not in nodes


def test_transposed_convolutions():
    x, w = sample((2, 5, 4, 3), np.float32, 0), sample((3, 3, 3, 4), np.float32, 1)
    for padding in ("SAME", "VALID"):
        check_jax(lambda x, w: lax.conv_transpose(x, w, (2, 2), padding), x, w, tolerance=1e-4)  # noqa: B023
        check_jax(
            lambda x, w: lax.conv_transpose(x, w, (2, 3), padding, (2, 1), transpose_kernel=False),  # noqa: B023
            x,
            w,
            tolerance=1e-4,
        )


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_empty_arrays(dtype):
    f = convolution(("NHWC", "HWIO", "NHWC"), window_strides=(1, 1), padding="SAME")
    for x, w in (((0, 3, 3, 2), (2, 2, 2, 3)), ((1, 3, 3, 0), (2, 2, 0, 3)), ((1, 3, 3, 2), (2, 2, 2, 0))):
        check_jax(f, sample(x, dtype, 0), sample(w, dtype, 1))
