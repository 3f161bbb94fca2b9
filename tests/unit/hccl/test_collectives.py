"""hccl.h's collectives and messages on three ranks of one process, against numpy."""

from __future__ import annotations

import time
from ctypes import byref, c_bool, c_int32, c_size_t, c_uint64, c_void_p

import numpy as np
import pytest

from .library import D2D, E_PARA, E_PTR, TYPES, Hccl, HcclError, Rank, SendRecvItem, World, counts

N = 3
NOT_READY = 1  # aclrtStreamStatus
FP32, INT64 = TYPES[np.dtype("float32")], TYPES[np.dtype("int64")]
SIZES = (0, 1, 1000, 20_001)
#: Elements that rank i sends to rank j: some of them nothing.
MATRIX = np.array([[3, 0, 7000], [1, 2, 0], [0, 9000, 5]])


def numbers(rank: int, size: int) -> np.ndarray:
    return np.arange(size, dtype=np.int64) * 10 + rank


def blank(sizes: list[int]) -> list[np.ndarray]:
    return [np.full(size, -1, np.int64) for size in sizes]


@pytest.mark.parametrize("size", SIZES)
def test_every_rank_gets_the_same_number_of_elements(world: World, size: int) -> None:
    inputs = [numbers(rank, size) for rank in range(N)]
    everything = np.concatenate(inputs)
    count = c_uint64(size)
    for out in world.collective(
        "HcclAllGather", inputs, blank([N * size] * N), lambda i, s, r: (s, r, count, INT64)
    ):
        np.testing.assert_array_equal(out, everything)
    wide = [numbers(rank, N * size) for rank in range(N)]
    outs = world.collective(
        "HcclAlltoAll", wide, blank([N * size] * N), lambda i, s, r: (s, count, INT64, r, count, INT64)
    )
    for rank, out in enumerate(outs):
        np.testing.assert_array_equal(out, np.concatenate([x[rank * size : (rank + 1) * size] for x in wide]))
    outs = world.collective("HcclScatter", wide, blank([size] * N), lambda i, s, r: (s, r, count, INT64, 2))
    np.testing.assert_array_equal(np.concatenate(outs), wide[2])
    outs = [rank.upload(x) for rank, x in zip(world, inputs, strict=True)]
    for rank, buffer in zip(world, outs, strict=True):
        rank.call("HcclBroadcast", buffer.pointer, count, INT64, 1)
    for rank, buffer in zip(world, outs, strict=True):
        np.testing.assert_array_equal(rank.download(buffer), inputs[1])


def test_parts_of_different_sizes_at_places_of_ones_own(world: World) -> None:
    """AllGatherV and ReduceScatterV: parts lie apart, in another order than the ranks', and gaps keep what they hold."""
    sizes, places, whole = [5, 0, 8000], [8010, 0, 3], 8020
    inputs = [numbers(rank, sizes[rank]) for rank in range(N)]
    outs = world.collective(
        "HcclAllGatherV",
        inputs,
        blank([whole] * N),
        lambda i, s, r: (s, c_uint64(sizes[i]), r, counts(sizes), counts(places), INT64),
    )
    expected = blank([whole])[0]
    for part, place in zip(inputs, places, strict=True):
        expected[place : place + len(part)] = part
    for out in outs:
        np.testing.assert_array_equal(out, expected)
    wide = [numbers(rank, whole) for rank in range(N)]
    outs = world.collective(
        "HcclReduceScatterV",
        wide,
        blank(sizes),
        lambda i, s, r: (s, counts(sizes), counts(places), r, c_uint64(sizes[i]), INT64, 0),
    )
    for out, size, place in zip(outs, sizes, places, strict=True):
        np.testing.assert_array_equal(out, sum(wide)[place : place + size])


def test_all_to_all_of_different_sizes(world: World) -> None:
    """AlltoAllV, with places, and AlltoAllVC, whose blocks lie one after another, give the same."""
    inputs = [numbers(rank, int(MATRIX[rank].sum())) for rank in range(N)]
    sent_at, got_at = np.cumsum(MATRIX, 1) - MATRIX, np.cumsum(MATRIX, 0) - MATRIX
    expected = [
        np.concatenate([inputs[i][sent_at[i, j] : sent_at[i, j] + MATRIX[i, j]] for i in range(N)])
        for j in range(N)
    ]
    room = [int(MATRIX[:, j].sum()) for j in range(N)]
    outs = world.collective(
        "HcclAlltoAllV",
        inputs,
        blank(room),
        lambda i, s, r: (
            *(s, counts(MATRIX[i]), counts(sent_at[i]), INT64),
            *(r, counts(MATRIX[:, i]), counts(got_at[:, i]), INT64),
        ),
    )
    for out, want in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out, want)
    outs = world.collective(
        "HcclAlltoAllVC", inputs, blank(room), lambda i, s, r: (s, counts(MATRIX.flatten()), INT64, r, INT64)
    )
    for out, want in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("size", [100, 30_000])
def test_in_place(world: World, size: int) -> None:
    """The usual forms (a rank's part is where it belongs), and an all-to-all onto its own input."""
    wide = [numbers(rank, N * size) for rank in range(N)]

    def run(name: str, arguments) -> list[np.ndarray]:
        buffers = [rank.upload(x) for rank, x in zip(world, wide, strict=True)]
        for i, (rank, buffer) in enumerate(zip(world, buffers, strict=True)):
            rank.call(name, *arguments(buffer.pointer, c_void_p(buffer.pointer.value + i * size * 8)))
        return [rank.download(buffer) for rank, buffer in zip(world, buffers, strict=True)]

    count = c_uint64(size)
    mine = [x[i * size : (i + 1) * size] for i, x in enumerate(wide)]
    for out in run("HcclAllGather", lambda whole, part: (part, whole, count, INT64)):
        np.testing.assert_array_equal(out, np.concatenate(mine))
    for i, out in enumerate(run("HcclReduceScatter", lambda whole, part: (whole, part, count, INT64, 0))):
        np.testing.assert_array_equal(out[i * size : (i + 1) * size], sum(wide)[i * size : (i + 1) * size])
    for out in run("HcclAllReduce", lambda whole, part: (whole, whole, c_uint64(N * size), INT64, 0)):
        np.testing.assert_array_equal(out, sum(wide))
    outs = run("HcclAlltoAll", lambda whole, part: (whole, count, INT64, whole, count, INT64))
    for i, out in enumerate(outs):
        np.testing.assert_array_equal(out, np.concatenate([x[i * size : (i + 1) * size] for x in wide]))


def test_barrier_waits_for_the_last_rank(world: World) -> None:
    for rank in list(world)[1:]:
        rank.call("HcclBarrier")
    time.sleep(0.02)
    status = c_int32()
    world.hccl.call("aclrtSetDevice", world[1].device)
    world.hccl.call("aclrtStreamQuery", world[1].stream, byref(status))
    assert status.value == NOT_READY
    world[0].call("HcclBarrier")
    for rank in world:
        rank.synchronize()


def test_a_waiting_collective_stops_no_other_stream_and_burns_no_core(world: World) -> None:
    """All ranks but the first wait; another stream of a waiting rank's device works meanwhile."""
    waiting = world[1]
    for rank in list(world)[1:]:
        rank.call("HcclBarrier")
    time.sleep(0.1)  # a short look for the peer before going to sleep is allowed
    before = time.process_time()
    other = Rank(world.hccl, waiting.device, waiting.comm, c_void_p())
    other.hccl.call("aclrtSetDevice", other.device)
    other.hccl.call("aclrtCreateStream", byref(other.stream))
    source = other.upload(numbers(0, 1000))
    target = other.upload(blank([1000])[0])
    size = c_size_t(source.like.nbytes)
    other.hccl.call("aclrtMemcpyAsync", target.pointer, size, source.pointer, size, D2D, other.stream)
    np.testing.assert_array_equal(other.download(target), numbers(0, 1000))
    time.sleep(1.0)
    assert time.process_time() - before < 0.5  # of a second and more, by all threads of all ranks
    status = c_int32()
    world.hccl.call("aclrtStreamQuery", waiting.stream, byref(status))
    assert status.value == NOT_READY
    world[0].call("HcclBarrier")
    for rank in world:
        rank.synchronize()
    other.download(source)
    other.hccl.call("aclrtDestroyStream", other.stream)


@pytest.mark.parametrize("size", [0, 5, 50_000])
def test_send_and_receive(world: World, size: int) -> None:
    sent = world[0].upload(numbers(0, size))
    got = world[2].upload(blank([size])[0])
    world[0].call("HcclSend", sent.pointer, c_uint64(size), INT64, 2)
    world[2].call("HcclRecv", got.pointer, c_uint64(size), INT64, 0)
    np.testing.assert_array_equal(world[2].download(got), numbers(0, size))
    world[0].download(sent)


def ring(world: World, size: int, start) -> None:
    """start(rank, send buffer, receive buffer, next rank, one before) for each rank; checks what came."""
    sent = [rank.upload(numbers(i, size)) for i, rank in enumerate(world)]
    got = [rank.upload(x) for rank, x in zip(world, blank([size] * N), strict=True)]
    for i, rank in enumerate(world):
        start(rank, sent[i].pointer, got[i].pointer, (i + 1) % N, (i - 1) % N)
    for i, rank in enumerate(world):
        np.testing.assert_array_equal(rank.download(got[i]), numbers((i - 1) % N, size))
        rank.download(sent[i])


@pytest.mark.parametrize("size", [3, 50_000])
def test_batch_send_receive(world: World, size: int) -> None:
    def start(rank: Rank, sent: c_void_p, got: c_void_p, after: int, before: int) -> None:
        items = (SendRecvItem * 2)(
            SendRecvItem(0, sent, size, INT64, after), SendRecvItem(1, got, size, INT64, before)
        )
        rank.call("HcclBatchSendRecv", items, 2)

    ring(world, size, start)


@pytest.mark.parametrize("size", [3, 50_000])
def test_a_group_starts_its_messages_together(world: World, size: int, hccl: Hccl) -> None:
    """All ranks receive first, which only a group can do; groups nest, and nothing starts before the outer one ends."""

    def start(rank: Rank, sent: c_void_p, got: c_void_p, after: int, before: int) -> None:
        hccl.call("HcclGroupStart")
        hccl.call("HcclGroupStart")
        rank.call("HcclRecv", got, c_uint64(size), INT64, before)
        hccl.call("HcclGroupEnd")
        assert in_group(hccl)
        rank.call("HcclSend", sent, c_uint64(size), INT64, after)
        hccl.call("HcclGroupEnd")
        assert not in_group(hccl)

    ring(world, size, start)


def in_group(hccl: Hccl) -> bool:
    inside = c_bool()
    hccl.call("HcclGroupStatusGet", byref(inside))
    return inside.value


def test_a_group_of_collectives_and_messages_to_oneself(world: World, hccl: Hccl) -> None:
    x = numbers(0, 2000)
    results = []
    for i, rank in enumerate(world):
        mine, copy, total = (rank.upload(array) for array in (x, *blank([2000, 2000])))
        hccl.call("HcclGroupStart")
        rank.call("HcclSend", mine.pointer, c_uint64(2000), INT64, i)
        rank.call("HcclRecv", copy.pointer, c_uint64(2000), INT64, i)
        rank.call("HcclAllReduce", mine.pointer, total.pointer, c_uint64(2000), INT64, 0)
        hccl.call("HcclGroupEnd")
        results.append((copy, total))
    for rank, (copy, total) in zip(world, results, strict=True):
        np.testing.assert_array_equal(rank.download(copy), x)
        np.testing.assert_array_equal(rank.download(total), N * x)


def test_wrong_arguments_are_refused_at_the_call(world: World, hccl: Hccl) -> None:
    rank, one = world[0], c_uint64(1)
    memory = rank.upload(np.zeros(4)).pointer
    wrong = [
        (E_PTR, "the send buffer is null", "HcclAllReduce", None, memory, one, FP32, 0),
        (E_PTR, "the receive buffer is null", "HcclAllGather", memory, None, one, FP32),
        (E_PARA, "the data type 99 is not HCCL's", "HcclAllGather", memory, memory, one, 99),
        (E_PARA, "the reduction 4 is not HCCL's", "HcclAllReduce", memory, memory, one, FP32, 4),
        (E_PARA, "root 3 is not a rank of the group of 3", "HcclBroadcast", memory, one, FP32, 3),
        (E_PARA, "destRank 7 is not a rank", "HcclSend", memory, one, FP32, 7),
        (E_PARA, "a rank cannot send to itself", "HcclSend", memory, one, FP32, 0),
        (E_PARA, "sends float32 and receives int64", "HcclAlltoAll", memory, one, FP32, memory, one, INT64),
        (E_PTR, "sendCountMatrix is null", "HcclAlltoAllVC", memory, None, FP32, memory, FP32),
        (E_PTR, "recvCounts is null", "HcclAllGatherV", memory, one, memory, None, None, FP32),
    ]
    for code, sentence, name, *arguments in wrong:
        with pytest.raises(HcclError, match=f"{name}: .*{sentence}") as error:
            rank.call(name, *arguments)
        assert error.value.code == code
    with pytest.raises(HcclError, match="this thread is in no group"):
        hccl.call("HcclGroupEnd")
    assert rank.async_error() == 0
