"""DLPack: with ourselves, and with the torch_npu of this environment in a process of its own."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from npu_common import runtime

from .conftest import Spawn, output


@pytest.mark.parametrize("version", [None, (1, 1)], ids=["first form", "versioned"])
def test_the_memory_goes_over_without_a_copy(version) -> None:
    array = runtime.asarray(np.arange(12, dtype=np.int16).reshape(3, 4))[:, 1:3]
    capsule = array.__dlpack__(max_version=version)
    again = runtime.DeviceArray(capsule, array.stream)
    assert again.address == array.address and again.dtype == np.int16 and again.strides == array.strides
    np.testing.assert_array_equal(again.numpy(), array.numpy())
    with pytest.raises(ValueError, match="taken over before"):
        runtime.DeviceArray(capsule, array.stream)


def test_whoever_is_last_frees_the_memory() -> None:
    before = runtime.memory.stats()["blocks_in_use"]
    array = runtime.zeros(100)
    taken, unused = runtime.from_dlpack(array), array.__dlpack__()
    del array, unused
    assert runtime.memory.stats()["blocks_in_use"] == before + 1
    assert (taken.numpy() == 0).all()
    del taken
    assert runtime.memory.stats()["blocks_in_use"] == before


def test_a_copy_is_made_where_it_is_asked_for() -> None:
    array = runtime.zeros(4)
    assert runtime.DeviceArray(array.__dlpack__(copy=True), array.stream).address != array.address
    with pytest.raises(BufferError, match="not on"):
        array.__dlpack__(dl_device=(1, 0))


def test_what_is_not_on_an_npu_is_refused() -> None:
    with pytest.raises(ValueError, match="DLPack's type 1, and an NPU is 12"):
        runtime.DeviceArray(np.zeros(3).__dlpack__(), runtime.current_stream()._native)
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        runtime.from_dlpack([1])


def test_a_capsule_that_nobody_takes_is_no_leak_and_no_double_free() -> None:
    array = runtime.zeros(10)
    for _ in range(1000):
        array.__dlpack__()
        array.__dlpack__(max_version=(1, 0))
    assert ctypes.c_int.in_dll(ctypes.pythonapi, "Py_OptimizeFlag").value >= 0  # still alive
    assert (array.numpy() == 0).all()


TORCH = """
import numpy as np
import torch, torch_npu
from npu_common import runtime
from npu_common.collectives import Communicator

t = torch.arange(12, dtype=torch.float32, device="npu:0").reshape(3, 4)
for _ in range(200):
    t = t + 1                                    # still in torch_npu's queue when it is taken over
a = runtime.from_dlpack(t)
assert a.address == t.data_ptr() and a.shape == (3, 4)
np.testing.assert_array_equal(a.numpy(), np.arange(12).reshape(3, 4) + 200)

b = runtime.asarray(np.arange(6, dtype=np.int32).reshape(2, 3))
u = torch.utils.dlpack.from_dlpack(b)
assert u.device.type == "npu" and u.data_ptr() == b.address
assert (u + 1).cpu().tolist() == [[1, 2, 3], [4, 5, 6]]

h = torch.ones(3, dtype=torch.bfloat16, device="npu:0")
out = torch.empty_like(h)
runtime.ops.call("aclnnAdd", h, h, 1, out)
runtime.current_stream().synchronize()
assert out.cpu().tolist() == [2, 2, 2]

(alone,) = Communicator.all([0])
x = torch.full((5,), 3.0, device="npu:0") * 2
assert alone.all_reduce(x, out=x) is x and x.cpu().tolist() == [6.0] * 5

with runtime.Stream.borrow(torch.npu.current_stream().npu_stream):
    y = runtime.from_dlpack(torch.ones(4, device="npu:0"))
    runtime.ops.call("aclnnMuls", y, 3.0, y)
assert y.numpy().tolist() == [3, 3, 3, 3]
print("right")
"""


def test_with_torch_npu(spawn: Spawn) -> None:
    assert output(spawn(TORCH), timeout=300).endswith("right\n")
