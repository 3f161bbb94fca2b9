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
    differences: tuple[str, ...]  # the kinds that a wrong value may have
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
        found += [
            Known(
                op,
                tuple(record["dtypes"]),
                tuple(record.get("modes", ["forward"])),
                Status(record["status"]),
                tuple(record.get("differences", [])),
                record["reason"],
                record["evidence"],
            )
            for op in record["ops"]
        ]
    return found


def entry_for(result: Result, entries: Iterable[Known]) -> Known | None:
    """The entry that explains a result: of its status, and listing every kind of difference that it has."""
    return next(
        (
            entry
            for entry in entries
            if entry.covers(result)
            and entry.status is result.status
            and set(result.differences) <= set(entry.differences)
        ),
        None,
    )


def unexplained(
    results: Iterable[Result], entries: list[Known], status: Status = Status.WRONG
) -> list[Result]:
    """Results with a sample of this status that no entry explains."""

    def explained(result: Result) -> bool:
        entry = entry_for(result, entries)
        return entry is not None and entry.status is status

    return [result for result in results if result.counts.get(status) and not explained(result)]


def stale(results: Iterable[Result], entries: list[Known]) -> list[tuple[Known, Result]]:
    """Entries whose operator was run and came to another result than listed: they have to go."""
    return [(e, r) for r in results for e in entries if e.covers(r) and e.status is not r.status]
