"""Inside a rank: tie its life to the launcher's, and leave word of how it ended.

Error files have the format of torch.distributed.elastic (which reads them, under torchrun too) with three
fields more in ``extraInfo``: "time" to the fraction of a second, "sentence" when the user can act on the
error, and "follows" when it only tells that another rank is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

LAUNCHER = "TITAN_NPU_LAUNCHER"
"""Environment variable that titan-npu gives the ranks that it starts: its own process id."""

ADOPTED = "TITAN_NPU_RANK"
"""What becomes of it in the rank: the rank's process id, so that what the rank starts is no rank itself."""

FAILED = "titan-npu: rank {rank} failed."
"""The line after which a rank's log holds its error. The launcher tells the error itself, the first one first."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PEER_LOST = ("hccl", "gloo", "connection closed by peer", "connection reset by peer", "broken pipe")


def launched() -> bool:
    """Whether titan-npu's own launcher started this process as a rank."""
    return os.environ.get(ADOPTED) == str(os.getpid())


def is_rank() -> bool:
    """Whether some launcher (torchrun, or ours) started this process as a rank."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def number() -> int:
    """This process's rank."""
    return int(os.environ.get("RANK", "0"))


def adopt() -> None:
    """First thing in a rank of ours: die with the launcher, and write both streams to the rank's log."""
    launcher = os.environ.pop(LAUNCHER, None)
    if launcher is None:
        return
    os.environ[ADOPTED] = str(os.getpid())
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(launcher):  # it died before the kernel knew of our wish
        os._exit(1)
    # One file, one offset: the launcher gives it as standard output only.
    os.dup2(1, 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def record(error: BaseException, sentence: str | None) -> None:
    """Leave ``error`` in this rank's error file; the first one stays. Does nothing where there is no launcher.

    Call it as soon as the error is caught: its time tells which rank failed first.
    """
    path = _error_file()
    if path is None or _ours(path):
        return
    extra = {
        "py_callstack": "".join(traceback.format_exception(error)),
        "timestamp": str(int(time.time())),
        "time": time.time(),
        "sentence": sentence,
        "follows": tells_of_a_lost_peer(error),
    }
    message = {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps({"message": message}), encoding="utf-8")
    scratch.replace(path)  # the agent may read at any moment


def tells_of_a_lost_peer(error: BaseException) -> bool:
    """Whether ``error`` or what caused it comes from the communication between ranks."""
    import torch.distributed as dist

    lost: tuple[type[BaseException], ...] = (
        dist.DistBackendError,
        dist.DistNetworkError,
        dist.DistStoreError,
        ConnectionError,
    )
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause).lower()
        if isinstance(cause, lost) or any(word in text for word in _PEER_LOST):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def record_stop(status: int) -> None:
    """Leave word for our launcher that the ranks agreed to stop; ``status`` is 128 + the signal."""
    path = _error_file()
    if path is not None:
        stop_file(path).write_text(str(status), encoding="utf-8")


def stop_file(error_file: Path) -> Path:
    """Where a rank with that error file leaves word of a stop."""
    return error_file.with_suffix(".stopped")


def _error_file() -> Path | None:
    name = os.environ.get("TORCHELASTIC_ERROR_FILE")
    return Path(name) if name else None


def _ours(path: Path) -> bool:
    try:
        return "time" in json.loads(path.read_text(encoding="utf-8"))["message"]["extraInfo"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
