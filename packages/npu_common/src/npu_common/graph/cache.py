"""A persistent cache of compiled graphs, shared by all processes of a user.

Where: NPU_CACHE_DIR, else XDG_CACHE_HOME/npu_common, else ~/.cache/npu_common; in it `compiled/<key>.npuc`.

Format of a file (integers little-endian):
    8 bytes   magic "NPUCACHE"
    4 bytes   version of this format
    8 bytes   length of the payload
    32 bytes  SHA-256 of the payload
    payload   what the executor's Executable.serialise() gave
The key is SHA-256 over the graph's canonical bytes, the executor, SoC, CANN version and options, so that nothing else
has to be compared. A file is written under another name and renamed: a reader sees all of it or none. Damage (a
wrong length or sum) drops the file, with one warning a process, and the graph is compiled again. A cache that cannot
be written to (read-only, full) costs compilation, never an error.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import struct
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from npu_common.graph.ir import Graph
from npu_common.graph.serialise import canonical_bytes

VERSION = 1
DEFAULT_BYTES = 4 * 2**30
_MAGIC = b"NPUCACHE"
_HEADER = struct.Struct("<8sIQ32s")
_SUFFIX = ".npuc"
_STALE_SECONDS = 3600.0  # a half-written file of a process that died
_ROOM = 0.9  # eviction goes below the bound by this much, so that not every write evicts


def folder() -> Path:
    """Where the cache is, by the environment; it need not exist."""
    named = os.environ.get("NPU_CACHE_DIR", "").strip()
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(home) if home else Path.home() / ".cache") / "npu_common"


@dataclass(frozen=True, slots=True)
class Target:
    """What a compiled graph depends on besides the graph."""

    executor: str
    soc: str
    cann_version: str
    options: str = ""


def key(graph: Graph, target: Target) -> str:
    """64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in (canonical_bytes(graph), target.executor, target.soc, target.cann_version, target.options):
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(
            struct.pack("<Q", len(data)) + data
        )  # lengths, so that no two lists of parts read alike
    return digest.hexdigest()


class CompileCache:
    """Safe with any number of processes and threads on one (also networked) file system.

    `limit`: bytes of all files together; the least recently used go first. NPU_CACHE_BYTES is its default.
    """

    def __init__(self, place: Path | None = None, limit: int | None = None) -> None:
        self._place = (place or folder()) / "compiled"
        self._limit = limit if limit is not None else int(os.environ.get("NPU_CACHE_BYTES", DEFAULT_BYTES))
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """The payload, or None: not there, damaged (then it is dropped), or not readable."""
        file = self._file(key)
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(
                "read", f"the compile cache {self._place} cannot be read ({error}); compiling without it"
            )
            return None
        payload = _payload(data)
        if payload is None:
            self._warn(
                "damage", f"{file} is damaged: it is dropped and compiled again. Is the disk full or failing?"
            )
            with contextlib.suppress(OSError):
                file.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # access times are often off: what is used last is what was touched last
        return payload

    def put(self, key: str, payload: bytes) -> bool:
        """Whether it was stored. Never raises OSError: a cache is no reason to stop."""
        if _HEADER.size + len(payload) > self._limit:
            return False
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            self._write(key, payload)
            self._evict()
        except OSError as error:
            reason = "no space is left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
            self._warn(
                "write", f"the compile cache {self._place} cannot be written ({reason}); going on without it"
            )
            return False
        return True

    def get_or_compile(self, key: str, compile: Callable[[], bytes]) -> bytes:
        """The payload, compiled once if several processes ask at the same time: the others wait for the first."""
        found = self.get(key)
        if found is not None:
            return found
        with self._locked(key):
            found = self.get(key)
            if found is None:
                found = compile()
                self.put(key, found)
            return found

    def _file(self, key: str) -> Path:
        return self._place / f"{key}{_SUFFIX}"

    def _write(self, key: str, payload: bytes) -> None:
        header = _HEADER.pack(_MAGIC, VERSION, len(payload), hashlib.sha256(payload).digest())
        handle, name = tempfile.mkstemp(dir=self._place, prefix=f".{key[:16]}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(header)
                out.write(payload)
                out.flush()
                os.fsync(out.fileno())  # else a crash may leave a renamed file without its bytes
            Path(name).replace(self._file(key))
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def _evict(self) -> None:
        """One process at a time, others go on without: the bound is kept by whoever comes next."""
        with self._lock, self._try_lock(self._place / ".evict.lock") as held:
            if not held:
                return
            files = []
            for entry in os.scandir(self._place):
                with contextlib.suppress(FileNotFoundError):
                    files.append((entry.stat().st_mtime, entry.stat().st_size, Path(entry.path)))
            self._remove_stale(files)
            kept = sorted(f for f in files if f[2].suffix == _SUFFIX)
            total = sum(size for _, size, _ in kept)
            if total <= self._limit:
                return
            for _, size, file in kept[:-1]:  # the newest stays: it was just asked for
                file.unlink(missing_ok=True)
                file.with_suffix(".lock").unlink(missing_ok=True)
                total -= size
                if total <= self._limit * _ROOM:
                    break

    @staticmethod
    def _remove_stale(files: list[tuple[float, int, Path]]) -> None:
        newest = max((time for time, _, _ in files), default=0.0)
        for time, _, file in files:
            if file.suffix == ".part" and time < newest - _STALE_SECONDS:
                file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """An advisory lock for one key; where files cannot be locked, each process compiles for itself."""
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._place / f"{key}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            yield
            return
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    @staticmethod
    @contextlib.contextmanager
    def _try_lock(file: Path) -> Iterator[bool]:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(handle)

    def _warn(self, about: str, text: str) -> None:
        with self._lock:
            if about in self._warned:
                return
            self._warned.add(about)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _payload(data: bytes) -> bytes | None:
    """None unless the bytes are all of a file of this format."""
    if len(data) < _HEADER.size:
        return None
    magic, version, length, digest = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if magic != _MAGIC or version != VERSION or length != len(payload):
        return None
    return payload if hashlib.sha256(payload).digest() == digest else None
