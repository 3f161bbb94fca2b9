"""The table: the factors of each operation, by family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from xla_npu.lowering.combiners import kind_on, kinds
from xla_npu.lowering.constants import elements
from xla_npu.lowering.context import integers
from xla_npu.partition.emit import shape_of
from xla_npu.partition.rules import Dims, Factors, alike, by_factors, same_sizes
from xla_npu.types import tensor_type

Shapes = list[tuple[int, ...]]

_ELEMENTWISE = [
    "abs",
    "add",
    "and",
    "atan2",
    "bitcast_convert",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "convert",
    "cosine",
    "count_leading_zeros",
    "divide",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "map",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "power",
    "real",
    "reduce_precision",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "xor",
]


@by_factors(*(f"stablehlo.{name}" for name in _ELEMENTWISE), "custom_call:annotate_device_placement")
def elementwise(op: Any) -> Factors | None:
    """Of operands of one rank, or scalars beside them: not a bitcast that adds or takes a dimension."""
    ranks = {len(shape_of(value)) for value in (op.operands[-1], op.results[0])}
    return alike(op) if same_sizes(op) and len(ranks) == 1 else None


@by_factors("stablehlo.broadcast_in_dim")
def broadcast_in_dim(op: Any) -> Factors:
    result, operand = shape_of(op.results[0]), shape_of(op.operands[0])
    dims = integers(op.attributes["broadcast_dimensions"])
    given = tuple(dim if size == result[dim] else None for size, dim in zip(operand, dims, strict=True))
    return Factors((given,), (tuple(range(len(result))),), wide=math.prod(result) > math.prod(operand))


@by_factors("stablehlo.transpose")
def transpose(op: Any) -> Factors:
    permutation = integers(op.attributes["permutation"])
    return Factors((tuple(range(len(permutation))),), (tuple(permutation),))


@by_factors("stablehlo.reshape")
def reshape(op: Any) -> Factors:
    """Where some dimensions become others, the major ones are cut alike."""
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    dims: tuple[list[int | None], list[int | None]] = ([None] * len(before), [None] * len(after))
    if 0 in before:
        return Factors((tuple(dims[0]),), (tuple(dims[1]),))
    i = j = factor = 0
    while i < len(before) and j < len(after):
        first, second = [i], [j]
        left, right = before[i], after[j]
        while left != right:
            if left < right:
                first.append(first[-1] + 1)
                left *= before[first[-1]]
            else:
                second.append(second[-1] + 1)
                right *= after[second[-1]]
        heads = [
            next((d for d in group if shape[d] > 1), None)
            for group, shape in ((first, before), (second, after))
        ]
        if heads[0] is not None and heads[1] is not None:
            dims[0][heads[0]] = dims[1][heads[1]] = factor
            factor += 1
        i, j = first[-1] + 1, second[-1] + 1
    return Factors((tuple(dims[0]),), (tuple(dims[1]),))


@by_factors("stablehlo.dot_general")
def dot_general(op: Any) -> Factors:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    left, right = (shape_of(v) for v in op.operands)
    lhs: list[int | None] = [None] * len(left)
    rhs: list[int | None] = [None] * len(right)
    factor = 0
    pairs = (
        (numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions),
        (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
    )
    batch: list[int] = []
    for group, (ours, theirs) in enumerate(pairs):
        for a, b in zip(ours, theirs, strict=True):
            lhs[a] = rhs[b] = factor
            if group == 0:
                batch.append(factor)
            factor += 1
    free: list[int] = []
    for dims in (lhs, rhs):
        for index, known in enumerate(dims):
            if known is None:
                dims[index] = factor
                free.append(factor)
                factor += 1
    return Factors((tuple(lhs), tuple(rhs)), ((*batch, *free),), "add")


@by_factors("stablehlo.convolution")
def convolution(op: Any) -> Factors:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    lhs: list[int | None] = [None] * len(shape_of(op.operands[0]))
    rhs: list[int | None] = [None] * len(shape_of(op.operands[1]))
    out: list[int | None] = [None] * len(lhs)
    features, batches = (int(op.attributes[f"{n}_group_count"]) for n in ("feature", "batch"))
    if batches == 1:
        lhs[numbers.input_batch_dimension] = out[numbers.output_batch_dimension] = 0
    if features == 1 and batches == 1:
        rhs[numbers.kernel_output_feature_dimension] = out[numbers.output_feature_dimension] = 1
        lhs[numbers.input_feature_dimension] = rhs[numbers.kernel_input_feature_dimension] = 2
    return Factors((tuple(lhs), tuple(rhs)), (tuple(out),), "add")


_IDENTITY = {"add": 0, "multiply": 1}
_COMBINERS = ("add", "multiply", "maximum", "minimum", "and", "or")


@by_factors("stablehlo.reduce")
def reduce(op: Any) -> Factors:
    count = len(op.operands) // 2
    axes = integers(op.attributes["dimensions"])
    dims = tuple(range(len(shape_of(op.operands[0]))))
    kept = tuple(dim for dim in dims if dim not in axes)
    return Factors((*[dims] * count, *[()] * count), (kept,) * count, _combiner(op, count))


def _combiner(op: Any, count: int) -> str:
    """The one operation that combines parts of all results, "" if there is none. Each part has been combined with the
    initial value, which must not count more than once."""
    found = set(kinds(op.regions[0].blocks[0]))
    kind = found.pop() if len(found) == 1 else None
    if kind not in _COMBINERS:
        return ""
    for value in list(op.operands)[count:]:
        dtype = tensor_type(value.type).element.numpy
        combined = kind_on(kind, dtype)
        if combined in ("maximum", "minimum", "and", "or"):
            continue  # once more changes nothing
        if not _is_constant(value, _IDENTITY[kind]):
            return ""
    return kind


def _is_constant(value: Any, number: float) -> bool:
    owner = value.owner
    if getattr(owner, "name", "") != "stablehlo.constant":
        return False
    array = elements(owner, "value", tensor_type(value.type))
    return bool(array.size) and bool((array == number).all())


@by_factors("stablehlo.slice")
def slice_(op: Any) -> Factors:
    shape = shape_of(op.operands[0])
    begin, end, steps = (integers(op.attributes[n]) for n in ("start_indices", "limit_indices", "strides"))
    dims = _if(b == 0 and e == n and s == 1 for b, e, s, n in zip(begin, end, steps, shape, strict=True))

    def limits(ins: Shapes, outs: Shapes) -> dict[str, Any]:
        return {
            "limit_indices": _array(
                [n if d is not None else e for n, d, e in zip(ins[0], dims, end, strict=True)]
            )
        }

    return Factors((dims,), (dims,), attributes=limits)


@by_factors("stablehlo.pad")
def pad(op: Any) -> Factors:
    edges = (
        integers(op.attributes[n]) for n in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    dims = _if(not any(each) for each in zip(*edges, strict=True))
    return Factors((dims, ()), (dims,))


@by_factors("stablehlo.concatenate")
def concatenate(op: Any) -> Factors:
    axis = int(op.attributes["dimension"])
    dims = _if(dim != axis for dim in range(len(shape_of(op.results[0]))))
    return Factors((dims,) * len(op.operands), (dims,))


@by_factors("stablehlo.reverse")
def reverse(op: Any) -> Factors:
    axes = integers(op.attributes["dimensions"])
    dims = _if(dim not in axes for dim in range(len(shape_of(op.results[0]))))
    return Factors((dims,), (dims,))


@by_factors("stablehlo.dynamic_slice")
def dynamic_slice(op: Any) -> Factors:
    sizes = integers(op.attributes["slice_sizes"])
    # Where the slice is the whole dimension, its start is clamped to 0, in parts as well.
    dims = _if(n == s for n, s in zip(shape_of(op.operands[0]), sizes, strict=True))
    return Factors(
        (dims, *[()] * (len(op.operands) - 1)),
        (dims,),
        attributes=lambda ins, outs: {"slice_sizes": _array(outs[0])},
    )


@by_factors("stablehlo.dynamic_update_slice")
def dynamic_update_slice(op: Any) -> Factors:
    shapes = (shape_of(op.operands[0]), shape_of(op.operands[1]))
    dims = _if(n == s for n, s in zip(*shapes, strict=True))
    return Factors((dims, dims, *[()] * (len(op.operands) - 2)), (dims,))


@by_factors("stablehlo.sort")
def sort(op: Any) -> Factors:
    axis = int(op.attributes["dimension"]) if "dimension" in op.attributes else -1
    rank = len(shape_of(op.operands[0]))
    dims = _if(dim != axis % rank for dim in range(rank)) if rank else ()
    return Factors((dims,) * len(op.operands), (dims,) * len(op.results))


@by_factors("stablehlo.reduce_window")
def reduce_window(op: Any) -> Factors:
    count = len(op.operands) // 2
    dims = _unmoved(op)
    return Factors((*[dims] * count, *[()] * count), (dims,) * count)


@by_factors("stablehlo.select_and_scatter")
def select_and_scatter(op: Any) -> Factors:
    dims = _unmoved(op)
    return Factors((dims, dims, ()), (dims,))


def _unmoved(op: Any) -> Dims:
    """The dimensions along which windows hold one element each, one after the other."""
    rank = len(shape_of(op.operands[0]))
    size = (
        integers(op.attributes["window_dimensions"]) if "window_dimensions" in op.attributes else (1,) * rank
    )
    ones = [
        integers(op.attributes[name]) if name in op.attributes else (1,) * rank
        for name in ("window_strides", "base_dilations", "window_dilations")
    ]
    padding = (
        np.asarray(op.attributes["padding"]).reshape(-1, 2)
        if "padding" in op.attributes
        else np.zeros((rank, 2))
    )
    return _if(
        size[dim] == 1 and all(each[dim] == 1 for each in ones) and not padding[dim].any()
        for dim in range(rank)
    )


@by_factors("stablehlo.cholesky")
def cholesky(op: Any) -> Factors:
    dims = _batch(op.operands[0], 2)
    return Factors((dims,), (dims,))


@by_factors("stablehlo.triangular_solve")
def triangular_solve(op: Any) -> Factors:
    dims = _batch(op.operands[0], 2)
    return Factors((dims, dims), (dims,))


@by_factors("stablehlo.fft")
def fft(op: Any) -> Factors:
    dims = _batch(op.operands[0], len(integers(op.attributes["fft_length"])))
    return Factors((dims,), (dims,))


def _batch(value: Any, last: int) -> Dims:
    """All dimensions but the last ones."""
    rank = len(shape_of(value))
    return _if(dim < rank - last for dim in range(rank))


def _if(conditions: Any) -> Dims:
    """Factor i for dimension i where the condition holds."""
    return tuple(dim if holds else None for dim, holds in enumerate(conditions))


def _array(values: Sequence[int]) -> Any:
    return ir.DenseI64ArrayAttr.get(list(values))
