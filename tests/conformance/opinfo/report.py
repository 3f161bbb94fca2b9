"""Figures and the list of what is left, as text and as docs/opinfo.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from . import known
from .outcome import Result, Status

_COLUMNS = (
    Status.PASS,
    Status.WRONG,
    Status.MISSING,
    Status.FAILED,
    Status.UNNAMED,
    Status.REFUSED,
    Status.CRASH,
    Status.HANG,
)
_UNCOUNTED = (Status.NO_SAMPLES, Status.RANDOM)

_HEAD = """# PyTorch's operators on the NPU

PyTorch's own operator samples (`torch.testing._internal.common_methods_invocations.op_db`, torch {torch}),
run by the unmodified torch_npu on device npu and compared with device cpu. Written by
`{command}`; do not edit.

An operator passes if all its samples that CPU torch accepts give the CPU's result in structure, shape,
dtype and value, and leave their operands as they were (tolerances: those of the samples' own record, else
`torch.testing.assert_close`'s; where these fail, the NPU's result may be as far from a double-precision
reference as the CPU's own). *by CPU fallback* counts passes in which torch_npu ran a part on the CPU (it
has no NPU kernel and says so). Random numbers and uninitialised memory have no value to compare: an
operator with such a sample is checked for shape, dtype and range in it, and counted apart. *listed* are
results that differ because torch_npu decides so (evidence below); they do not count as passed.

"""


def share(results: list[Result]) -> float:
    """Share (0 to 1) of operators that pass, of those with samples that CPU torch accepts; random ones that
    are fine are left out.
    """
    counted = [r for r in results if r.status not in _UNCOUNTED]
    return sum(r.status is Status.PASS for r in counted) / len(counted) if counted else 0.0


def by_kind(results: list[Result]) -> dict[tuple[str, str], list[Result]]:
    """Results by mode and dtype, forward first."""
    kinds: dict[tuple[str, str], list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.mode != "forward", r.mode, r.dtype, r.op)):
        kinds.setdefault((result.mode, result.dtype), []).append(result)
    return kinds


def summary(results: list[Result]) -> str:
    """The table of figures, a row for each mode and dtype."""
    entries = known.load()
    head = ["mode", "dtype", "operators", "pass %", *_COLUMNS, "listed", "by CPU fallback", "random, apart"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (mode, dtype), group in by_kind(results).items():
        listed = sum(known.entry_for(r, entries) is not None for r in group)
        counts = Counter(r.status for r in group if known.entry_for(r, entries) is None)
        counted = sum(r.status not in _UNCOUNTED for r in group)
        fallback = sum(r.status is Status.PASS and bool(r.fallbacks) for r in group)
        figures = [counts[c] for c in _COLUMNS]
        row = [
            mode,
            dtype,
            counted,
            f"{100 * share(group):.1f}",
            *figures,
            listed,
            fallback,
            counts[Status.RANDOM],
        ]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


def write_report(results: list[Result], path: Path, command: str) -> None:
    """docs/opinfo.md: figures, what is left and why, what torch_npu decides, what runs on the CPU, what is
    random.
    """
    entries = known.load()
    text = [
        _HEAD.format(torch=torch.__version__.split("+")[0], command=command),
        "## Figures\n\n",
        summary(results),
        "\n",
    ]
    for title, status in (
        ("Wrong values", Status.WRONG),
        ("Crashes", Status.CRASH),
        ("Hangs", Status.HANG),
        ("Errors that do not name what is missing", Status.UNNAMED),
        ("Missing operators", Status.MISSING),
        ("Operators that do not take the sample", Status.FAILED),
        ("Refused by torch_npu", Status.REFUSED),
    ):
        left = [r for r in results if r.status is status and known.entry_for(r, entries) is None]
        text += ["\n", f"## {title}\n\n", _table(left, _reason) if left else "None.\n"]
    text += ["\n## Listed: torch_npu decides otherwise\n\n", _listed(results, entries)]
    text += [
        "\n## Partly on the CPU\n\n",
        "torch_npu has no NPU kernel for these ATen operators and runs them on the CPU:\n\n",
    ]
    text.append(_wrapped(sorted({name for r in results for name in r.fallbacks})))
    text += [
        "\n## Random numbers and uninitialised memory\n\n",
        "Checked for shape, dtype and range, not counted:\n\n",
    ]
    text.append(_wrapped(sorted({r.op for r in results if r.status is Status.RANDOM})))
    path.write_text("".join(text))


def _table(results: list[Result], reason: Callable[[Result], str]) -> str:
    """One row for an operator and reason, with the kinds (dtype, backward) that share it."""
    rows: dict[tuple[str, str], set[str]] = {}
    for result in results:
        kind = result.dtype if result.mode == "forward" else f"{result.dtype} {result.mode}"
        rows.setdefault((result.op, reason(result)), set()).add(kind)
    lines = ["| operator | on | reason |", "|---|---|---|"]
    lines += [f"| `{op}` | {', '.join(sorted(kinds))} | {why} |" for (op, why), kinds in sorted(rows.items())]
    return "\n".join(lines) + "\n"


def _reason(result: Result) -> str:
    if result.status is Status.MISSING:
        return ", ".join(f"`{name}`" for name in result.missing)
    sentence = result.message.split(" | ")[0].removeprefix("RuntimeError: ")
    return sentence.replace("|", "\\|")[:220]


def _listed(results: list[Result], entries: list[known.Known]) -> str:
    blocks: dict[tuple[str, str], set[str]] = {}
    for result in results:
        entry = known.entry_for(result, entries)
        if entry is not None:
            kind = result.dtype if result.mode == "forward" else f"{result.dtype} {result.mode}"
            blocks.setdefault((entry.reason, entry.evidence), set()).add(f"`{result.op}` ({kind})")
    if not blocks:
        return "None.\n"
    return "".join(
        f"* {', '.join(sorted(ops))}: {why} Evidence: {proof}\n"
        for (why, proof), ops in sorted(blocks.items())
    )


def _wrapped(names: list[str]) -> str:
    return (", ".join(f"`{name}`" for name in names) or "None") + ".\n"
