"""``python -m tests.e2e.layouts [NAME ...]``: train on every layout and print how far each is from one rank."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.e2e.layouts.runs import LOSS, NORM, Outcome, Runs
from tests.e2e.layouts.table import LAYOUTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.layouts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="layouts (default: all)")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(layout.name for layout in LAYOUTS))
        return 0
    unknown = set(arguments.names) - {layout.name for layout in LAYOUTS}
    if unknown:
        parser.error(f"no layout named {', '.join(sorted(unknown))} (--list shows them)")
    console = Console(width=110)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="layouts-") as temporary:
        runs = Runs(arguments.folder or Path(temporary))
        for layout in LAYOUTS:
            if arguments.names and layout.name not in arguments.names:
                continue
            outcome = runs.compare(layout)
            outcomes.append(outcome)
            print(
                f"{layout.name}: {outcome.failure or f'{outcome.loss:.1e} {outcome.norm:.1e}'}",
                file=sys.stderr,
            )
    console.print(_table(outcomes))
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title="10 steps in float32 next to the one-rank run (largest relative difference)")
    for heading in (
        "layout",
        "recipe",
        "ranks",
        f"losses ({LOSS:.0e})",
        f"gradient norms ({NORM:.0e})",
        "s",
        "",
    ):
        table.add_column(heading)
    for outcome in outcomes:
        layout = outcome.layout
        table.add_row(
            layout.name,
            layout.recipe,
            str(layout.ranks),
            "-" if outcome.failure else f"{outcome.loss:.1e}",
            "-" if outcome.failure else f"{outcome.norm:.1e}",
            f"{outcome.seconds:.0f}",
            "ok" if outcome.passed else "FAILED",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
