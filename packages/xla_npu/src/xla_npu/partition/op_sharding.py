"""Shardings as xla.OpSharding, in which PJRT and JAX speak of parameters and results."""

from __future__ import annotations

import numpy as np
from jax._src.lib import xla_client

from xla_npu.partition.mesh import Axes, Meshes, Sharding, parts


def serialised(meshes: Meshes, sharding: Sharding, unreduced: Axes = ()) -> bytes:
    """The serialised message: tiles in the order of the dimensions, then the devices that have the same tile, then
    those that have summands of the same tile."""
    made = xla_client.OpSharding()
    used = [axis for axes in sharding for axis in axes]
    if not used and not unreduced:
        made.type = xla_client.OpSharding.Type.REPLICATED
        return bytes(made.SerializeToString())
    mesh = meshes.mesh((*used, *unreduced)[0].mesh)
    same = [axis for axis in mesh.axes if axis not in used and axis not in unreduced]
    made.type = xla_client.OpSharding.Type.OTHER
    tiles = [parts(axes) for axes in sharding]
    if same:
        tiles.append(parts(same))
    if unreduced:
        tiles.append(parts(unreduced))
        types = xla_client.OpSharding.Type
        made.last_tile_dims = [*([types.REPLICATED] if same else []), types.UNREDUCED]
    elif same:
        made.replicate_on_last_tile_dim = True
    made.tile_assignment_dimensions = tiles
    order = [axis.number for axis in (*used, *same, *unreduced)]
    made.tile_assignment_devices = np.transpose(mesh.places, order).reshape(-1).tolist()
    return bytes(made.SerializeToString())
