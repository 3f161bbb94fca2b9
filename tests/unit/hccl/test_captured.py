"""Collectives and messages in captured graphs: each replay is a call of its own among the ranks."""

from __future__ import annotations

from ctypes import byref, c_int32, c_size_t, c_uint64, c_void_p

import numpy as np

from .library import D2D, TYPES, Buffer, Rank, World

INT64, SUM = TYPES[np.dtype("int64")], 0


def add_up(rank: Rank, source: Buffer, target: Buffer, count: int) -> None:
    rank.call("HcclAllReduce", source.pointer, target.pointer, c_uint64(count), INT64, SUM)


def begin(rank: Rank) -> None:
    rank.hccl.call("aclrtSetDevice", rank.device)
    relaxed = 2  # the ranks of this process share one thread
    rank.hccl.call("aclmdlRICaptureBegin", rank.stream, c_int32(relaxed))


def end(rank: Rank) -> c_void_p:
    graph = c_void_p()
    rank.hccl.call("aclrtSetDevice", rank.device)
    rank.hccl.call("aclmdlRICaptureEnd", rank.stream, byref(graph))
    return graph


def replay(rank: Rank, graph: c_void_p) -> None:
    rank.hccl.call("aclrtSetDevice", rank.device)
    rank.hccl.call("aclmdlRIExecuteAsync", graph, rank.stream)


def copy(rank: Rank, target: Buffer, source: Buffer) -> None:
    size = c_size_t(source.like.nbytes)
    rank.hccl.call("aclrtSetDevice", rank.device)
    rank.hccl.call("aclrtMemcpyAsync", target.pointer, size, source.pointer, size, D2D, rank.stream)


def test_an_all_reduce_is_replayed_among_eager_ones(world: World) -> None:
    """x becomes the sum of all ranks' x, so after n calls rank-independent: 6 * 3^(n-1)."""
    count = 1000
    xs = [rank.upload(np.full(count, i + 1)) for i, rank in enumerate(world)]
    outs = [rank.upload(np.zeros(count, np.int64)) for rank in world]
    graphs = []
    for rank, x, out in zip(world, xs, outs, strict=True):
        begin(rank)
        add_up(rank, x, out, count)
        copy(rank, x, out)
        graphs.append(end(rank))
    for _ in range(3):
        for rank, graph in zip(world, graphs, strict=True):
            replay(rank, graph)
        for rank, x, out in zip(world, xs, outs, strict=True):
            add_up(rank, x, out, count)
            copy(rank, x, out)
    for rank, x, graph in zip(world, xs, graphs, strict=True):
        np.testing.assert_array_equal(rank.download(x), np.full(count, 6 * 3**5))
        rank.hccl.call("aclmdlRIDestroy", graph)


def test_messages_are_replayed(world: World) -> None:
    """Round a ring, each replay sends what the buffer holds then."""
    count = 500
    ranks = list(world)
    sent = [rank.upload(np.full(count, i)) for i, rank in enumerate(ranks)]
    received = [rank.upload(np.full(count, -1)) for rank in ranks]
    graphs = []
    for i, rank in enumerate(ranks):
        begin(rank)
        for step in (0, 1):  # a rank that sends first meets one that receives first
            if (step == 0) == (i % 2 == 0):
                rank.call("HcclSend", sent[i].pointer, c_uint64(count), INT64, (i + 1) % 3)
            else:
                rank.call("HcclRecv", received[i].pointer, c_uint64(count), INT64, (i - 1) % 3)
        copy(rank, sent[i], received[i])
        graphs.append(end(rank))
    for _ in range(2):
        for rank, graph in zip(ranks, graphs, strict=True):
            replay(rank, graph)
    for i, rank in enumerate(ranks):
        np.testing.assert_array_equal(rank.download(received[i]), np.full(count, (i - 2) % 3))
        rank.hccl.call("aclmdlRIDestroy", graphs[i])


def test_captured_collectives_that_never_run_hold_nobody_up(world: World) -> None:
    count = 10
    xs = [rank.upload(np.full(count, i + 1)) for i, rank in enumerate(world)]
    outs = [rank.upload(np.zeros(count, np.int64)) for rank in world]
    for rank, x, out in zip(world, xs, outs, strict=True):
        begin(rank)
        add_up(rank, x, out, count)
        rank.hccl.call("aclmdlRIDestroy", end(rank))
    for rank, x, out in zip(world, xs, outs, strict=True):
        add_up(rank, x, out, count)
    for rank, out in zip(world, outs, strict=True):
        np.testing.assert_array_equal(rank.download(out), np.full(count, 6))
