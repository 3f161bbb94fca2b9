"""JAX on several processes, each with some of the devices."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START = """
    import sys, time
    import jax, jax.numpy as jnp, numpy as np
    from jax import lax
    from jax.experimental import multihost_utils
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    rank, count, port = map(int, sys.argv[1:])
    jax.distributed.initialize(f"localhost:{port}", count, rank)
    mesh = jax.make_mesh((2, jax.device_count() // 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    def put(array, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
    def here(array):
        return np.asarray(array.addressable_data(0))
"""


@contextmanager
def processes(code: str, count: int, devices: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks 0 to count - 1, each with that many devices."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    environ = {**os.environ, "JAX_PLATFORMS": "npu", "NPU_EMULATOR_DEVICES": str(devices)}
    script = textwrap.dedent(START) + textwrap.dedent(code)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(count), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
        )
        for rank in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_two_processes_of_four_devices() -> None:
    code = """
        product = jax.jit(lambda a: a @ a.T + a.sum(), out_shardings=NamedSharding(mesh, P()))(put(x, "x", "y"))
        np.testing.assert_allclose(here(product), x @ x.T + x.sum(), rtol=1e-6)
        ring = jax.shard_map(
            lambda a: lax.ppermute(a, "x", [(0, 1), (1, 0)]), mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
        moved = multihost_utils.process_allgather(jax.jit(ring)(put(x, "x", "y")), tiled=True)
        np.testing.assert_array_equal(moved, np.roll(x, 8, 0))
        local = np.full((4, 2), rank, np.float32)
        own = jax.make_array_from_process_local_data(NamedSharding(mesh, P(("x", "y"))), local)
        total = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, P()))(own)
        assert here(total) == 8
        assert multihost_utils.broadcast_one_to_all(np.array(rank + 5)) == 5
        multihost_utils.sync_global_devices("end")
        print(rank, jax.device_count(), jax.local_device_count(), "done")
    """
    with processes(code, 2, 4) as started:
        for rank, process in enumerate(started):
            out, errors = process.communicate(timeout=180)
            assert out.split() == [str(rank), "8", "4", "done"], errors[-3000:]


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others() -> None:
    """The error says which rank is gone, and nothing of the group stays in /dev/shm."""
    before = set(Path("/dev/shm").iterdir())
    code = """
        step = jax.jit(lambda a: a + a.sum() * 1e-9, out_shardings=NamedSharding(mesh, P("x", "y")))
        value = put(x, "x", "y")
        value = step(value)
        value.block_until_ready()
        print("steps", flush=True)
        while True:
            value = step(value)
            value.block_until_ready()
    """
    with processes(code, 4, 2) as started:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "steps\n"
        time.sleep(0.5)
        started[2].send_signal(signal.SIGKILL)
        for rank in (0, 1, 3):
            _, errors = started[rank].communicate(timeout=120)
            assert started[rank].returncode != 0
            assert "lost rank" in errors or "/task:2" in errors or "task 2" in errors, errors[-3000:]
    assert set(Path("/dev/shm").iterdir()) <= before
