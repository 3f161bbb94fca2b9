"""JAX with the platform npu in this process. Importing it registers the platform, which must be before JAX starts one."""

from __future__ import annotations

import jax

import xla_npu

xla_npu.initialize()


def npu(number: int = 0) -> jax.Device:
    return jax.devices("npu")[number]
