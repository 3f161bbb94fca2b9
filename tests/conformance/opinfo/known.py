"""known.toml: results that differ from the CPU's because torch_npu itself decides so, each with the
evidence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .outcome import Result, Status

FILE = Path(__file__).with_name("known.toml")


@dataclass(frozen=True)
class Known:
    """One operator, on some dtypes in some modes, that does not pass for a reason outside of this project."""

    op: str
    dtypes: tuple[str, ...]
    modes: tuple[str, ...]
    status: Status
    reason: str
    evidence: str

    def covers(self, result: Result) -> bool:
        """Whether this is the entry of a result's operator, dtype and mode."""
        return self.op == result.op and result.dtype in self.dtypes and result.mode in self.modes


def load(path: Path = FILE) -> list[Known]:
    """The entries, one for each operator named in a record's `ops`. Raises ValueError for a record without
    reason or evidence.
    """
    found = []
    for record in tomllib.loads(path.read_text()).get("known", []):
        if not record.get("reason") or not record.get("evidence"):
            raise ValueError(
                f"{path.name}: the entry for {record.get('ops')} needs a reason and the evidence for it"
            )
        for op in record["ops"]:
            modes = tuple(record.get("modes", ["forward"]))
            found.append(
                Known(
                    op,
                    tuple(record["dtypes"]),
                    modes,
                    Status(record["status"]),
                    record["reason"],
                    record["evidence"],
                )
            )
    return found


def entry_for(result: Result, entries: Iterable[Known]) -> Known | None:
    """The entry that explains a result; one whose status is another (a crash where a wrong value is listed)
    explains nothing.
    """
    return next((e for e in entries if e.covers(result) and e.status is result.status), None)


def unexplained(
    results: Iterable[Result], entries: list[Known], status: Status = Status.WRONG
) -> list[Result]:
    """Results with this status that no entry explains."""
    return [result for result in results if result.status is status and entry_for(result, entries) is None]


def stale(results: Iterable[Result], entries: list[Known]) -> list[tuple[Known, Result]]:
    """Entries whose operator was run and came to another result than listed: they have to go."""
    return [(e, r) for r in results for e in entries if e.covers(r) and e.status is not r.status]
