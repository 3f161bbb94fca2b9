"""Arrays and memory, against NumPy."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from npu_common import runtime
from npu_common.runtime import Stream, memory

DTYPES = [
    *("float32", "float16", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu),
]
pytestmark = pytest.mark.usefixtures("blocks_are_returned")


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 4), (4, 1, 7)], ids=str)
def test_values_come_back_as_they_went(dtype, shape) -> None:
    values = np.random.default_rng(0).integers(
        0, 255, size=(*shape, np.dtype(dtype).itemsize), dtype=np.uint8
    )
    host = values.view(dtype).reshape(shape) if np.dtype(dtype) != bool else (values[..., 0] > 127)
    back = runtime.asarray(host).numpy()
    assert back.dtype == host.dtype and back.shape == host.shape
    assert back.tobytes() == host.tobytes()


def test_a_dtype_that_no_npu_has_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="no array on an NPU has dtype <U3"):
        runtime.empty(3, "U3")


@pytest.mark.parametrize(
    "key",
    [
        1,
        -1,
        slice(1, 3),
        slice(None, None, 2),
        (slice(None), 2),
        (..., 0),
        (1, slice(0, 0)),
        (slice(3, 1), 1),
    ],
    ids=str,
)
def test_views_are_numpy_s(key) -> None:
    host = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    np.testing.assert_array_equal(runtime.asarray(host)[key].numpy(), host[key])


def test_transposed_and_reshaped_views() -> None:
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array = runtime.asarray(host)
    np.testing.assert_array_equal(array.transpose(2, 0, 1).numpy(), host.transpose(2, 0, 1))
    np.testing.assert_array_equal(array.transpose().numpy(), host.T)
    np.testing.assert_array_equal(array.reshape(4, -1).numpy(), host.reshape(4, -1))
    assert array.transpose(2, 0, 1).strides == host.transpose(2, 0, 1).strides
    with pytest.raises(ValueError, match="only a contiguous array"):
        array.transpose().reshape(24)
    with pytest.raises(ValueError, match=r"has no shape \(5, -1\)"):
        array.reshape(5, -1)
    with pytest.raises(ValueError, match="no negative strides"):
        array[::-1]
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        array[7]


def test_a_view_keeps_the_memory() -> None:
    view = runtime.asarray(np.arange(10.0, dtype=np.float32))[3:5]
    gc.collect()
    runtime.empty(10)  # would be handed the same memory
    np.testing.assert_array_equal(view.numpy(), [3, 4])


def test_numpy_s_own_functions_take_arrays() -> None:
    array = runtime.asarray([[1, 2], [3, 4]], "int16")
    assert np.asarray(array).sum() == 10
    assert np.asarray(array, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="by a copy only"):
        np.asarray(array, copy=False)


def test_host_arrays_that_do_not_fit_are_refused() -> None:
    array = runtime.empty((2, 3))
    for wrong in (np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float64)):
        with pytest.raises(ValueError, match="the host array has shape"):
            array.copy_from(wrong)
        with pytest.raises(ValueError, match="the host array has shape"):
            array.numpy(wrong)


def test_asynchronous_copies_need_pinned_memory_and_follow_the_stream(stream: Stream) -> None:
    source, target = memory.pinned_empty((64, 64)), memory.pinned_empty((64, 64))
    source[:] = np.arange(4096, dtype=np.float32).reshape(64, 64)
    with stream:
        array = runtime.empty((64, 64))
        gate = threading.Event()
        stream.launch_host(lambda: gate.wait(30))
        array.copy_from(source, wait=False)
        target[:] = -1
        array.numpy(target, wait=False)
        assert (target == -1).all()
        gate.set()
        stream.synchronize()
    np.testing.assert_array_equal(target, source)
    for wait_for_it in (lambda a: array.copy_from(a, wait=False), lambda a: array.numpy(a, wait=False)):
        with pytest.raises(ValueError, match="pinned"):
            wait_for_it(np.zeros((64, 64), np.float32))


def test_pinned_memory_outlives_the_copies_that_use_it(stream: Stream) -> None:
    with stream:
        array = runtime.empty(1 << 16)
        source = memory.pinned_empty(1 << 16)
        source[:] = 7
        stream.launch_host(lambda: None)
        array.copy_from(source, wait=False)
        del source
        assert (array.numpy() == 7).all()


def test_copies_between_devices() -> None:
    host = np.random.default_rng(1).standard_normal((33, 17), dtype=np.float32)
    there = runtime.asarray(host, device=0).transpose().to(1)
    assert there.device.index == 1
    np.testing.assert_array_equal(there.numpy(), host.T)
    assert there.to(1) is there


def test_too_much_memory_is_a_memory_error_with_cann_s_code() -> None:
    with pytest.raises(runtime.DeviceMemoryError) as raised:
        runtime.empty(1 << 50, "int8")
    assert isinstance(raised.value, MemoryError)
    assert raised.value.code_name == "ACL_ERROR_RT_MEMORY_ALLOCATION"
    assert f"allocating {1 << 50} bytes on npu:0" in str(raised.value)
    with pytest.raises(ValueError, match="too large"):
        runtime.empty((1 << 40, 1 << 40))


def test_memory_is_used_again_and_given_back() -> None:
    memory.trim()
    before = memory.stats()
    for _ in range(10):
        runtime.empty(1000)
    after = memory.stats()
    assert after["allocations"] - before["allocations"] == 10
    assert after["device_allocations"] - before["device_allocations"] == 1
    memory.trim()
    assert memory.stats()["reserved_bytes"] == before["reserved_bytes"]


def test_memory_that_is_short_is_taken_from_what_the_pool_keeps() -> None:
    free = runtime.Device(0).memory_info().free
    sizes = [free // 2, free // 8 * 7]  # the second fits only when the first, kept block is gone
    for size in sizes:
        runtime.empty(size, "int8")
    assert memory.stats()["retries"] >= 1
    memory.trim()


def test_memory_is_not_reused_while_another_stream_works_with_it(stream: Stream) -> None:
    other = Stream()
    gate = threading.Event()
    array = runtime.asarray(np.full(4096, 5, np.float32), stream=stream)
    address = array.address
    target = memory.pinned_empty(4096)
    other.launch_host(lambda: gate.wait(30))
    with other:
        copy = array.copy()
    del array
    fresh = runtime.zeros(4096, stream=stream)
    assert fresh.address != address
    gate.set()
    copy.numpy(target)
    assert (target == 5).all()
    other.close()


def test_another_stream_waits_for_the_values_by_itself(stream: Stream) -> None:
    gate = threading.Event()
    source = memory.pinned_empty(256)
    source[:] = 3
    array = runtime.zeros(256, stream=stream)
    stream.launch_host(lambda: gate.wait(30))
    array.copy_from(source, wait=False)
    other = Stream()
    with other:
        copy = array.copy()
    gate.set()
    assert (copy.numpy() == 3).all()
    other.close()


def test_arrays_of_many_threads() -> None:
    def hammer(seed: int) -> bool:
        random = np.random.default_rng(seed)
        with Stream():
            for _ in range(60):
                host = random.standard_normal(int(random.integers(1, 5000)), dtype=np.float32)
                array = runtime.asarray(host)
                if not np.array_equal(array.copy().numpy(), host):
                    return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(hammer, range(8)))


def test_the_array_interface_describes_the_memory() -> None:
    array = runtime.zeros((2, 3), "int16")[:, 1:]
    interface = array.__npu_array_interface__
    assert interface["shape"] == (2, 2) and interface["strides"] == (6, 2) and interface["typestr"] == "<i2"
    assert interface["data"] == (array.address, False) and interface["stream"] == array.stream.handle
