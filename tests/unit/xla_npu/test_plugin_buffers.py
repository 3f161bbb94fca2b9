"""Arrays of JAX on npu: there and back, between memories and devices, deleted."""

from __future__ import annotations

import gc
import threading

import jax
import ml_dtypes
import numpy as np
import pytest

from tests.unit.xla_npu.jax_npu import npu

DTYPES = [
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.float16,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3b11fnuz,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e3m4,
    ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn,
    ml_dtypes.int2,
    ml_dtypes.int4,
    ml_dtypes.uint2,
    ml_dtypes.uint4,
]


@pytest.fixture(autouse=True)
def wide_types():
    with jax.enable_x64(True):
        yield


def put(array, **where):
    return jax.device_put(array, **(where or {"device": npu()}))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_every_element_type_comes_back(dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    array = put(values)
    assert array.dtype == values.dtype
    assert array.devices() == {npu()}
    np.testing.assert_array_equal(np.asarray(array).view(np.uint8), values.view(np.uint8))


BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "values",
    [BASE.T, BASE[::-1], BASE[:, ::2, 1:], np.broadcast_to(BASE[0, 0], (5, 4)), BASE[:0], np.float32(3)],
    ids=["transposed", "reversed", "sliced", "broadcast", "empty", "scalar"],
)
def test_strides_of_the_host(values):
    np.testing.assert_array_equal(np.asarray(put(values)), values)


def test_the_hosts_array_may_change_after_the_call():
    values = np.ones(1 << 20, np.float32)
    array = put(values, device=npu(), may_alias=False)
    values[:] = 2
    assert np.asarray(array).max() == 1


def test_large_arrays_are_copied_in_the_background():
    values = np.random.default_rng(0).random((1024, 1024))
    array = put(values)
    array.copy_to_host_async()
    np.testing.assert_array_equal(np.asarray(array), values)


def test_between_devices():
    values = np.arange(1000.0)
    second = jax.device_put(put(values), npu(1))
    host = jax.device_put(second, jax.devices("cpu")[0])
    again = jax.device_put(host, npu(2))
    assert second.devices() == {npu(1)}
    assert again.devices() == {npu(2)}
    np.testing.assert_array_equal(np.asarray(again), values)


def test_pinned_memory_of_the_host():
    pinned = jax.sharding.SingleDeviceSharding(npu(), memory_kind="pinned_host")
    device = jax.sharding.SingleDeviceSharding(npu(), memory_kind="device")
    values = np.arange(10.0)
    there = jax.device_put(values, pinned)
    moved = jax.device_put(there, device)
    back = jax.device_put(moved, pinned)
    assert [a.sharding.memory_kind for a in (there, moved, back)] == ["pinned_host", "device", "pinned_host"]
    for array in (there, moved, back):
        np.testing.assert_array_equal(np.asarray(array), values)


def test_memories_of_a_device():
    assert [m.kind for m in npu().addressable_memories()] == ["device", "pinned_host"]
    assert npu().default_memory().kind == "device"


def test_deleted_arrays_raise():
    array = put(BASE)
    array.delete()
    assert array.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(array)


def test_memory_goes_back():
    before = npu().memory_stats()["bytes_in_use"]
    array = put(np.zeros(1 << 20, np.uint8))
    assert npu().memory_stats()["bytes_in_use"] >= before + (1 << 20)
    del array
    gc.collect()
    assert npu().memory_stats()["bytes_in_use"] <= before


def test_memory_that_is_not_there_is_an_exception():
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        jax.device_put(np.broadcast_to(np.uint8(1), (1 << 36,)), npu())


def test_threads():
    problems = []

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            for _ in range(30):
                values = rng.random(rng.integers(1, 20000)).astype(np.float32)
                np.testing.assert_array_equal(np.asarray(jax.device_put(values, npu(seed % 2))), values)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
