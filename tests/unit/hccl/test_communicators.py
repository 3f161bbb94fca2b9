"""Making, naming, suspending and ending communicators: hccl.h by ctypes, ranks are threads or devices of one process."""

from __future__ import annotations

import ctypes
import json
import time
from ctypes import byref, c_char_p, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from .library import (
    E_NOT_FOUND,
    E_OPEN_FILE,
    E_PARA,
    E_PTR,
    E_SUSPENDING,
    E_TIMEOUT,
    TYPES,
    CommConfig,
    Hccl,
    HcclError,
    Rank,
    World,
    together,
)

INT32 = TYPES[np.dtype("int32")]
READY, SUSPENDING, INVALID = 0, 1, 254  # HcclCommStatus


def total(rank: Rank, value: int, size: int = 8000) -> int:
    """An all-reduce of `value` over the rank's group."""
    buffer = rank.upload(np.full(size, value, np.int32))
    rank.call("HcclAllReduce", buffer.pointer, buffer.pointer, c_uint64(size), INT32, 0)
    out = rank.download(buffer)
    assert (out == out[0]).all()
    return int(out[0])


def test_by_root_info_with_a_name(hccl: Hccl) -> None:
    root = hccl.root_info()

    def run(i: int) -> None:
        config = CommConfig("my_group")
        rank = hccl.rank(
            i + 1,
            lambda comm: hccl.call("HcclCommInitRootInfoConfig", 3, byref(root), i, byref(config), comm),
        )
        assert rank.get("HcclGetRankId", c_uint32) == i
        assert rank.get("HcclGetRankSize", c_uint32) == 3
        name = ctypes.create_string_buffer(128)
        hccl.call("HcclGetCommName", rank.comm, name)
        assert name.value == b"my_group"
        assert total(rank, i + 1) == 6
        rank.destroy()

    together(3, run)


def test_a_group_of_one(hccl: Hccl) -> None:
    root = hccl.root_info()
    rank = hccl.rank(1, lambda comm: hccl.call("HcclCommInitRootInfo", 1, byref(root), 0, comm))
    assert total(rank, 5) == 5
    rank.destroy()


def test_a_configuration_of_an_old_release_has_no_name(hccl: Hccl) -> None:
    root = hccl.root_info()
    config = CommConfig("ignored", size=32)
    rank = hccl.rank(
        1, lambda comm: hccl.call("HcclCommInitRootInfoConfig", 1, byref(root), 0, byref(config), comm)
    )
    name = ctypes.create_string_buffer(128)
    hccl.call("HcclGetCommName", rank.comm, name)
    assert name.value and name.value != b"ignored"
    rank.destroy()


def test_wrong_root_info_configuration_and_ranks_are_refused(hccl: Hccl) -> None:
    root, comm, config = hccl.root_info(), c_void_p(), CommConfig()
    config.magic = 0
    wrong = [
        (
            E_PARA,
            "was not initialised",
            "HcclCommInitRootInfoConfig",
            2,
            byref(root),
            0,
            byref(config),
            byref(comm),
        ),
        (E_PARA, "rank 2 is not one of 2", "HcclCommInitRootInfo", 2, byref(root), 2, byref(comm)),
        (E_PARA, "was not made by", "HcclCommInitRootInfo", 2, byref(type(root)()), 0, byref(comm)),
        (E_PTR, "comm is null", "HcclCommInitRootInfo", 2, byref(root), 0, None),
        (5, "at most 64", "HcclCommInitRootInfo", 65, byref(root), 0, byref(comm)),
        (E_PARA, "device 1 is named twice", "HcclCommInitAll", 2, (c_int32 * 2)(1, 1), byref(comm)),
        (E_PARA, "device 8 .* is not one of the 8", "HcclCommInitAll", 2, (c_int32 * 2)(1, 8), byref(comm)),
    ]
    for code, sentence, name, *arguments in wrong:
        with pytest.raises(HcclError, match=f"{name}: .*{sentence}") as error:
            hccl.call(name, *arguments)
        assert error.value.code == code


def test_a_rank_that_does_not_come_is_named(hccl: Hccl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCCL_CONNECT_TIMEOUT", "1")
    root = hccl.root_info()

    def run(i: int) -> None:
        sentence = r"rank 2 did not come within 1 s \(HCCL_CONNECT_TIMEOUT\)"
        with pytest.raises(HcclError, match=sentence) as error:
            hccl.rank(i + 1, lambda comm: hccl.call("HcclCommInitRootInfo", 3, byref(root), i, comm))
        assert error.value.code == E_TIMEOUT

    together(2, run)


def rank_table(folder: Path, ids: list[int]) -> bytes:
    devices = [
        {"device_id": str(i), "device_ip": f"192.168.1.{i}", "rank_id": str(r)} for i, r in enumerate(ids)
    ]
    table = {
        "version": "1.0",
        "server_count": "1",
        "server_list": [{"server_id": "10.0.0.1", "device": devices}],
        "status": "completed",
    }
    path = folder / "rank_table.json"
    path.write_text(json.dumps(table, indent=2))
    return str(path).encode()


@pytest.mark.usefixtures("nothing_left_in_shared_memory")
def test_by_rank_table_again_and_again(hccl: Hccl, tmp_path: Path) -> None:
    """Ranks meet by the table alone; a quick one may come for the next group before a slow one left the last."""
    table = rank_table(tmp_path, [2, 0, 1])

    def run(i: int) -> None:
        for _ in range(10):
            rank = hccl.rank(i + 1, lambda comm: hccl.call("HcclCommInitClusterInfo", table, i, comm))
            assert total(rank, i + 1) == 6
            rank.destroy()
        config = CommConfig("table")
        rank = hccl.rank(
            i + 1,
            lambda comm: hccl.call("HcclCommInitClusterInfoConfig", table, i, byref(config), comm),
        )
        assert total(rank, i) == 3
        rank.destroy()

    together(3, run)


def test_wrong_rank_tables_are_refused(hccl: Hccl, tmp_path: Path) -> None:
    comm = c_void_p()
    for code, ids, sentence in (
        (E_OPEN_FILE, None, "table.json cannot be read"),
        (E_PARA, [], "names no rank_id"),
        (E_PARA, [0, 2], "its values of rank_id are not 0 to 1"),
    ):
        path = rank_table(tmp_path, ids) if ids is not None else b"/nowhere/table.json"
        with pytest.raises(HcclError, match=f"HcclCommInitClusterInfo: .*{sentence}") as error:
            hccl.call("HcclCommInitClusterInfo", path, 0, byref(comm))
        assert error.value.code == code


def test_a_rank_of_a_table_that_does_not_come_is_named(
    hccl: Hccl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HCCL_CONNECT_TIMEOUT", "1")
    table, comm = rank_table(tmp_path, [0, 1]), c_void_p()
    for _ in range(2):  # the first try leaves nothing behind that the second would meet
        with pytest.raises(HcclError, match="rank 1 did not come within 1 s"):
            hccl.call("HcclCommInitClusterInfo", table, 0, byref(comm))


def sub(world: World, i: int, ids: list[int], number: int, name: str = "") -> Rank:
    place, parent = ids.index(i), c_void_p(world[i].comm.value)
    config = CommConfig(name)
    return world.hccl.rank(
        world[i].device,
        lambda comm: world.hccl.call(
            "HcclCreateSubCommConfig",
            byref(parent),
            len(ids),
            (c_uint32 * len(ids))(*ids),
            c_uint64(number),
            place,
            byref(config),
            comm,
        ),
    )


def test_parts_of_a_communicator(world: World) -> None:
    def run(i: int) -> None:
        if i != 1:
            ends = sub(world, i, [2, 0], number=7, name="ends")
            assert ends.get("HcclGetRankId", c_uint32) == [2, 0].index(i)
            assert total(ends, 10 + i) == 22
            ends.destroy()
        else:  # a rank outside of it says so and gets none
            outside = c_void_p(1)
            parent = c_void_p(world[i].comm.value)
            world.hccl.call(
                "HcclCreateSubCommConfig",
                byref(parent),
                0,
                None,
                c_uint64(0xFFFFFFFF),
                0,
                None,
                byref(outside),
            )
            assert outside.value is None
        everyone = sub(world, i, [0, 1, 2], number=2**40)
        alone = sub(world, i, [i], number=100 + i)
        assert (total(everyone, i), total(alone, i), total(world[i], 1)) == (3, i, 3)
        everyone.destroy()
        alone.destroy()
        for _ in range(30):  # more than are kept open at a time; the same number again and again
            again = sub(world, i, [0, 1, 2], number=5)
            assert total(again, i, size=3) == 3
            again.destroy()

    world.together(run)


def test_wrong_parts_are_refused(world: World) -> None:
    parent, comm = c_void_p(world[0].comm.value), c_void_p()
    for ids, place, sentence in (
        ([0, 3], 0, "rank 3 is named twice, or is not one of the 3 ranks"),
        ([0, 0], 0, "rank 0 is named twice"),
        ([1, 2], 0, "rankIds has rank 1 at the place 0, but this is rank 0"),
    ):
        with pytest.raises(HcclError, match=sentence):
            world.hccl.call(
                "HcclCreateSubCommConfig",
                byref(parent),
                len(ids),
                (c_uint32 * len(ids))(*ids),
                c_uint64(1),
                place,
                None,
                byref(comm),
            )


def test_settings_of_the_library(hccl: Hccl) -> None:
    value = c_int32()
    for wanted in (1, 0):
        hccl.call("HcclSetConfig", 0, c_int32(wanted))  # HCCL_DETERMINISTIC
        hccl.call("HcclGetConfig", 0, byref(value))
        assert value.value == wanted
    with pytest.raises(HcclError, match="not one of HcclConfig"):
        hccl.call("HcclSetConfig", 7, c_int32(1))
    assert hccl.hccl.HcclGetCommConfigCapability() > 2  # torch_npu passes names only then
    assert hccl.hccl.HcclGetErrorString(0) == b"HCCL_SUCCESS"
    assert hccl.hccl.HcclGetErrorString(E_TIMEOUT) == b"HCCL_E_TIMEOUT"
    assert hccl.hccl.HcclGetErrorString(12345)


def status(hccl: Hccl, name: bytes) -> int:
    answer = c_uint32()
    hccl.call("HcclCommGetStatus", c_char_p(name), byref(answer))
    return answer.value


def name_of(rank: Rank) -> bytes:
    name = ctypes.create_string_buffer(128)
    rank.hccl.call("HcclGetCommName", rank.comm, name)
    return name.value


def test_a_communicator_is_found_by_its_name_until_it_is_destroyed(world: World, hccl: Hccl) -> None:
    name, found = name_of(world[0]), c_void_p()
    hccl.call("HcclCommGetHandleWithName", c_char_p(name), byref(found))
    assert found.value == world[0].comm.value
    with pytest.raises(HcclError, match="there is no communicator nobody") as error:
        hccl.call("HcclCommGetHandleWithName", b"nobody", byref(found))
    assert error.value.code == E_NOT_FOUND
    assert status(hccl, b"nobody") == INVALID


def test_a_destroyed_communicator_is_refused(hccl: Hccl) -> None:
    world = World(hccl, 2)
    world.destroy()
    with pytest.raises(HcclError, match="HcclBarrier: the communicator was destroyed") as error:
        hccl.call("HcclBarrier", world[0].comm, None)
    assert error.value.code == E_PARA
    with pytest.raises(HcclError, match="HcclCommDestroy: the communicator was destroyed already"):
        hccl.call("HcclCommDestroy", world[0].comm)


def test_a_suspended_communicator_refuses_calls_until_all_resume(world: World, hccl: Hccl) -> None:
    assert world.together(lambda i: total(world[i], i)) == [3, 3, 3]
    for rank in world:
        hccl.call("HcclCommSuspend", rank.comm)
        assert status(hccl, name_of(rank)) == SUSPENDING
        with pytest.raises(HcclError, match="HcclBarrier: the communicator is suspended") as error:
            rank.call("HcclBarrier")
        assert error.value.code == E_SUSPENDING
        with pytest.raises(HcclError, match="HcclBatchSendRecv: the communicator is suspended"):
            rank.call("HcclBatchSendRecv", None, 0)
    world.together(lambda i: hccl.call("HcclCommResume", world[i].comm))
    assert status(hccl, name_of(world[0])) == READY
    for _ in range(3):
        assert world.together(lambda i: total(world[i], i)) == [3, 3, 3]
    world.together(lambda i: sub(world, i, [0, 1, 2], number=5).destroy())


def test_suspending_ends_what_waits_for_a_peer(world: World, hccl: Hccl) -> None:
    """Rank 2 never calls: the others wait, are suspended, and resume together with it, as if nothing had been."""
    for rank in list(world)[:2]:
        buffer = rank.upload(np.ones(8000, np.int32))
        rank.call("HcclAllReduce", buffer.pointer, buffer.pointer, c_uint64(8000), INT32, 0)
        rank.call("HcclSend", buffer.pointer, c_uint64(8000), INT32, 2)
    time.sleep(0.05)
    start = time.monotonic()
    for rank in world:
        hccl.call("HcclCommSuspend", rank.comm)
    for rank in list(world)[:2]:
        sentence = "HcclAllReduce was waiting for rank.* 2 when the communicator was suspended"
        with pytest.raises(HcclError, match=sentence):
            rank.synchronize()
        assert rank.async_error() == E_SUSPENDING
        hccl.call("aclrtResetDevice", rank.device)
    assert time.monotonic() - start < 5

    def resume(i: int) -> int:
        hccl.call("aclrtSetDevice", world[i].device)
        hccl.call("HcclCommResume", world[i].comm)
        hccl.call("aclrtCreateStream", byref(world[i].stream))  # the reset took the old one
        return total(world[i], i)

    assert world.together(resume) == [3, 3, 3]
    assert world[0].async_error() == 0


def test_a_rank_that_does_not_resume_is_named(
    world: World, hccl: Hccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HCCL_CONNECT_TIMEOUT", "1")
    for rank in world:
        hccl.call("HcclCommSuspend", rank.comm)

    def resume(i: int) -> None:
        with pytest.raises(HcclError, match="HcclCommResume: rank 2 did not come within 1 s"):
            hccl.call("HcclCommResume", world[i].comm)

    together(2, resume)
