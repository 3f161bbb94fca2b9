"""Products: dot and dot_general in full, and `contract`, which convolutions are made of too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from npu_common.graph import Value
from xla_npu.lowering.arrays import reshape, transpose
from xla_npu.lowering.compare import parts
from xla_npu.lowering.context import Context
from xla_npu.lowering.helpers import bitcast, cast, full
from xla_npu.lowering.helpers import sizes as shape_of
from xla_npu.lowering.registry import lowers
from xla_npu.lowering.storage import decode

DType = np.dtype[Any]
# What MatMulV2 multiplies and gives in the same type.
_CUBE = ("float32", "float16", "bfloat16", "int32")
# Up to this many products they are made one by one and added: a call of its own costs more.
_FEW = 1 << 15


@dataclass(frozen=True, slots=True)
class Sides:
    """Which dimensions of the two operands are paired: [left, right] each, in order."""

    batch: tuple[tuple[int, ...], tuple[int, ...]]
    contracting: tuple[tuple[int, ...], tuple[int, ...]]


@lowers("stablehlo.dot_general")
def dot_general(ctx: Context, op: Any, lhs: Value, rhs: Value) -> Value:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    sides = Sides(
        (tuple(numbers.lhs_batching_dimensions), tuple(numbers.rhs_batching_dimensions)),
        (tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)),
    )
    left, right = (operand(ctx, op, i, v) for i, v in enumerate((lhs, rhs)))
    return contract(ctx, left, right, sides, ctx.result_type(op).dtype)


@lowers("stablehlo.dot")
def dot(ctx: Context, op: Any, lhs: Value, rhs: Value) -> Value:
    left, right = (operand(ctx, op, i, v) for i, v in enumerate((lhs, rhs)))
    sides = Sides(((), ()), ((len(shape_of(left)) - 1,), (0,)))
    return contract(ctx, left, right, sides, ctx.result_type(op).dtype)


def operand(ctx: Context, op: Any, index: int, value: Value) -> Value:
    """An operand of a product; a storage type's bytes as the numbers that they stand for."""
    element = ctx.operand_type(op, index).element
    return decode(ctx, value, element) if element.is_storage else value


def contract(ctx: Context, lhs: Value, rhs: Value, sides: Sides, dtype: DType) -> Value:
    """The sum over the paired contracting dimensions, as [*batch, *lhs's other dimensions, *rhs's].

    Args:
        dtype: of the result. Integers wrap; float16 and bfloat16 are carried in float32.
    """
    sides = _ordered(lhs, rhs, sides)
    left = _Operand(lhs, sides.batch[0], sides.contracting[0])
    right = _Operand(rhs, sides.batch[1], sides.contracting[1])
    shape = (*left.batch_sizes, *left.free_sizes, *right.free_sizes)
    if math.prod(shape) == 0 or left.inner == 0:
        return full(ctx, shape, 0, dtype)
    carried = compute_type(lhs.dtype, rhs.dtype, dtype)
    product = _multiply(ctx, left.of(cast_to(ctx, lhs, carried)), right.of(cast_to(ctx, rhs, carried)))
    return reshape(ctx, _finish(ctx, product, dtype), shape)


def compute_type(lhs: DType, rhs: DType, result: DType) -> DType:
    """The type that a product is carried in; integers in signed ones, since sums and products wrap alike in both."""
    types = (lhs, rhs, result)
    widest = max(t.itemsize // (2 if t.kind == "c" else 1) for t in types)
    if any(t.kind == "c" for t in types):
        return np.dtype(np.complex128 if widest == 8 else np.complex64)
    if all(t.kind in "iu" for t in types):
        return np.dtype(np.int64 if widest == 8 else np.int32)
    if lhs == rhs == result:
        return np.dtype(np.float32) if result.kind == "b" else result
    doubles = any(t == np.float64 for t in types)
    return np.dtype(np.float64 if doubles else np.float32)


def cast_to(ctx: Context, value: Value, dtype: DType) -> Value:
    """A Cast, or a Bitcast where only the sign is read in another way."""
    same_width = value.dtype.kind in "iu" and dtype.kind in "iu" and value.dtype.itemsize == dtype.itemsize
    return bitcast(ctx, value, dtype) if same_width else cast(ctx, value, dtype)


def _finish(ctx: Context, product: Value, dtype: DType) -> Value:
    if dtype.kind == "b":
        return ctx.add("NotEqual", product, ctx.constant(np.zeros((), product.dtype)))
    return cast_to(ctx, product, dtype)


class _Operand:
    """An operand whose dimensions are batch, free and contracting ones."""

    def __init__(self, value: Value, batch: Sequence[int], contracting: Sequence[int]) -> None:
        self.value = value
        self.batch = tuple(batch)
        self.contracting = tuple(contracting)
        self._sizes = shape_of(value)
        self.free = tuple(i for i in range(len(self._sizes)) if i not in (*batch, *contracting))

    def of(self, value: Value) -> _Operand:
        return _Operand(value, self.batch, self.contracting)

    def _of(self, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._sizes[axis] for axis in axes)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        return self._of(self.batch)

    @property
    def free_sizes(self) -> tuple[int, ...]:
        return self._of(self.free)

    @property
    def outer(self) -> int:
        return math.prod(self.free_sizes)

    @property
    def inner(self) -> int:
        return math.prod(self._of(self.contracting))

    def matrix(self, ctx: Context, batch: Sequence[int]) -> tuple[Value, bool]:
        """As [*batch, outer, inner], or, if that spares a Transpose, as [*batch, inner, outer] and True."""
        straight, turned = (
            (*self.batch, *self.free, *self.contracting),
            (*self.batch, *self.contracting, *self.free),
        )
        if not self._in_place(straight) and self._in_place(turned):
            return reshape(ctx, transpose(ctx, self.value, turned), (*batch, self.inner, self.outer)), True
        return reshape(ctx, transpose(ctx, self.value, straight), (*batch, self.outer, self.inner)), False

    def rows(self, ctx: Context, batch: Sequence[int], outer_first: bool) -> Value:
        """As [*batch, outer, inner] or [*batch, inner, outer]."""
        groups = (self.free, self.contracting) if outer_first else (self.contracting, self.free)
        sizes = (self.outer, self.inner) if outer_first else (self.inner, self.outer)
        return reshape(
            ctx, transpose(ctx, self.value, (*self.batch, *groups[0], *groups[1])), (*batch, *sizes)
        )

    def _in_place(self, perm: Sequence[int]) -> bool:
        moving = [axis for axis in perm if self._sizes[axis] != 1]
        return moving == sorted(moving)


def _ordered(lhs: Value, rhs: Value, sides: Sides) -> Sides:
    """The contracting pairs in the order in which fewest operands need a Transpose: the left's or the right's."""
    pairs = list(zip(*sides.contracting, strict=True))
    candidates = [sorted(pairs), sorted(pairs, key=lambda pair: pair[1])]

    def cost(order: list[tuple[int, int]]) -> int:
        total = 0
        for value, batch, position in ((lhs, sides.batch[0], 0), (rhs, sides.batch[1], 1)):
            operand = _Operand(value, batch, [pair[position] for pair in order])
            straight = (*operand.batch, *operand.free, *operand.contracting)
            turned = (*operand.batch, *operand.contracting, *operand.free)
            if not operand._in_place(straight) and not operand._in_place(turned):
                total += math.prod(shape_of(value))
        return total

    best = min(candidates, key=cost)
    return Sides(sides.batch, (tuple(pair[0] for pair in best), tuple(pair[1] for pair in best)))


def _multiply(ctx: Context, left: _Operand, right: _Operand) -> Value:
    """The product in the operands' own type; its shape is only right in number and order of elements."""
    dtype = left.value.dtype
    if dtype.name in _CUBE:
        return _cube(ctx, left, right)
    count = math.prod(left.batch_sizes) * left.outer * right.outer * left.inner
    if 1 in (left.outer, right.outer, left.inner) or count <= _FEW:
        return _one_by_one(ctx, left, right)
    if dtype.kind == "c":
        return _by_parts(ctx, left, right)
    return _by_gradient(ctx, left, right) if dtype == np.float64 else _by_rows(ctx, left, right)


def _cube(ctx: Context, left: _Operand, right: _Operand) -> Value:
    if not left.batch:
        plain = not left._in_place((*left.contracting, *left.free)) and len(left.free) > 1
        if plain and left._in_place((*left.free, *left.contracting)) and len(left.contracting) == 1:
            # BatchMatMulV2 multiplies every matrix of the left by the one on the right: no reshaping.
            weight, turned = right.matrix(ctx, ())
            return ctx.add("BatchMatMulV2", left.value, weight, adj_x1=False, adj_x2=not turned)
        x1, turned1 = left.matrix(ctx, ())
        x2, turned2 = right.matrix(ctx, ())
        return ctx.add("MatMulV2", x1, x2, transpose_x1=turned1, transpose_x2=not turned2)
    batch = left.batch_sizes
    x1, turned1 = left.matrix(ctx, batch)
    x2, turned2 = right.matrix(ctx, batch)
    return ctx.add("BatchMatMulV2", x1, x2, adj_x1=turned1, adj_x2=not turned2)


def _one_by_one(ctx: Context, left: _Operand, right: _Operand) -> Value:
    """Vectors, outer products and small matrices of types that no product of matrices takes."""
    batch = (math.prod(left.batch_sizes),) if left.batch else ()
    rank = len(batch)
    x1 = left.rows(ctx, batch, outer_first=True)
    x2 = right.rows(ctx, batch, outer_first=True)
    if left.outer > 1 and right.outer > 1:
        x1 = reshape(ctx, x1, (*batch, left.outer, 1, left.inner))
        x2 = reshape(ctx, x2, (*batch, 1, right.outer, right.inner))
        rank += 1
    products = ctx.add("Mul", x1, x2)
    return products if left.inner == 1 else ctx.add("ReduceSum", products, [rank + 1])


def _by_parts(ctx: Context, left: _Operand, right: _Operand) -> Value:
    """(a + bi)(c + di) as XLA has it: ac - bd and ad + bc."""
    dtype = left.value.dtype
    a, b = (left.of(part) for part in parts(ctx, left.value))
    c, d = (right.of(part) for part in parts(ctx, right.value))
    product = _by_gradient if dtype == np.complex128 else _cube
    real = ctx.add("Sub", product(ctx, a, c), product(ctx, b, d))
    imaginary = ctx.add("Add", product(ctx, a, d), product(ctx, b, c))
    return ctx.add("Complex", real, imaginary, Tout=dtype)


def _by_gradient(ctx: Context, left: _Operand, right: _Operand) -> Value:
    """By Conv2DBackpropInput, which takes float64 where no product of matrices does.

    The gradient of a convolution with a window of one element is the product with the transposed filter: inner sizes
    are its output channels, the left's rows its input channels, the right's columns its places, the batch its groups.
    """
    batch = math.prod(left.batch_sizes)
    filters = reshape(
        ctx, left.rows(ctx, (batch,), outer_first=False), (batch * left.inner, left.outer, 1, 1)
    )
    given = reshape(
        ctx, right.rows(ctx, (batch,), outer_first=False), (1, batch * left.inner, 1, right.outer)
    )
    return ctx.add(
        "Conv2DBackpropInput",
        np.array([1, batch * left.outer, 1, right.outer]),
        filters,
        given,
        strides=[1, 1, 1, 1],
        pads=[0, 0, 0, 0],
        dilations=[1, 1, 1, 1],
        groups=batch,
        data_format="NCHW",
    )


def _by_rows(ctx: Context, left: _Operand, right: _Operand) -> Value:
    """By SparseTensorDenseMatMul, the one product of matrices that takes int64.

    A batch of matrices is one matrix whose blocks along the diagonal they are.
    """
    batch = math.prod(left.batch_sizes)
    x1, turned = left.matrix(ctx, (batch,))
    x2 = right.rows(ctx, (batch,), outer_first=False)
    places = np.indices(
        (batch, *((left.inner, left.outer) if turned else (left.outer, left.inner))), np.int32
    )
    row, column = (places[2], places[1]) if turned else (places[1], places[2])
    indices = np.stack([row + places[0] * left.outer, column + places[0] * left.inner], -1).reshape(-1, 2)
    rows = batch * left.outer
    return ctx.add(
        "SparseTensorDenseMatMul",
        ctx.constant(indices),
        reshape(ctx, x1, (batch * left.outer * left.inner,)),
        ctx.constant(np.array([rows, batch * left.inner], np.int64)),
        reshape(ctx, x2, (batch * left.inner, right.outer)),
        outputs=[(x1.dtype, (rows, right.outer))],
    )


__all__ = ["Sides", "cast_to", "compute_type", "contract", "operand"]
