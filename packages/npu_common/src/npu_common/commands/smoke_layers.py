"""What `npu doctor --smoke` tries, a function a layer: `python -m npu_common.commands.smoke_layers NAME`.

Each prints its finding as the last line, raises on a wrong result, and raises Absent where there is nothing to try.
"""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

ABSENT_STATUS = 77  # as automake's tests say "skipped"
_THREAD_LOCAL_CAPTURE = 1  # aclmdlRICaptureMode ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL


class Absent(Exception):
    """The layer is not installed; says which part is not."""


def device() -> str:
    from npu_common import runtime

    host: np.ndarray = np.arange(1 << 20, dtype=np.float32)
    np.testing.assert_array_equal(runtime.asarray(host).numpy(), host)
    free = runtime.Device(0).memory_info().free
    return (
        f"{runtime.device_count()} x {runtime.soc_name()}, {free / 2**30:.1f} GiB free, 4 MiB there and back"
    )


def streams() -> str:
    from npu_common import runtime
    from npu_common.runtime import Event, Stream

    one, other = Stream(), Stream()
    start, end = Event(), Event()
    start.record(one)
    with one:
        x = runtime.full((1000,), 3)
        written = one.record()
    other.wait(written)
    with other:
        y = x.copy(stream=other)
    end.record(other)
    end.synchronize(60)
    np.testing.assert_array_equal(y.numpy(), np.full(1000, 3, np.float32))
    return f"two streams, ordered by an event, {end.elapsed_since(start):.2f} ms"


def operator() -> str:
    from npu_common import runtime

    host = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
    x = runtime.asarray(host)
    y = runtime.empty_like(x)
    runtime.ops.call("aclnnAdd", x, x, 1, y)
    np.testing.assert_array_equal(y.numpy(), host + host)
    return f"aclnnAdd of {runtime.origin('operators', 'aclnnAdd').file}"


def graph() -> str:
    from npu_common.commands.graph import execute
    from npu_common.graph import Builder
    from npu_common.graph.executors import executor

    try:
        executor("ge")
    except (ValueError, ImportError) as error:
        raise Absent(str(error)) from None
    g = Builder("smoke")
    x = g.input("x", "float32", (32, 32))
    g.output(g.add("Relu", g.add("Add", x, x)))
    host = np.random.default_rng(0).standard_normal((32, 32), dtype=np.float32)
    (result,), seconds = execute(g.graph, [host], "ge")
    np.testing.assert_array_equal(result, np.maximum(host + host, 0))
    return f"compiled in {seconds[0] * 1e3:.0f} ms, ran in {seconds[1] * 1e3:.2f} ms"


def collective() -> str:
    from npu_common import runtime
    from npu_common.collectives import Communicator

    if runtime.device_count() < 2:
        raise Absent(f"all_reduce over 2 threads needs 2 devices, and there is {runtime.device_count()}")
    communicators = Communicator.all(range(2))

    def work(communicator: Communicator) -> np.ndarray:
        with runtime.Stream(communicator.device):
            x = runtime.full((1000,), communicator.rank + 1, device=communicator.device)
            return communicator.all_reduce(x).numpy()

    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(work, communicators):
            np.testing.assert_array_equal(result, np.full(1000, 3, np.float32))
    for each in communicators:
        each.close()
    return "all_reduce of 2 ranks"


def capture() -> str:
    from npu_common import runtime

    stream = runtime.Stream()
    with stream:  # an array made on another stream would be a dependence from outside the capture
        x, y = runtime.full((16,), 1), runtime.full((16,), 0)
    stream.synchronize(60)
    acl = ctypes.CDLL(runtime.origin("runtime", "aclrtCreateStream").file)
    if not hasattr(acl, "aclmdlRICaptureBegin"):
        raise Absent(f"{acl._name} has no aclmdlRICaptureBegin")
    handle, model = ctypes.c_void_p(stream._native.handle), ctypes.c_void_p()
    _check(acl, "aclmdlRICaptureBegin", handle, _THREAD_LOCAL_CAPTURE)
    runtime.ops.call("aclnnInplaceAdd", y, x, 1, stream=stream)
    _check(acl, "aclmdlRICaptureEnd", handle, ctypes.byref(model))
    for _ in range(3):
        _check(acl, "aclmdlRIExecuteAsync", model, handle)
    stream.synchronize(60)
    np.testing.assert_array_equal(y.numpy(), np.full(16, 3, np.float32))
    _check(acl, "aclmdlRIDestroy", model)
    return "one operator captured, replayed 3 times"


def torch_npu() -> str:
    from npu_common import versions

    for name in ("torch", "torch_npu"):
        if not versions.is_importable(name):
            raise Absent(f"{name} is not installed")
    import torch

    x = torch.arange(4, dtype=torch.float32, device="npu:0").reshape(2, 2)
    found = (x @ x + 1).cpu().tolist()
    if found != [[3.0, 4.0], [7.0, 12.0]]:
        raise AssertionError(f"a product of 2 x 2 gave {found}")
    return f"torch_npu {versions.installed('torch_npu')}, a product of matrices"


LAYERS = {
    "device and memory": device,
    "streams and events": streams,
    "aclnn operator": operator,
    "graph (executor ge)": graph,
    "HCCL": collective,
    "capture and replay": capture,
    "torch_npu": torch_npu,
}


def _check(library: Any, name: str, *arguments: Any) -> None:
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name} answered {status}")


if __name__ == "__main__":
    try:
        print(LAYERS[sys.argv[1]](), flush=True)
    except Absent as why:
        print(why, flush=True)
        sys.exit(ABSENT_STATUS)
