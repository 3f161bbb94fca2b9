"""HCCL's operators inside compiled graphs, on ranks that are threads of one process, each with a device of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from npu_common import runtime
from npu_common.collectives import Communicator
from npu_common.graph import Builder, GraphError
from npu_common.graph.executors import CompileOptions, executor

Array = np.ndarray
Shape = tuple[int, ...]
RANKS = 4


@pytest.fixture(scope="module")
def group() -> list[Communicator]:
    communicators = Communicator.all(range(RANKS))
    yield communicators
    for communicator in communicators:
        communicator.close()


def on_every_rank(
    group: list[Communicator],
    make: Callable[[Communicator], Builder],
    inputs: Callable[[int], list[Array]],
    shapes: Callable[[int], list[Shape]] | None = None,
    runs: int = 1,
) -> list[list[Array]]:
    """Each rank compiles its own graph and runs it `runs` times; `shapes`: of the outputs of dynamic graphs."""

    def work(communicator: Communicator) -> list[Array]:
        compiled = executor("ge").compile(
            make(communicator).graph, CompileOptions(device=communicator.device)
        )
        with runtime.Stream(communicator.device) as stream:
            wanted = shapes(communicator.rank) if shapes else [v.shape for v in compiled.graph.outputs]
            outputs = [
                runtime.empty(shape, value.dtype, device=communicator.device)
                for shape, value in zip(wanted, compiled.graph.outputs, strict=True)
            ]
            for _ in range(runs):
                compiled.run(inputs(communicator.rank), outputs, stream)
            stream.synchronize()
            return [output.numpy() for output in outputs]

    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(work, group, timeout=120))


def data(rank: int, *shape: int) -> Array:
    return np.random.default_rng(rank).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("reduction", "reduce"), [("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)]
)
def test_all_reduce_between_other_operators(
    group: list[Communicator], reduction: str, reduce: Callable[..., Array]
) -> None:
    def make(communicator: Communicator) -> Builder:
        g = Builder("reduce")
        x = g.input("x", "float32", (3, 5))
        y = g.add("HcomAllReduce", x + 1.0, reduction=reduction, group=communicator.name)
        g.output(y * 2.0)
        return g

    got = on_every_rank(group, make, lambda rank: [data(rank, 3, 5)], runs=3)
    want = reduce(np.stack([data(rank, 3, 5) + 1 for rank in range(RANKS)]), axis=0) * 2
    for (each,) in got:
        np.testing.assert_array_equal(each, want)


def test_tensor_parallel_layer_with_several_collectives(group: list[Communicator]) -> None:
    """A column-parallel and a row-parallel matmul, then its rows shared out and gathered again."""
    weights = [data(10, 8, 16) / 8, data(11, 16, 8) / 8]
    x = data(12, 4, 8)

    def make(communicator: Communicator) -> Builder:
        part = slice(4 * communicator.rank, 4 * communicator.rank + 4)
        name = communicator.name
        g = Builder("tensor_parallel")
        value = g.input("x", "float32", (4, 8))
        hidden = g.add("Relu", value @ g.constant(weights[0][:, part]))
        partial = hidden @ g.constant(weights[1][part])
        mine = g.add("HcomReduceScatter", partial, reduction="sum", group=name, rank_size=RANKS)
        g.output(mine)
        g.output(g.add("HcomAllGather", g.add("Tanh", mine), rank_size=RANKS, group=name))
        return g

    got = on_every_rank(group, make, lambda rank: [x], runs=2)
    want = np.maximum(x.astype(np.float64) @ weights[0], 0) @ weights[1]
    for rank, (mine, gathered) in enumerate(got):
        np.testing.assert_allclose(mine, want[rank : rank + 1], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(gathered, np.tanh(want), rtol=1e-5, atol=1e-5)


def test_broadcast_of_several_values_and_reduce_to_a_root(group: list[Communicator]) -> None:
    def make(communicator: Communicator) -> Builder:
        g = Builder("rooted")
        values = [g.input("a", "float32", (4,)), g.input("b", "int32", (2, 2))]
        for value in g.add_many("HcomBroadcast", values, outputs=2, root_rank=2, group=communicator.name):
            g.output(value)
        g.output(g.add("HcomReduce", values[0], root_rank=1, reduction="sum", group=communicator.name))
        return g

    got = on_every_rank(group, make, lambda r: [data(r, 4), data(r, 2, 2).astype(np.int32)])
    for first, second, _ in got:
        np.testing.assert_array_equal(first, data(2, 4))
        np.testing.assert_array_equal(second, data(2, 2, 2).astype(np.int32))
    np.testing.assert_array_equal(got[1][2], sum(data(rank, 4) for rank in range(RANKS)))


def test_all_to_all(group: list[Communicator]) -> None:
    def make(communicator: Communicator) -> Builder:
        g = Builder("exchange")
        g.output(g.add("HcomAllToAll", g.input("x", "float32", (RANKS, 3)), group=communicator.name))
        return g

    got = on_every_rank(group, make, lambda rank: [data(rank, RANKS, 3)])
    for rank, (each,) in enumerate(got):
        np.testing.assert_array_equal(each, np.stack([data(r, RANKS, 3)[rank] for r in range(RANKS)]))


def test_all_to_all_with_counts(group: list[Communicator]) -> None:
    """Rank s sends s + r + 1 elements to rank r."""

    def counts(rank: int) -> Array:
        return np.array([rank + other + 1 for other in range(RANKS)], np.int64)

    def starts(rank: int) -> Array:
        return np.concatenate([[0], np.cumsum(counts(rank))[:-1]]).astype(np.int64)

    def make(communicator: Communicator) -> Builder:
        rank = communicator.rank
        g = Builder("exchange_v")
        x = g.input("x", "float32", (int(counts(rank).sum()),))
        lists = [g.constant(each) for each in (counts(rank), starts(rank), counts(rank), starts(rank))]
        g.output(g.add("HcomAllToAllV", x, *lists, group=communicator.name))
        return g

    def sent(rank: int) -> Array:
        return data(rank, int(counts(rank).sum()))

    got = on_every_rank(group, make, lambda rank: [sent(rank)])
    for rank, (each,) in enumerate(got):
        parts = [sent(r)[starts(r)[rank] :][: counts(r)[rank]] for r in range(RANKS)]
        np.testing.assert_array_equal(each, np.concatenate(parts))


def test_send_and_receive_around_a_ring(group: list[Communicator]) -> None:
    def make(communicator: Communicator) -> Builder:
        rank, name = communicator.rank, communicator.name
        after, before = (rank + 1) % RANKS, (rank - 1) % RANKS
        g = Builder("ring")
        x = g.input("x", "float32", (6,))
        g.add_many("HcomSend", x * 3.0, group=name, sr_tag=0, dest_rank=after)
        y = g.add("HcomReceive", group=name, sr_tag=0, src_rank=before, shape=[6], dtype="float32")
        g.output(y + x)
        return g

    got = on_every_rank(group, make, lambda rank: [data(rank, 6)])
    for rank, (each,) in enumerate(got):
        np.testing.assert_array_equal(each, data((rank - 1) % RANKS, 6) * 3 + data(rank, 6))


def test_all_reduce_of_a_size_known_at_run_time(group: list[Communicator]) -> None:
    def make(communicator: Communicator) -> Builder:
        g = Builder("dynamic")
        x = g.input("x", "float32", (None, 3))
        g.output(g.add("HcomAllReduce", x * 2.0, reduction="sum", group=communicator.name) + 1.0)
        return g

    got = on_every_rank(group, make, lambda rank: [data(rank, 5, 3)], lambda rank: [(5, 3)], runs=2)
    for (each,) in got:
        np.testing.assert_array_equal(each, sum(data(rank, 5, 3) * 2 for rank in range(RANKS)) + 1)


def test_a_group_that_nobody_made_is_named(group: list[Communicator]) -> None:
    g = Builder("nobody")
    g.output(g.add("HcomAllReduce", g.input("x", "float32", (2,)), reduction="sum", group="nobody"))
    compiled = executor("ge").compile(g.graph, CompileOptions())
    stream = runtime.Stream(0)
    with pytest.raises(Exception, match="no communicator of the group 'nobody'"):
        compiled.run([data(0, 2)], [runtime.empty((2,), "float32", device=0)], stream)
        stream.synchronize()


def test_a_collective_in_a_branch_is_refused_by_name() -> None:
    def branch(group: str) -> Builder:
        g = Builder(f"branch_{group}")
        g.output(g.add("HcomAllReduce", g.input("x", "float32", (2,)), reduction="sum", group=group))
        return g

    g = Builder("if")
    p, x = g.input("p", "bool", ()), g.input("x", "float32", (2,))
    g.output(g.add_many("If", p, [x], subgraphs=[branch("a"), branch("b")])[0])
    with pytest.raises(GraphError, match=r"node .If. .*has a collective in a branch"):
        executor("ge").compile(g.graph, CompileOptions())
