"""Captured runs of the executor aclnn: what they compute, against NumPy, over changed inputs, streams and devices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from npu_common import _cann, runtime
from npu_common.graph import Builder
from npu_common.graph.executors import CompileOptions, executor, replay
from npu_common.graph.executors.replay import Replay
from npu_common.graph.executors.run_aclnn import AclnnExecutable

Array = np.ndarray
RNG = np.random.default_rng(0)
WEIGHT, BIAS = (RNG.standard_normal(shape, dtype=np.float32) for shape in ((8, 8), (8,)))


def network(donate: bool = False) -> AclnnExecutable:
    """Products, a reduction, a view and a constant, with intermediates whose memory is used again."""
    g = Builder("network")
    x = g.input("x", "float32", (4, 8))
    y = g.add("Tanh", x @ g.constant(WEIGHT) + g.constant(BIAS))
    y = g.add("Tanh", y @ g.constant(WEIGHT)) * 0.5
    g.output(y, donated=x if donate else None)
    g.output(g.add("ReduceSum", g.add("Transpose", y, [1, 0]), [1]))
    return executor("aclnn").compile(g.graph, CompileOptions())


def want(x: Array) -> tuple[Array, Array]:
    y = np.tanh(x.astype(np.float64) @ WEIGHT + BIAS)
    y = np.tanh(y @ WEIGHT) * 0.5
    return y, y.sum(0)


def run(executable: AclnnExecutable, x: Array, stream: runtime.Stream, donated: bool = False) -> list[Array]:
    device = stream.device.index
    given = runtime.asarray(x, device=device, stream=stream)
    first = given if donated else runtime.empty((4, 8), device=device, stream=stream)
    outputs = [first, runtime.empty((8,), device=device, stream=stream)]
    executable.run([given], outputs, stream)
    stream.synchronize()
    return [output.numpy() for output in outputs]


def check(got: list[Array], x: Array) -> None:
    for each, right in zip(got, want(x), strict=True):
        np.testing.assert_allclose(each, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("donated", [False, True])
def test_the_second_run_is_captured_and_every_run_is_right(donated: bool) -> None:
    executable, stream = network(donated), runtime.Stream(0)
    for number in range(6):
        x = RNG.standard_normal((4, 8), dtype=np.float32)
        check(run(executable, x, stream, donated), x)
        assert executable.captured_on == ({0} if number else set())
    assert not executable.capture_refusals


def test_large_buffers_are_captured_where_they_are() -> None:
    """The captured addresses come back with other values, between runs on buffers that are seen once."""
    g = Builder("large")
    x = g.input("x", "float32", (1 << 19,))
    g.output(g.add("Relu", x) * 2.0 + g.constant(np.float32(1)))
    executable: AclnnExecutable = executor("aclnn").compile(g.graph, CompileOptions())
    writer, stream = runtime.Stream(0), runtime.Stream(0)
    fixed, result = runtime.empty(1 << 19, stream=writer), runtime.empty(1 << 19, stream=writer)
    for number in range(6):
        values = RNG.standard_normal(1 << 19, dtype=np.float32)
        source = runtime.asarray(values, stream=writer)
        other = runtime.empty(1 << 19, stream=writer)
        executable.run([source], [other], stream)
        runtime.ops.call("aclnnInplaceCopy", fixed, source, stream=writer)
        executable.run([fixed], [result], stream)
        stream.synchronize()
        right = np.maximum(values, 0) * 2 + 1
        np.testing.assert_allclose(other.numpy(), right, rtol=1e-6)
        np.testing.assert_allclose(result.numpy(), right, rtol=1e-6)
        assert executable.captured_on == ({0} if number else set())


def test_memory_of_a_captured_graph_is_nobody_elses() -> None:
    """Between replays the pool is emptied and refilled with other values."""
    executable, stream = network(), runtime.Stream(0)
    for _ in range(4):
        x = RNG.standard_normal((4, 8), dtype=np.float32)
        check(run(executable, x, stream), x)
        _cann.pool_trim(0)
        noise = [
            runtime.full((n,), 1e9, stream=runtime.Stream(0)) for n in (8, 32, 64, 512) for _ in range(8)
        ]
        runtime.Device(0).synchronize()
        del noise


def test_two_devices_each_capture_their_own() -> None:
    executable = network()
    streams = [runtime.Stream(device) for device in (0, 1)]
    for _ in range(3):
        for stream in streams:
            x = RNG.standard_normal((4, 8), dtype=np.float32)
            check(run(executable, x, stream), x)
    assert executable.captured_on == {0, 1}


def test_threads_with_streams_of_their_own_replay_one_graph() -> None:
    executable = network()

    def work(seed: int) -> None:
        rng, stream = np.random.default_rng(seed), runtime.Stream(0)
        for _ in range(20):
            x = rng.standard_normal((4, 8), dtype=np.float32)
            check(run(executable, x, stream), x)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4), timeout=120))
    assert executable.captured_on == {0}


def test_replays_without_waiting_in_between() -> None:
    """Results of one run are the inputs of the next, all put on the stream before any is done."""
    executable, stream = network(), runtime.Stream(0)
    x = RNG.standard_normal((4, 8), dtype=np.float32)
    value = runtime.asarray(x, stream=stream)
    total = runtime.empty((8,), stream=stream)
    for _ in range(10):
        result = runtime.empty((4, 8), stream=stream)
        executable.run([value], [result, total], stream)
        value = result
    stream.synchronize()
    right = x.astype(np.float64)
    for _ in range(10):
        right = want(right)[0]
    np.testing.assert_allclose(value.numpy(), right, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_captured_goes_on_operator_by_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that waits for another one's work in the middle: CANN refuses that in a capture."""
    executable, stream = network(), runtime.Stream(0)
    outside = runtime.Stream(0)
    run_step = AclnnExecutable._run_step

    def waiting(self: AclnnExecutable, *arguments: object) -> None:
        outside.synchronize()
        arguments[-1].wait(outside.record())
        run_step(self, *arguments)

    monkeypatch.setattr(AclnnExecutable, "_run_step", waiting)
    for _ in range(3):
        x = RNG.standard_normal((4, 8), dtype=np.float32)
        check(run(executable, x, stream), x)
    assert executable.captured_on == set()
    assert list(executable.capture_refusals) == [0]
    assert "aclrtStreamWaitEvent" in executable.capture_refusals[0]


def test_a_capture_without_memory_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is full when the second run would be captured, and has room later."""
    executable, stream = network(), runtime.Stream(0)
    full = [True]

    class Scarce(Replay):
        def __init__(self, *arguments: object) -> None:
            if full[0]:
                raise _cann.DeviceMemoryError("aclrtMalloc: no memory left")
            super().__init__(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(replay, "Replay", Scarce)
    for number in range(6):
        full[0] = number < 3
        x = RNG.standard_normal((4, 8), dtype=np.float32)
        check(run(executable, x, stream), x)
    assert not executable.capture_refusals
    assert executable.captured_on == {0}


def test_capture_can_be_switched_off() -> None:
    g = Builder("plain")
    g.output(g.add("Neg", g.input("x", "float32", (2,))))
    executable = executor("aclnn").compile(g.graph, CompileOptions(extra={"capture": "off"}))
    for _ in range(3):
        executable.run([runtime.full((2,), 1.0)], [runtime.empty((2,))], runtime.current_stream())
    assert executable.captured_on == set()
    for extra in ({"capture": "yes"}, {"fusion": "on"}):
        with pytest.raises(ValueError, match=r"capture=on\|off"):
            executor("aclnn").compile(g.graph, CompileOptions(extra=extra))


def test_a_closed_graph_is_not_replayed() -> None:
    stream = runtime.Stream(0)
    x = runtime.full((4,), 2.0, stream=stream)
    stream.synchronize()
    capture = _cann.Capture(stream._native)
    _cann.fill_async(stream._native, x.address, 0, 16)
    graph = capture.finish()
    with pytest.raises(ValueError, match="finished"):
        capture.finish()
    stream.synchronize()
    np.testing.assert_array_equal(x.numpy(), np.full(4, 2, np.float32))
    graph.replay(stream._native)
    stream.synchronize()
    np.testing.assert_array_equal(x.numpy(), np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="npu:0 cannot be replayed on npu:1"):
        graph.replay(runtime.Stream(1)._native)
    graph.close()
    graph.close()
    assert graph.closed
    with pytest.raises(_cann.ClosedError):
        graph.replay(stream._native)
