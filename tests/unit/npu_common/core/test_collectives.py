"""HCCL's collectives with ranks as threads and as processes, against NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npu_common import runtime
from npu_common.collectives import Communicator, Receive, ReduceOp, Send

from .conftest import Spawn, output

N = 4
HOST = [np.arange(8, dtype=np.float32).reshape(4, 2) * (rank + 1) for rank in range(N)]
Body = Callable[[Communicator, Any], Any]


@pytest.fixture(scope="module")
def world() -> Iterator[list[Communicator]]:
    world = Communicator.all(range(N))
    yield world
    for communicator in world:
        communicator.close()


def on_all(world: list[Communicator], body: Body, host: list[np.ndarray] = HOST) -> list[Any]:
    """body(communicator, array) on a thread for each rank; arrays as NumPy."""

    def rank(communicator: Communicator) -> Any:
        with runtime.Stream(communicator.device):
            result = body(communicator, runtime.asarray(host[communicator.rank], device=communicator.device))
            return result.numpy() if isinstance(result, runtime.DeviceArray) else result

    with ThreadPoolExecutor(len(world)) as pool:
        return list(pool.map(rank, world))


REDUCTIONS = {ReduceOp.SUM: np.sum, ReduceOp.PROD: np.prod, ReduceOp.MAX: np.max, ReduceOp.MIN: np.min}


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.name)
@pytest.mark.parametrize(
    "dtype", ["float32", "int32", "float16", ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name
)
def test_all_reduce(world, op, dtype) -> None:
    host = [(h % 3).astype(dtype) for h in HOST]
    expected = REDUCTIONS[op](np.stack(host).astype(np.float64), axis=0)
    for got in on_all(world, lambda c, x: c.all_reduce(x, op=op), host):
        np.testing.assert_array_equal(got.astype(np.float64), expected)


def test_all_reduce_in_place(world) -> None:
    for got in on_all(world, lambda c, x: c.all_reduce(x, out=x)):
        np.testing.assert_array_equal(got, sum(HOST))


def test_broadcast_and_reduce(world) -> None:
    for got in on_all(world, lambda c, x: c.broadcast(x, root=2)):
        np.testing.assert_array_equal(got, HOST[2])
    results = on_all(world, lambda c, x: c.reduce(x, root=1))
    np.testing.assert_array_equal(results[1], sum(HOST))
    assert [r is None for r in results] == [True, False, True, True]


def test_gathering_and_scattering(world) -> None:
    for got in on_all(world, lambda c, x: c.all_gather(x)):
        np.testing.assert_array_equal(got, np.concatenate(HOST))
    for rank, got in enumerate(on_all(world, lambda c, x: c.reduce_scatter(x))):
        np.testing.assert_array_equal(got, sum(HOST)[rank : rank + 1])
    for rank, got in enumerate(on_all(world, lambda c, x: c.all_to_all(x))):
        np.testing.assert_array_equal(got, np.stack([h[rank] for h in HOST]))

    def scatter(c: Communicator, x: runtime.DeviceArray) -> Any:
        out = runtime.empty((1, 2), device=c.device)
        return c.scatter(x if c.rank == 3 else None, root=3, out=out)

    for rank, got in enumerate(on_all(world, scatter)):
        np.testing.assert_array_equal(got, HOST[3][rank : rank + 1])


def test_pieces_of_different_sizes(world) -> None:
    counts = [3, 0, 1, 4]
    for got in on_all(world, lambda c, x: c.all_gather_v(x.reshape(8)[: counts[c.rank]], counts)):
        np.testing.assert_array_equal(
            got, np.concatenate([h.ravel()[:n] for h, n in zip(HOST, counts, strict=True)])
        )
    for rank, got in enumerate(on_all(world, lambda c, x: c.reduce_scatter_v(x, counts))):
        at = sum(counts[:rank])
        np.testing.assert_array_equal(got, sum(HOST).ravel()[at : at + counts[rank]])
    table = np.array([[(i + 2 * j) % 3 for j in range(N)] for i in range(N)])  # from i to j

    def exchange(c: Communicator, x: runtime.DeviceArray) -> Any:
        sent = [int(n) for n in table[c.rank]]
        return c.all_to_all_v(x.reshape(8)[: sum(sent)], sent, [int(n) for n in table[:, c.rank]])

    for rank, got in enumerate(on_all(world, exchange)):
        starts = np.cumsum(table, axis=1) - table
        expected = [HOST[i].ravel()[starts[i, rank] :][: table[i, rank]] for i in range(N)]
        np.testing.assert_array_equal(got, np.concatenate(expected))


def test_messages_around_a_ring(world) -> None:
    def batch(c: Communicator, x: runtime.DeviceArray) -> Any:
        out = runtime.empty_like(x)
        c.batch_isend_irecv([Send(x, (c.rank + 1) % N), Receive(out, (c.rank - 1) % N)])
        return out

    def one_by_one(c: Communicator, x: runtime.DeviceArray) -> Any:
        out = runtime.empty_like(x)
        if c.rank % 2 == 0:
            c.send(x, c.rank + 1)
            return c.receive(out, c.rank + 1)
        c.receive(out, c.rank - 1)
        c.send(x, c.rank - 1)
        return out

    for rank, got in enumerate(on_all(world, batch)):
        np.testing.assert_array_equal(got, HOST[rank - 1])
    for rank, got in enumerate(on_all(world, one_by_one)):
        np.testing.assert_array_equal(got, HOST[rank ^ 1])


def test_a_barrier_waits_for_the_last_rank(world) -> None:
    arrived: list[float] = []

    def body(c: Communicator, x: Any) -> float:
        if c.rank == 0:
            time.sleep(0.2)
            arrived.append(time.monotonic())
        c.barrier()
        runtime.current_stream(c.device).synchronize()
        return time.monotonic()

    assert min(on_all(world, body)) >= arrived[0]


def test_sub_communicators(world) -> None:
    def body(c: Communicator, x: runtime.DeviceArray) -> Any:
        pair = c.sub([1, 3], id=7)
        if pair is None:
            return None
        with pair:
            assert (pair.rank, pair.size) == (c.rank // 2, 2)
            result = pair.all_reduce(x)
            result.numpy()
            return result

    results = on_all(world, body)
    assert results[0] is None and results[2] is None
    for rank in (1, 3):
        np.testing.assert_array_equal(results[rank], HOST[1] + HOST[3])


WRONG = {
    "a host array": (lambda c, x: c.all_reduce(np.ones(3)), TypeError, "takes arrays on an NPU, not ndarray"),
    "not contiguous": (lambda c, x: c.all_reduce(x.transpose()), ValueError, "HCCL takes contiguous arrays"),
    "a size": (
        lambda c, x: c.all_reduce(x, out=x[:2]),
        ValueError,
        "out has 4 elements; by x it has to have 8",
    ),
    "a dtype": (lambda c, x: c.all_reduce(x, out=x.view("int32")), TypeError, "float32 and out int32"),
    "bool": (lambda c, x: c.all_reduce(runtime.zeros(3, bool)), TypeError, "HCCL carries no bool"),
    "a rank": (
        lambda c, x: c.broadcast(x, root=9),
        ValueError,
        "broadcast names rank 9 of a communicator of 4",
    ),
    "a device": (lambda c, x: c.all_reduce(x.to(1)), ValueError, "is on npu:1, the stream on npu:0"),
    "uneven": (lambda c, x: c.reduce_scatter(x[:3]), ValueError, "does not divide among 4 ranks"),
    "counts": (lambda c, x: c.all_gather_v(x, [8]), ValueError, "for each of 4 ranks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_on_the_rank_that_has_them(world, case: str) -> None:
    body, error, sentence = WRONG[case]
    with pytest.raises(error, match=sentence):
        body(world[0], runtime.asarray(HOST[0]))


def test_a_closed_communicator_says_so() -> None:
    (alone,) = Communicator.all([5])
    alone.close()
    alone.close()
    with pytest.raises(runtime.ClosedError, match="the communicator of rank 0 of 1 is closed"):
        alone.barrier()


RANK = """
import os, sys, time
from pathlib import Path
import numpy as np
from npu_common import runtime
from npu_common.collectives import Communicator
rank, size, file = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
if rank == 0:
    file.with_suffix(".part").write_bytes(Communicator.root_info())
    file.with_suffix(".part").rename(file)
while not file.exists():
    time.sleep(0.01)
c = Communicator(file.read_bytes(), rank=rank, size=size, device=rank, name="of-processes", execution_timeout=60)
x = runtime.asarray(np.arange(1000, dtype=np.float32) + rank, device=rank)
"""


def test_ranks_as_processes(spawn: Spawn, tmp_path: Path) -> None:
    code = (
        RANK
        + "assert c.name == 'of-processes'\nprint(int(c.all_reduce(x).numpy().sum()), c.all_gather(x).shape)\nc.close()"
    )
    ranks = [spawn(code, str(rank), "3", str(tmp_path / "root")) for rank in range(3)]
    expected = sum(3 * i + 3 for i in range(1000))
    for rank in ranks:
        assert output(rank).split("\n")[-2] == f"{expected} (3000,)"


def test_a_dead_peer_is_an_error_and_no_endless_wait(spawn: Spawn, tmp_path: Path) -> None:
    code = (
        RANK
        + """
c.all_reduce(x).numpy()
if rank == 1:
    os._exit(0)
try:
    for _ in range(100):
        c.all_reduce(x).numpy()
except runtime.CannError as error:
    print("heard", error.code_name)
try:
    c.check()
except runtime.HcclError as error:
    print("state", error.code_name)
try:
    c.abort(5)
except runtime.CannError:
    pass
os._exit(0)
"""
    )
    ranks = [spawn(code, str(rank), "2", str(tmp_path / "root")) for rank in range(2)]
    heard = output(ranks[0], timeout=60)
    assert "heard ACL_ERROR_RT_" in heard
    assert "state HCCL_E_" in heard


def test_ranks_that_do_not_come_are_a_timeout(spawn: Spawn, tmp_path: Path) -> None:
    code = RANK.replace("c = Comm", "try:\n    c = Comm").split("\nx = ")[0]
    code += "\nexcept runtime.HcclError as error:\n    print(error.code_name, error)\n"
    rank = spawn(code, "0", "2", str(tmp_path / "root"), HCCL_CONNECT_TIMEOUT="1")
    text = output(rank)
    assert "HCCL_E_TIMEOUT" in text and "rank 0 of 2 joining a communicator" in text
