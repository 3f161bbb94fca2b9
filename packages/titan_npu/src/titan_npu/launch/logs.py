"""A folder a run and a file a rank; one rank's file goes to the console as it grows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs

from titan_npu.launch.rank import FAILED, LAUNCHER

POLL = 0.05
"""Seconds between two looks at the file that is shown."""


class RankLogs(LogsSpecs):
    """``<folder>/rank_<n>.log`` with both streams of rank n; ``rank_<n>.error.json`` when it failed.

    After a restart (attempt 1, 2, ...) the files are ``rank_<n>.attempt_<a>.log`` and so on.

    Args:
        folder: the run's own folder, which exists.
        console_rank: the rank that reports the loss: its log is shown on ``stream``.
        restarting: called before an attempt after the first, with its number.
    """

    def __init__(
        self, folder: Path, console_rank: int, stream: TextIO, restarting: Callable[[int], None]
    ) -> None:
        super().__init__(log_dir=str(folder))
        self.folder = folder
        self.error_files: dict[int, Path] = {}
        self._console_rank = console_rank
        self._stream = stream
        self._restarting = restarting
        self._attempt = 0
        self._echo: Echo | None = None

    @property
    def root_log_dir(self) -> str:
        return str(self.folder)

    def log(self, rank: int) -> Path:
        """The log file of ``rank`` in the present attempt."""
        return self._file(rank, "log")

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Called by the agent before it starts the ranks, with their environment by local rank."""
        self.close()
        self._attempt = int(next(iter(envs.values())).get("TORCHELASTIC_RESTART_COUNT", "0"))
        if self._attempt:
            self._restarting(self._attempt)
        stdouts, error_files = {}, {}
        for local_rank, env in envs.items():
            rank = int(env["RANK"])
            env[LAUNCHER] = str(os.getpid())
            stdouts[local_rank] = str(self.log(rank))
            self.error_files[rank] = self._file(rank, "error.json")
            error_files[local_rank] = env["TORCHELASTIC_ERROR_FILE"] = str(self.error_files[rank])
            if rank == self._console_rank:
                self._echo = Echo(self.log(rank), self._stream, FAILED.format(rank=rank))
                self._echo.start()
        # The ranks join their standard error to the file themselves: opened twice it would have two offsets.
        return LogsDest(
            stdouts=stdouts,
            stderrs=dict.fromkeys(stdouts, ""),
            error_files=error_files,
            filtered_stdout=os.devnull,
            filtered_stderr=os.devnull,
        )

    def close(self) -> None:
        """Show what is left of the file, and stop."""
        if self._echo is not None:
            self._echo.close()
            self._echo = None

    def _file(self, rank: int, suffix: str) -> Path:
        attempt = f".attempt_{self._attempt}" if self._attempt else ""
        return self.folder / f"rank_{rank}{attempt}.{suffix}"


class Echo(threading.Thread):
    """Copies whole lines of a growing file to a stream, until one that starts with ``last``."""

    def __init__(self, path: Path, stream: TextIO, last: str) -> None:
        super().__init__(name=f"echo-{path.name}", daemon=True)
        self._path = path
        self._stream = stream
        self._last = last
        self._done = threading.Event()

    def run(self) -> None:
        while True:
            done = self._done.is_set()  # before looking: a file that is there by then is still shown
            if self._path.exists():
                break
            if done:
                return
            self._done.wait(POLL)
        with self._path.open(encoding="utf-8", errors="replace") as file:
            rest = ""
            while True:
                done = self._done.is_set()  # before reading: what was written until then is still shown
                *lines, rest = (rest + file.read()).split("\n")
                for line in lines:
                    if line.startswith(self._last):
                        return
                    self._stream.write(line + "\n")
                if lines:
                    self._stream.flush()
                if done:
                    return
                self._done.wait(POLL)

    def close(self) -> None:
        """Copy what is there, then end."""
        self._done.set()
        self.join()


def tail(path: Path, lines: int = 40, width: int = 160) -> str:
    """The last lines of a log, long ones cut; "" when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - (1 << 16), 0))
            last = file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return ""
    return "\n".join(line if len(line) <= width else line[: width - 3] + "..." for line in last)
