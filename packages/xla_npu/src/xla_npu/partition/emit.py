"""Writes operations on a device's parts, and the exchanges between devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from xla_npu.devices import Groups
from xla_npu.frontend import nested
from xla_npu.partition.mesh import Axes, Meshes, parts
from xla_npu.types import tensor_type

_SHARDING = "sdy.sharding"


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of an MLIR value of ranked type."""
    return tuple(value.type.shape)


class Emitter:
    """Where the partitioner writes. What all of the function may use is written at its beginning."""

    def __init__(self, meshes: Meshes, devices: int) -> None:
        self.meshes = meshes
        self.devices = devices
        self._start: Any = None
        self._point: Any = None
        self._location: Any = None
        self._positions: dict[Axes, Any] = {}
        self._channel = 0
        self._partition: Any = None

    def begin(self, block: Any) -> None:
        """Writes into the empty block of a function from now on."""
        self._point = ir.InsertionPoint(block)
        nothing = self.constant(np.zeros((), np.int32))  # what is written at the beginning comes before it
        self._start = ir.InsertionPoint(nothing.owner)

    @contextmanager
    def into(self, point: Any) -> Iterator[None]:
        """Writes at another insertion point."""
        outer, self._point = self._point, point
        try:
            yield
        finally:
            self._point = outer

    @contextmanager
    def named(self, operation: Any) -> Iterator[None]:
        """What is written has the operation's place in the source."""
        outer, self._location = self._location, operation.location
        try:
            yield
        finally:
            self._location = outer

    # Operations.

    def op(
        self,
        name: str,
        operands: Sequence[Any],
        types: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        regions: int = 0,
    ) -> Any:
        return ir.Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=dict(attributes or {}),
            regions=regions,
            loc=self._location or ir.Location.unknown(),
            ip=self._point,
        )

    def copy(
        self,
        operation: Any,
        operands: Sequence[Any],
        shapes: Sequence[Sequence[int] | None],
        captures: Mapping[Any, Any],
        attributes: Mapping[str, Any] | None = None,
    ) -> Any:
        """The operation on other operands, with results of other sizes. `captures`: what its regions read instead of
        the values that they read."""
        made = operation.clone(ip=self._point)
        for index, operand in enumerate(operands):
            made.operands[index] = operand
        for result, shape in zip(made.results, shapes, strict=True):
            if shape is not None:  # a token
                result.set_type(self.typed(result, shape))
        for name, attribute in (attributes or {}).items():
            made.attributes[name] = attribute
        for each in (made, *nested(made)):
            if _SHARDING in each.attributes:
                del each.attributes[_SHARDING]
        if captures:
            for each in nested(made):
                for index, value in enumerate(each.operands):
                    if value in captures:
                        each.operands[index] = captures[value]
        return made

    def typed(self, value: Any, shape: Sequence[int]) -> Any:
        """The value's type with other sizes."""
        return ir.RankedTensorType.get(list(shape), value.type.element_type)

    def integers(self, values: Sequence[int]) -> Any:
        return ir.DenseI64ArrayAttr.get(list(values))

    def constant(self, array: np.ndarray[Any, Any]) -> Any:
        attribute = ir.DenseElementsAttr.get(np.asarray(array, order="C"))
        return self.op("stablehlo.constant", [], [attribute.type], {"value": attribute}).results[0]

    def zeros(self, type_: Any) -> Any:
        """An array of zeros."""
        element = tensor_type(type_).element
        zero = self.constant(np.zeros((), np.float32))
        scalar = ir.RankedTensorType.get([], type_.element_type)
        if element.numpy.kind == "c":
            part = ir.F32Type.get() if element.numpy.itemsize == 8 else ir.F64Type.get()
            real = self.op("stablehlo.convert", [zero], [ir.RankedTensorType.get([], part)]).results[0]
            zero = self.op("stablehlo.complex", [real, real], [scalar]).results[0]
        else:
            zero = self.op("stablehlo.convert", [zero], [scalar]).results[0]
        return self.broadcast(zero, type_)

    def broadcast(self, scalar: Any, type_: Any) -> Any:
        """An array of one number."""
        return self.op(
            "stablehlo.broadcast_in_dim", [scalar], [type_], {"broadcast_dimensions": self.integers([])}
        ).results[0]

    def slice(self, value: Any, dim: int, begin: int, end: int) -> Any:
        shape = shape_of(value)
        first = [begin if i == dim else 0 for i in range(len(shape))]
        last = [end if i == dim else size for i, size in enumerate(shape)]
        return self.op(
            "stablehlo.slice",
            [value],
            [self.typed(value, [b - a for a, b in zip(first, last, strict=True)])],
            {
                "start_indices": self.integers(first),
                "limit_indices": self.integers(last),
                "strides": self.integers([1] * len(shape)),
            },
        ).results[0]

    def dynamic_slice(self, value: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
        return self.op(
            "stablehlo.dynamic_slice",
            [value, *starts],
            [self.typed(value, sizes)],
            {"slice_sizes": self.integers(sizes)},
        ).results[0]

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        if shape_of(value) == tuple(shape):
            return value
        return self.op("stablehlo.reshape", [value], [self.typed(value, shape)]).results[0]

    def binary(self, name: str, left: Any, right: Any) -> Any:
        return self.op(f"stablehlo.{name}", [left, right], [left.type]).results[0]

    # The device's own number.

    def table(self, numbers: np.ndarray[Any, Any]) -> Any:
        """The number (i32) that the table has for this device; written once at the start of the function."""
        with self.into(self._start):
            if self._partition is None:
                u32 = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))
                i32 = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
                number = self.op("stablehlo.partition_id", [], [u32]).results[0]
                self._partition = self.op("stablehlo.convert", [number], [i32]).results[0]
            row = self.dynamic_slice(self.constant(numbers.astype(np.int32)), [self._partition], [1])
            return self.reshape(row, [])

    def position(self, axes: Axes) -> Any:
        """This device's position along the axes, i32."""
        if axes not in self._positions:
            mesh = self.meshes.mesh(axes[0].mesh)
            self._positions[axes] = self.table(mesh.positions(axes))
        return self._positions[axes]

    def on_first(self, value: Any, axes: Axes) -> Any:
        """The value on the devices at position 0 along the axes, zeros on the others."""
        flag = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
        direction = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
        with self.into(self._start):
            zero = self.constant(np.array(0, np.int32))
        attributes = {"comparison_direction": direction}
        mine = self.op("stablehlo.compare", [self.position(axes), zero], [flag], attributes).results[0]
        spread = self.broadcast(mine, ir.RankedTensorType.get(list(shape_of(value)), flag.element_type))
        return self.op("stablehlo.select", [spread, value, self.zeros(value.type)], [value.type]).results[0]

    def among_zeros(self, value: Any, dim: int, axes: Axes) -> Any:
        """The device's part at its place in the whole dimension, zeros elsewhere."""
        sizes = [size * (parts(axes) if i == dim else 1) for i, size in enumerate(shape_of(value))]
        type_ = self.typed(value, sizes)
        start, zero = self._start_of(shape_of(value)[dim], axes)
        starts = [start if i == dim else zero for i in range(len(sizes))]
        return self.op(
            "stablehlo.dynamic_update_slice", [self.zeros(type_), value, *starts], [type_]
        ).results[0]

    # Exchanges.

    def _groups(self, axes: Axes) -> Any:
        groups: Groups = self.meshes.mesh(axes[0].mesh).groups(axes)
        return ir.DenseElementsAttr.get(np.array(groups, np.int64))

    def _exchange(self, axes: Axes, across: bool = False) -> dict[str, Any]:
        self._channel += 1
        found = {
            "replica_groups": self._groups(axes) if axes else None,
            "channel_handle": ir.Attribute.parse(
                f"#stablehlo.channel_handle<handle = {self._channel}, type = 1>"
            ),
        }
        if not across:
            found["use_global_device_ids"] = ir.UnitAttr.get()
        return found

    def all_gather(self, value: Any, dim: int, axes: Axes) -> Any:
        shape = [size * (parts(axes) if i == dim else 1) for i, size in enumerate(shape_of(value))]
        if 0 in shape:  # which StableHLO does not gather
            return self.zeros(self.typed(value, shape))
        return self.op(
            "stablehlo.all_gather",
            [value],
            [self.typed(value, shape)],
            {"all_gather_dim": _i64(dim), **self._exchange(axes)},
        ).results[0]

    def all_to_all(self, value: Any, split: int, concat: int, axes: Axes) -> Any:
        shape = list(shape_of(value))
        shape[split] //= parts(axes)
        shape[concat] *= parts(axes)
        if 0 in shape:
            return self.zeros(self.typed(value, shape))
        return self.op(
            "stablehlo.all_to_all",
            [value],
            [self.typed(value, shape)],
            {
                "split_dimension": _i64(split),
                "concat_dimension": _i64(concat),
                "split_count": _i64(parts(axes)),
                **self._exchange(axes, across=True),
            },
        ).results[0]

    def all_reduce(self, value: Any, axes: Axes, combiner: str) -> Any:
        made = self.op("stablehlo.all_reduce", [value], [value.type], self._exchange(axes), regions=1)
        self._combiner(made, value, combiner)
        return made.results[0]

    def from_first(self, value: Any, groups: Groups) -> Any:
        """The value that the first device of each group has, on all of the group."""
        exchange = self._exchange((), across=True)
        exchange["replica_groups"] = ir.DenseElementsAttr.get(np.array(groups, np.int64))
        return self.op("stablehlo.collective_broadcast", [value], [value.type], exchange).results[0]

    def reduce_scatter(self, value: Any, dim: int, axes: Axes, combiner: str) -> Any:
        shape = [size // (parts(axes) if i == dim else 1) for i, size in enumerate(shape_of(value))]
        made = self.op(
            "stablehlo.reduce_scatter",
            [value],
            [self.typed(value, shape)],
            {"scatter_dimension": _i64(dim), **self._exchange(axes)},
            regions=1,
        )
        self._combiner(made, value, combiner)
        return made.results[0]

    def _combiner(self, operation: Any, value: Any, name: str) -> None:
        scalar = self.typed(value, [])
        block = operation.regions[0].blocks.append(scalar, scalar, arg_locs=[ir.Location.unknown()] * 2)
        with self.into(ir.InsertionPoint(block)):
            result = self.binary(name, *block.arguments)
            self.op("stablehlo.return", [result], [])

    def take(self, value: Any, dim: int, axes: Axes) -> Any:
        """This device's part of a dimension that it has in whole."""
        sizes = list(shape_of(value))
        sizes[dim] //= parts(axes)
        start, zero = self._start_of(sizes[dim], axes)
        starts = [start if i == dim else zero for i in range(len(sizes))]
        return self.dynamic_slice(value, starts, sizes)

    def _start_of(self, size: int, axes: Axes) -> tuple[Any, Any]:
        """Where this device's part of that size begins, and 0."""
        position = self.position(axes)
        with self.into(self._start):
            step = self.constant(np.array(size, np.int32))
            return self.binary("multiply", position, step), self.constant(np.array(0, np.int32))


def _i64(number: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
