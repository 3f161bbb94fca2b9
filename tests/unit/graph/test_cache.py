"""The compile cache with many processes, damaged files, read-only folders and a full disk."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
import warnings
from pathlib import Path

import pytest

from npu_common.graph import Builder, cache
from npu_common.graph.cache import CompileCache, Target


def payload_of(key: str) -> bytes:
    return key.encode() * 500


def stored(folder: Path, key: str) -> Path:
    return folder / "compiled" / f"{key}.npuc"


def hammer(folder: Path, seed: int, failures: multiprocessing.Queue) -> None:
    store = CompileCache(folder, limit=20 * 10_000)
    for step in range(150):
        key = f"{(seed * 7 + step) % 40:064x}"
        found = store.get(key) if step % 3 else store.get_or_compile(key, lambda key=key: payload_of(key))
        if found is not None and found != payload_of(key):
            failures.put(key)
        store.put(key, payload_of(key))


def test_eight_processes_never_read_anything_wrong(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    failures = context.Queue()
    processes = [context.Process(target=hammer, args=(tmp_path, seed, failures)) for seed in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    assert failures.empty()
    assert not list((tmp_path / "compiled").glob("*.part"))


def compile_once(folder: Path, log: Path) -> None:
    def compile() -> bytes:
        with log.open("a") as out:
            out.write("compiled\n")
        time.sleep(0.2)
        return b"result"

    assert CompileCache(folder).get_or_compile("a" * 64, compile) == b"result"


def test_processes_that_ask_at_once_compile_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    log = tmp_path / "log"
    processes = [context.Process(target=compile_once, args=(tmp_path, log)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert log.read_text() == "compiled\n"


@pytest.mark.parametrize("length", [0, 7, 51, 52, 60])
def test_a_truncated_file_is_dropped_with_one_warning(tmp_path: Path, length: int) -> None:
    store = CompileCache(tmp_path)
    for key in ("a" * 64, "b" * 64):
        store.put(key, b"0123456789")
        stored(tmp_path, key).write_bytes(stored(tmp_path, key).read_bytes()[:length])

    with pytest.warns(RuntimeWarning, match="damaged") as seen:
        assert store.get("a" * 64) is None
        assert store.get("b" * 64) is None

    assert len(seen) == 1
    assert not stored(tmp_path, "a" * 64).exists()


@pytest.mark.parametrize("position", range(0, 62, 3))
def test_a_flipped_bit_is_seen(tmp_path: Path, position: int) -> None:
    store = CompileCache(tmp_path)
    store.put("a" * 64, b"0123456789")
    file = stored(tmp_path, "a" * 64)
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)

    with pytest.warns(RuntimeWarning, match="damaged"):
        assert store.get_or_compile("a" * 64, lambda: b"again") == b"again"

    assert CompileCache(tmp_path).get("a" * 64) == b"again"


def test_a_full_disk_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    store = CompileCache(tmp_path)

    with pytest.warns(RuntimeWarning, match="no space is left") as seen:
        assert not store.put("a" * 64, b"x")
        assert store.get_or_compile("b" * 64, lambda: b"y") == b"y"

    assert len(seen) == 1
    assert not list((tmp_path / "compiled").glob(".*.part"))


def test_a_folder_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CompileCache(tmp_path)
    store.put("a" * 64, b"x")

    def refused(*args: object, **kwargs: object) -> tuple[int, str]:
        raise PermissionError(
            errno.EACCES, os.strerror(errno.EACCES)
        )  # root may write anywhere: no chmod here

    monkeypatch.setattr(cache.tempfile, "mkstemp", refused)

    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert not store.put("b" * 64, b"y")
    assert store.get("a" * 64) == b"x"


def test_a_place_that_is_no_folder_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = CompileCache(tmp_path / "file")
    with pytest.warns(RuntimeWarning):
        assert store.get_or_compile("a" * 64, lambda: b"x") == b"x"


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = CompileCache(tmp_path, limit=5 * 1100)
    for number in range(5):
        store.put(f"{number:064x}", bytes(1000))
        os.utime(stored(tmp_path, f"{number:064x}"), (number, number))
    assert store.get(f"{0:064x}") is not None  # touched: now the newest

    store.put(f"{5:064x}", bytes(1000))

    left = {int(file.stem, 16) for file in (tmp_path / "compiled").glob("*.npuc")}
    assert 0 in left and 5 in left and 1 not in left
    assert sum(file.stat().st_size for file in (tmp_path / "compiled").glob("*.npuc")) <= 5 * 1100


def test_what_is_larger_than_the_bound_is_not_stored(tmp_path: Path) -> None:
    store = CompileCache(tmp_path, limit=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not store.put("a" * 64, bytes(100))


def graph(scale: float, name: str = "g") -> Builder:
    builder = Builder(name)
    builder.output(builder.input(f"{name}_x", "float32", (2,)) * scale)
    return builder


TARGET = Target("ge", "Ascend910B", "8.2", "")


def test_the_key_is_the_same_whatever_nodes_are_called() -> None:
    assert cache.key(graph(2.0).graph, TARGET) == cache.key(graph(2.0, "other").graph, TARGET)


@pytest.mark.parametrize(
    "other",
    [Target("afir", "Ascend910B", "8.2"), Target("ge", "Ascend910C", "8.2"), Target("ge", "Ascend910B", "8.3"),
     Target("ge", "Ascend910B", "8.2", "fuse")],
)  # fmt: skip
def test_the_key_depends_on_executor_soc_version_and_options(other: Target) -> None:
    assert cache.key(graph(2.0).graph, TARGET) != cache.key(graph(2.0).graph, other)


def test_the_key_depends_on_constants() -> None:
    assert cache.key(graph(2.0).graph, TARGET) != cache.key(graph(3.0).graph, TARGET)


def test_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.delenv("NPU_CACHE_DIR", raising=False)
    assert cache.folder() == Path("/somewhere/npu_common")
    monkeypatch.setenv("NPU_CACHE_DIR", "/elsewhere")
    assert cache.folder() == Path("/elsewhere")
