"""The sweep's command line: python -m tests.conformance.opinfo --help"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from . import known
from .layouts import LAYOUTS
from .outcome import Result, Status
from .pool import sweep
from .report import summary, write_report
from .worker import Unit

DTYPES = "float32,bfloat16,int64,bool"


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.opinfo", description=__doc__)
    parser.add_argument("--ops", default="*", help="names or globs, separated by commas (linalg.*,add)")
    parser.add_argument("--dtypes", default=DTYPES, help=f"separated by commas; {DTYPES} if not given")
    parser.add_argument(
        "--modes",
        default="forward",
        help="separated by commas: forward, backward (float32 and complex64 only), inplace, out",
    )
    parser.add_argument("--backward", action="store_true", help="the same as adding backward to --modes")
    parser.add_argument(
        "--all",
        action="store_true",
        help="what docs/opinfo.md reports: all dtypes forward, float32 backward, all samples",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=0,
        help="samples of each operator, spread evenly over all it has (0: all)",
    )
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="as-is", help="memory layout of the NPU's operands"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--time-out", type=float, default=60.0, help="seconds for one sample")
    parser.add_argument(
        "--rerun", type=Path, help="a former --out file: runs again only what did not pass there"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="JSON file for the results (those of --rerun that were not run again included)",
    )
    parser.add_argument(
        "--report", type=Path, help="Markdown file to write: the table of figures and what is left"
    )
    parser.add_argument("--quiet", action="store_true", help="print the table only")
    return parser


def units(options: argparse.Namespace) -> list[Unit]:
    from .samples import operators

    globs = options.ops.split(",")
    names = [name for name in operators() if any(fnmatchcase(name, glob) for glob in globs)]
    modes = [*options.modes.split(","), *(["backward"] if options.backward or options.all else [])]
    chosen = [
        Unit(name, dtype, mode, options.samples, options.layout)
        for name in names
        for mode in dict.fromkeys(modes)
        for dtype in options.dtypes.split(",")
        if mode != "backward" or dtype in ("float32", "complex64")
    ]
    if options.rerun:
        bad = {
            result.key
            for result in load(options.rerun)
            if result.status not in (Status.PASS, Status.RANDOM, Status.NO_SAMPLES)
        }
        chosen = [unit for unit in chosen if (unit.op, unit.dtype, unit.mode) in bad]
    return chosen


def load(path: Path) -> list[Result]:
    return [Result.from_json(record) for record in json.loads(path.read_text())["results"]]


def _told(options: argparse.Namespace) -> list[str]:
    """The options that decide what a report says."""
    told = ["--all"] if options.all else ["--dtypes", options.dtypes, "--modes", options.modes]
    told += ["--samples", str(options.samples)] if options.samples else []
    return [*told, "--report", str(options.report)]


def main() -> int:
    options = arguments().parse_args()
    started = time.monotonic()

    def show(results: list[Result]) -> None:
        for result in results:
            if not options.quiet and result.status not in (Status.PASS, Status.RANDOM, Status.NO_SAMPLES):
                print(
                    f"{result.op} {result.dtype} {result.mode}: {result.status}: {result.message[:160]}",
                    flush=True,
                )

    done = {result.key: result for result in (load(options.rerun) if options.rerun else [])}
    done |= {result.key: result for result in sweep(units(options), options.workers, options.time_out, show)}
    results = sorted(done.values(), key=lambda result: result.key)
    if options.out:
        records = [result.to_json() for result in results]
        options.out.write_text(
            json.dumps({"samples": options.samples, "layout": options.layout, "results": records}, indent=1)
            + "\n"
        )
    if options.report:
        write_report(
            results, options.report, " ".join(["python -m tests.conformance.opinfo", *_told(options)])
        )
    print(summary(results))
    print(
        f"{len(results)} results, {time.monotonic() - started:.0f} s;",
        dict(Counter(str(r.status) for r in results)),
    )
    return 1 if known.unexplained(results, known.load()) else 0


if __name__ == "__main__":
    sys.exit(main())
