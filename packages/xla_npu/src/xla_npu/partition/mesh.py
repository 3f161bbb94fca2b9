"""Meshes and shardings, as Shardy writes them and as the partitioner works with them.

An axis of a mesh may be used in parts (Shardy's sub-axes). All axes of a module are cut where any sharding cuts them,
so that a sharding is a list of whole `Axis` for each dimension, major ones first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from xla_npu.devices import Groups
from xla_npu.errors import CompileError, Unsupported


@dataclass(frozen=True, slots=True)
class Axis:
    """`number`: its position in its mesh, whose devices form an array over all axes."""

    mesh: str
    number: int
    size: int


Axes = tuple[Axis, ...]
# The axes of each dimension.
Sharding = tuple[Axes, ...]


def parts(axes: Iterable[Axis]) -> int:
    """Into how many parts the axes cut."""
    return math.prod(axis.size for axis in axes)


def whole(rank: int) -> Sharding:
    """Every device has everything."""
    return ((),) * rank


def local_shape(shape: Sequence[int], sharding: Sharding) -> tuple[int, ...]:
    """The sizes of a device's part."""
    return tuple(size // parts(axes) for size, axes in zip(shape, sharding, strict=True))


def axes_of(sharding: Sharding) -> set[Axis]:
    """The axes that any dimension is cut along."""
    return {axis for axes in sharding for axis in axes}


def divided(axes: Sequence[Axis], *sizes: int) -> Axes:
    """The leading axes that cut all of the sizes evenly."""
    taken: list[Axis] = []
    for axis in axes:
        if any(size % parts((*taken, axis)) for size in sizes):
            break
        taken.append(axis)
    return tuple(taken)


@dataclass(frozen=True)
class Mesh:
    """`axes`: major to minor. `names`: of which named axis each is a part. `places`: the device at each position."""

    name: str
    axes: Axes
    names: tuple[str, ...]
    places: np.ndarray[Any, Any]

    def groups(self, axes: Sequence[Axis]) -> Groups:
        """The devices that differ along `axes` only, in the order of their positions along them, the first axis
        major."""
        moved = np.moveaxis(self.places, [axis.number for axis in axes], range(-len(axes), 0))
        return tuple(tuple(row) for row in moved.reshape(-1, parts(axes)).tolist())

    def positions(self, axes: Sequence[Axis]) -> np.ndarray[Any, Any]:
        """int32[devices]: each device's position along `axes`, the first one major."""
        found: np.ndarray[Any, Any] = np.zeros(self.places.size, np.int32)
        for row in self.groups(axes):
            found[list(row)] = np.arange(len(row))
        return found

    @cached_property
    def count(self) -> int:
        return self.places.size


class Meshes:
    """The meshes of a module, and its shardings decoded.

    Raises:
        CompileError: a mesh is not over the program's devices.
    """

    def __init__(self, module: Any, devices: int) -> None:
        self._devices = devices
        self._attributes = {
            op.attributes["sym_name"].value: sdy.MeshAttr(op.attributes["mesh"])
            for op in module.body.operations
            if op.operation.name == "sdy.mesh"
        }
        self._cuts: dict[tuple[str, str], set[int]] = {}
        self._meshes: dict[str, Mesh] = {}

    def note(self, sharding: Any) -> None:
        """Takes note of the cuts of a sharding. All must be noted before the first is decoded."""
        name = _mesh_name(sharding)
        dimensions = map(sdy.DimensionShardingAttr, sharding.dimension_shardings)
        for axes in (sharding.unreduced_axes, *(dimension.axes for dimension in dimensions)):
            for axis in map(sdy.AxisRefAttr, axes):
                if axis.sub_axis_info is not None:
                    part = sdy.SubAxisInfoAttr(axis.sub_axis_info)
                    cuts = self._cuts.setdefault((name, axis.name), set())
                    cuts.update((int(part.pre_size), int(part.pre_size) * int(part.size)))

    def mesh(self, name: str) -> Mesh:
        if name not in self._meshes:
            self._meshes[name] = self._make(name)
        return self._meshes[name]

    def _make(self, name: str) -> Mesh:
        if name not in self._attributes:
            raise CompileError(f"the program names the mesh {name}, which it does not have")
        attribute = self._attributes[name]
        axes: list[Axis] = []
        names: list[str] = []
        for each in map(sdy.MeshAxisAttr, attribute.axes):
            cuts = sorted({1, int(each.size), *self._cuts.get((name, each.name), ())})
            for before, after in itertools.pairwise(cuts):
                if after % before:
                    raise Unsupported(
                        f"parts of the mesh axis {each.name} that overlap are not supported on npu"
                    )
                axes.append(Axis(name, len(axes), after // before))
                names.append(each.name)
        ids = [int(i) for i in attribute.device_ids] or range(parts(axes))
        places = np.array(list(ids), np.int64)
        if not axes and len(places) == 1:  # one device alone has it: Shardy's maximal sharding
            return Mesh(name, (), (), np.arange(1))
        if sorted(places) != list(range(self._devices)):
            raise CompileError(
                f"the mesh {name} has the devices {list(ids)}, the program is for {self._devices} devices"
            )
        return Mesh(name, tuple(axes), tuple(names), places.reshape([axis.size for axis in axes]))

    def axes(self, mesh: str, reference: Any) -> Axes:
        """An axis as a sharding names it, major part first."""
        reference = sdy.AxisRefAttr(reference)
        made = self.mesh(mesh)
        own = [axis for axis, name in zip(made.axes, made.names, strict=True) if name == reference.name]
        if reference.sub_axis_info is None:
            return tuple(own)
        part = sdy.SubAxisInfoAttr(reference.sub_axis_info)
        before = 1
        taken: list[Axis] = []
        for axis in own:
            if int(part.pre_size) <= before < int(part.pre_size) * int(part.size):
                taken.append(axis)
            before *= axis.size
        return tuple(taken)

    def decode(self, sharding: Any) -> Sharding:
        """The axes of each dimension."""
        name = _mesh_name(sharding)
        return tuple(
            tuple(
                axis
                for reference in sdy.DimensionShardingAttr(dimension).axes
                for axis in self.axes(name, reference)
            )
            for dimension in sharding.dimension_shardings
        )

    def unreduced(self, sharding: Any) -> Axes:
        """The axes along which devices have summands of the array, in the order of the mesh."""
        name = _mesh_name(sharding)
        found = {axis for each in sharding.unreduced_axes for axis in self.axes(name, each)}
        return tuple(sorted(found, key=lambda axis: axis.number))

    def only_device(self, sharding: Any) -> int | None:
        """The one device that a maximal sharding names, None for other shardings."""
        attribute = self._attributes.get(_mesh_name(sharding))
        ids = [] if attribute is None or list(attribute.axes) else list(attribute.device_ids)
        return int(ids[0]) if len(ids) == 1 else None

    def is_empty(self, sharding: Any) -> bool:
        """Whether the mesh of a sharding has no axes: it cuts nothing, and names no dimensions either."""
        return not self.mesh(_mesh_name(sharding)).axes

    def manual_axes(self, mesh: str, attribute: Any) -> set[Axis]:
        """The axes that a manual computation names."""
        names = set(sdy.ManualAxesAttr(attribute))
        made = self.mesh(mesh)
        return {axis for axis, name in zip(made.axes, made.names, strict=True) if name in names}


def _mesh_name(sharding: Any) -> str:
    mesh = sharding.mesh_or_ref
    if not isinstance(mesh, ir.FlatSymbolRefAttr):
        raise Unsupported("shardings with a mesh of their own are not supported on npu")
    return str(mesh.value)


def mesh_name(sharding: Any) -> str:
    """The name of the mesh of a sharding."""
    return _mesh_name(sharding)
