"""Which rank failed first, and what to say of it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from titan_npu.launch.logs import tail

GRACE = 30
"""Seconds that the elastic agent gives the other ranks, after the first failure, before it kills them."""

_WATCHDOG = "HCCL watchdog thread terminated"
"""torch_npu aborts a process whose communicator has an error, now and then before Python has told of it."""

_STOPPED = (130, 143, -signal.SIGINT, -signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class RankFailure:
    """How a rank ended: an exception that it left word of, an exit status, or a signal (negative status)."""

    rank: int
    status: int
    time: float
    """Seconds since 1970: when the exception was caught, or when the agent saw the process gone."""

    error: str = ""
    """Type and message of the exception"""

    traceback: str = ""
    sentence: str | None = None
    """What to tell the user instead of a traceback"""

    follows: bool = False
    """The end is about the communication with another rank"""

    @classmethod
    def of(cls, rank: int, failure: ProcessFailure, log: Path) -> RankFailure:
        """From what the elastic agent knows (it has read the rank's error file) and the rank's log."""
        message: Any = failure.message
        if not isinstance(message, dict):
            # The agent counts whole seconds; the end of that second cannot come before what came first.
            follows = failure.exitcode == -signal.SIGABRT and _WATCHDOG in tail(log, lines=1000)
            return cls(rank, failure.exitcode, failure.timestamp + 1.0, follows=follows)
        extra = message.get("extraInfo", {})
        return cls(
            rank,
            failure.exitcode,
            float(extra.get("time", failure.timestamp)),
            error=message.get("message", ""),
            traceback=extra.get("py_callstack", ""),
            sentence=extra.get("sentence"),
            follows=bool(extra.get("follows", False)),
        )

    @property
    def stopped(self) -> bool:
        """Ended by SIGINT or SIGTERM, as far as its status tells."""
        return self.status in _STOPPED and not self.error

    def ended(self) -> str:
        """``was killed by SIGSEGV``, ``failed with exit status 1 (RuntimeError: ...)``."""
        if self.status < 0 and not self.error:
            try:
                name = signal.Signals(-self.status).name
            except ValueError:
                name = f"signal {-self.status}"
            return f"was killed by {name}"
        first = self.error.strip().splitlines()[0] if self.error.strip() else ""
        how = (
            f" with exit status {self.status}" if self.status >= 0 else ""
        )  # else: ended while it was ending
        return f"failed{how}" + (f" ({first})" if first else "")


def root_cause(failures: Mapping[int, RankFailure]) -> RankFailure:
    """The failure that the others follow from: the earliest that is not itself about a lost peer.

    A rank that dies takes the others with it: they fail in a collective, or the agent ends them (SIGTERM, and
    SIGKILL for one that does not listen).
    """
    earliest = min(failure.time for failure in failures.values())

    def order(failure: RankFailure) -> tuple[int, float]:
        killed = failure.status in (-signal.SIGTERM, -signal.SIGKILL) and not failure.error
        late = failure.status != -signal.SIGKILL or failure.time >= earliest + GRACE
        if killed and late and len(failures) > 1:
            return (2, failure.time)
        return (1 if failure.follows else 0, failure.time)

    return min(failures.values(), key=order)


def describe(failures: Mapping[int, RankFailure], log: Path) -> tuple[str, str]:
    """What to show of the root cause, traceback or end of the log ("" when the sentence is all), and the
    sentence. ``log`` is that rank's."""
    first = root_cause(failures)
    if first.sentence is not None:
        return "", f"{first.sentence} (Rank {first.rank}; its log is {log}.)"
    others = sorted(set(failures) - {first.rank})
    followed = f", and rank{'s' * (len(others) > 1)} {_listed(others)} with it" if others else ""
    sentence = f"rank {first.rank} {first.ended()}{followed}; its log is {log}."
    if first.traceback:
        return first.traceback, sentence
    end = tail(log)
    return (f"The end of the log of rank {first.rank}:\n{end}\n" if end else ""), sentence


def _listed(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
