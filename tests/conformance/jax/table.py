"""Counts outcomes: the denominator is what passes on cpu, a skip on npu is no pass unless it is listed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.jax.runner import Outcome

Outcomes = Mapping[str, Mapping[str, Outcome]]  # by file, by node id
Known = list[tuple[re.Pattern[str], str]]  # a pattern of node ids, why npu does not have to pass them
_LISTED = Path(__file__).with_name("listed.toml")
_COLUMNS = ("passed", "listed", "skipped", "failed", "crashed", "hung", "missing")


def listed() -> Known:
    """Tests that npu does not have to pass: a pattern of node ids and the reason."""
    if not _LISTED.is_file():
        return []
    return [(re.compile(row["test"]), row["reason"]) for row in tomllib.loads(_LISTED.read_text())["tests"]]


def count(cpu: Mapping[str, Outcome], npu: Mapping[str, Outcome], known: Known) -> dict[str, int]:
    """How many of the tests that pass on cpu end how on npu."""
    numbers = dict.fromkeys(_COLUMNS, 0)
    for name, outcome in cpu.items():
        if outcome.outcome != "passed":
            continue
        found = npu[name].outcome if name in npu else "missing"
        if found != "passed" and any(pattern.search(name) for pattern, _ in known):
            found = "listed"
        numbers[found] += 1
    return numbers


def markdown(cpu: Outcomes, npu: Outcomes, known: Known) -> str:
    """A row per file: tests that pass on cpu, how many of them npu passes, and how the others end."""
    lines = [f"| file | cpu | rate | {' | '.join(_COLUMNS)} |", f"|---|{'---|' * (len(_COLUMNS) + 2)}"]
    for file in cpu:
        numbers = count(cpu[file], npu[file], known)
        total = sum(numbers.values()) - numbers["listed"]
        rate = f"{numbers['passed'] / total:.1%}" if total else "-"
        cells = " | ".join(str(numbers[column]) for column in _COLUMNS)
        lines.append(f"| {file} | {sum(numbers.values())} | {rate} | {cells} |")
    return "\n".join(lines) + "\n"
