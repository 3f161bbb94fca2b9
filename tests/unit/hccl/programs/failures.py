"""Ranks that lose one of them: by ctypes, since what torch adds (a store, a watchdog) has errors of its own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from ctypes import byref, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from ..launcher import Place
from ..library import TYPES, Hccl, HcclError, Rank, RootInfo, SendRecvItem, counts
from .distributed import distributed

FP32 = TYPES[np.dtype("float32")]
SIZE = 120_000  # elements a rank: large enough that it is in the middle of something most of the time
HEARD = 7  # exit status of a rank that was told of the loss

Step = Callable[[Rank, int, int, c_void_p, c_void_p], None]  # of a rank, its number, their number, buffers


def all_reduce(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    rank.call("HcclAllReduce", x, y, c_uint64(SIZE), FP32, 0)


def all_gather(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    rank.call("HcclAllGather", x, y, c_uint64(SIZE // n), FP32)


def reduce_scatter(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    rank.call("HcclReduceScatter", x, y, c_uint64(SIZE // n), FP32, 0)


def all_to_all(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    each = counts([SIZE // n] * n)
    places = counts([SIZE // n * peer for peer in range(n)])
    rank.call("HcclAlltoAllV", x, each, places, FP32, y, each, places, FP32)


def broadcast(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    rank.call("HcclBroadcast", x, c_uint64(SIZE), FP32, 1)


def barrier(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    rank.call("HcclBarrier")


def send_receive(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    """Around the ring, the first rank sends before it receives."""
    send = ("HcclSend", x, c_uint64(SIZE), FP32, (i + 1) % n)
    receive = ("HcclRecv", y, c_uint64(SIZE), FP32, (i - 1) % n)
    for call in (send, receive) if i == 0 else (receive, send):
        rank.call(*call)


def batch(rank: Rank, i: int, n: int, x: c_void_p, y: c_void_p) -> None:
    items = (SendRecvItem * 2)(
        SendRecvItem(0, x, SIZE, FP32, (i + 1) % n), SendRecvItem(1, y, SIZE, FP32, (i - 1) % n)
    )
    rank.call("HcclBatchSendRecv", items, 2)


STEPS: dict[str, tuple[Step, str]] = {
    "all_reduce": (all_reduce, "HcclAllReduce"),
    "all_gather": (all_gather, "HcclAllGather"),
    "reduce_scatter": (reduce_scatter, "HcclReduceScatter"),
    "all_to_all": (all_to_all, "HcclAlltoAllV"),
    "broadcast": (broadcast, "HcclBroadcast"),
    "barrier": (barrier, "HcclBarrier"),
    "send_receive": (send_receive, "Hccl(Send|Recv)"),
    "batch": (batch, "HcclBatchSendRecv"),
}


def plan(seed: int) -> tuple[int, float]:
    """The victim and when it is killed, in seconds; the same on every rank."""
    source = random.Random(seed)
    return source.randrange(3), source.uniform(0.0, 0.25)


def die_later(seconds: float) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()


def library() -> Hccl:
    return Hccl(Path(os.environ["ASCEND_HOME_PATH"]))


def shared_root_info(hccl: Hccl, place: Place) -> RootInfo:
    """Rank 0 makes it and the others find it in a file, as torch's store would carry it."""
    path = place.folder / "root_info"
    if place.rank == 0:
        info = hccl.root_info()
        (place.folder / "part").write_bytes(bytes(info))
        (place.folder / "part").rename(path)
        return info
    while not path.exists():
        time.sleep(0.001)
    return RootInfo.from_buffer_copy(path.read_bytes())


def by_root_info(place: Place) -> Rank:
    hccl = library()
    info = shared_root_info(hccl, place)
    return hccl.rank(
        place.rank, lambda comm: hccl.call("HcclCommInitRootInfo", place.n, byref(info), place.rank, comm)
    )


def repeat(rank: Rank, place: Place, step: Step) -> None:
    """The same call again and again until an error comes, which is printed."""
    x, y = (rank.upload(np.ones(SIZE, np.float32)).pointer for _ in range(2))
    try:
        while True:
            step(rank, place.rank, place.n, x, y)
            rank.synchronize()
    except HcclError as error:
        print(error, "async error", rank.async_error())
        (place.folder / f"told.{place.rank}").touch()
        os._exit(HEARD)


def killed(place: Place) -> None:
    """The victim dies at a random moment of the repeated collective."""
    victim, when = plan(int(os.environ["SEED"]))
    rank = by_root_info(place)
    rank.call("HcclBarrier")  # all have made their communicators: killed_while_meeting is about before
    rank.synchronize()
    if place.rank == victim:
        die_later(when)
    repeat(rank, place, STEPS[os.environ["STEP"]][0])


def killed_while_meeting(place: Place) -> None:
    """The victim dies while the communicator is being made, at about the moment when the others come."""
    victim, when = plan(int(os.environ["SEED"]))
    hccl = library()
    info = shared_root_info(hccl, place)
    if place.rank == victim:
        die_later(when / 20)
        time.sleep(when / 10 if int(os.environ["SEED"]) % 2 else 0)
    try:
        rank = hccl.rank(
            place.rank, lambda comm: hccl.call("HcclCommInitRootInfo", place.n, byref(info), place.rank, comm)
        )
    except HcclError as error:
        print(error)
        os._exit(HEARD)
    repeat(rank, place, all_reduce)


def all_killed_while_meeting(place: Place) -> None:
    """Ranks of a table that wait for one more, until each is killed."""
    table = place.folder / "table.json"
    table_text = json.dumps({"server_list": [{"device": [{"rank_id": str(i)} for i in range(place.n + 1)]}]})
    if place.rank == 0:
        (place.folder / "part").write_text(table_text)
        (place.folder / "part").rename(table)
    while not table.exists():
        time.sleep(0.001)
    hccl = library()
    die_later(0.3)
    make = ("HcclCommInitClusterInfo", str(table).encode(), place.rank)
    with contextlib.suppress(HcclError):  # the first one to die may be noticed
        hccl.rank(place.rank, lambda comm: hccl.call(*make, comm))
    signal.pause()


def late(place: Place) -> None:
    """Rank 1 does not call; it stays alive until the others have ended."""
    rank = by_root_info(place)
    if place.rank != 1:
        return repeat(rank, place, STEPS[os.environ["STEP"]][0])
    while len(list(place.folder.glob("told.*"))) < place.n - 1:
        time.sleep(0.01)


@distributed
def killed_under_torch(rank: int, n: int, device: torch.device) -> None:
    x = torch.ones(1_000_000, device=device)
    for step in range(10_000):
        if rank == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(x)
            torch.npu.synchronize()
        except RuntimeError as error:
            print(error)
            os._exit(HEARD)


@distributed
def different(rank: int, n: int, device: torch.device) -> None:
    x = torch.ones(10 if rank == 0 else 11, device=device)
    try:
        dist.all_reduce(x)
        torch.npu.synchronize()
    except RuntimeError as error:
        print(error)
        os._exit(HEARD)
