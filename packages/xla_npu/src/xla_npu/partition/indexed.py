"""gather and scatter: cut along what the indices do not choose."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from xla_npu.lowering.context import integers
from xla_npu.partition.emit import shape_of
from xla_npu.partition.rules import Factors, by_factors


@by_factors("stablehlo.gather")
def gather(op: Any) -> Factors:
    """A window over a whole dimension begins at 0, whatever the index: starts are clamped."""
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    shape, result = shape_of(op.operands[0]), shape_of(op.results[0])
    size = integers(op.attributes["slice_sizes"])
    operand: list[int | None] = [None] * len(shape)
    out: list[int | None] = [None] * len(result)
    windows = [
        dim
        for dim in range(len(shape))
        if dim not in numbers.collapsed_slice_dims and dim not in numbers.operand_batching_dims
    ]
    for dim, place in zip(windows, numbers.offset_dims, strict=True):
        if size[dim] == shape[dim]:
            operand[dim] = out[place] = place
    indices, batch = _index_dims(op.operands[1], numbers.index_vector_dim)
    places = [place for place in range(len(result)) if place not in numbers.offset_dims]
    for dim, place in zip(batch, places, strict=True):
        indices[dim] = out[place] = place
    for dim, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        operand[dim] = indices[other]

    def sizes(ins: list[tuple[int, ...]], outs: list[tuple[int, ...]]) -> dict[str, Any]:
        local = [
            n if dim in windows and factor is not None else s
            for dim, (n, factor, s) in enumerate(zip(ins[0], operand, size, strict=True))
        ]
        return {"slice_sizes": ir.DenseI64ArrayAttr.get(local)}

    return Factors((tuple(operand), tuple(indices)), (tuple(out),), attributes=sizes)


@by_factors("stablehlo.scatter")
def scatter(op: Any) -> Factors:
    """A window over a whole dimension is written if it begins at 0, in parts as well."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    count = (len(op.operands) - 1) // 2
    shape, update_shape = shape_of(op.operands[0]), shape_of(op.operands[count + 1])
    operand: list[int | None] = [None] * len(shape)
    update: list[int | None] = [None] * len(update_shape)
    windows = [
        dim
        for dim in range(len(shape))
        if dim not in numbers.inserted_window_dims and dim not in numbers.input_batching_dims
    ]
    for dim, place in zip(windows, numbers.update_window_dims, strict=True):
        if update_shape[place] == shape[dim]:
            operand[dim] = update[place] = dim
    indices, batch = _index_dims(op.operands[count], numbers.index_vector_dim)
    places = [place for place in range(len(update_shape)) if place not in numbers.update_window_dims]
    place_of = dict(zip(batch, places, strict=True))
    for dim, other in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        operand[dim] = indices[other] = update[place_of[other]] = dim
    dims = tuple(operand)
    return Factors((*[dims] * count, tuple(indices), *[tuple(update)] * count), (dims,) * count)


def _index_dims(indices: Any, vector: int) -> tuple[list[int | None], list[int]]:
    """A list for the factors of the indices' dimensions, and those that number the windows."""
    rank = len(shape_of(indices))
    return [None] * rank, [dim for dim in range(rank) if dim != vector]
