"""The `npu` command: doctor, env, run, ops, graph."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from npu_common import toolkit
from npu_common.commands import graph, ops
from npu_common.commands.smoke import Result, show, try_layers
from npu_common.doctor import Report, examine
from npu_common.exports import shell_exports

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="CANN or its host emulator, for every python of this environment.",
)
app.command()(ops.ops)
app.add_typer(graph.app, name="graph")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Try every layer, each in a process of its own.")
    ] = False,
) -> None:
    """Report which CANN is used and why, versions, devices; exit status 1 if anything is missing."""
    report = examine()
    layers: list[Result] = []
    if smoke and report.toolkit is not None:
        layers = list(try_layers())
    if as_json:
        print(
            json.dumps(
                asdict(report) | ({"layers": [asdict(each) for each in layers]} if smoke else {}), indent=2
            )
        )
    else:
        _show(report)
        if layers:
            show(layers)
    raise typer.Exit(1 if report.problems or any(each.is_fault for each in layers) else 0)


@app.command()
def env() -> None:
    """Print shell lines for a python of another environment: eval "$(npu env)"."""
    try:
        found = toolkit.find()
    except toolkit.ToolkitError as error:
        _fail(error)
    print(shell_exports(found))


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="",
)
def run(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="script.py ARGS | -m MODULE ARGS | -c CODE ARGS", show_default=False),
    ],
) -> None:
    """Run python with CANN loaded from the start.

    What follows `run` is python's own command line, and what runs is this environment's python in place of
    this command.
    """
    try:
        toolkit.activate()
    except toolkit.ToolkitError as error:
        _fail(error)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, "NPU_COMMON_HOOK": "now"})


def main() -> None:
    """The console script."""
    app(prog_name="npu")


def _fail(error: Exception) -> NoReturn:
    print(f"npu: {error}", file=sys.stderr)
    raise typer.Exit(1)


def _show(report: Report) -> None:
    console = Console(highlight=False, soft_wrap=True)

    def section(title: str, rows: list[tuple[str, str]]) -> None:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(f"  {escape(name)}", escape(value))
        console.print(f"[bold]{title}[/bold]")
        console.print(table)

    if report.toolkit:
        section("Toolkit", list(report.toolkit.items()))
    section("Host", list(report.host.items()))
    packages = [
        (p.name, f"{p.installed or 'not installed'} (pinned: {p.pinned or 'no'})") for p in report.packages
    ]
    section("Packages", packages)
    devices = [
        (f"npu:{index}", f"{d['name']}, {d['free'] / 2**30:.1f} of {d['total'] / 2**30:.1f} GiB free")
        for index, d in enumerate(report.devices)
    ]
    section("Devices", devices or [("none", "")])
    section("Start-up hook", [(report.hook, "")])
    section("Environment", list(report.environment.items()) or [("nothing set", "")])
    section("A computation on npu:0", [(report.smoke, "")])
    for problem in report.problems:
        console.print(f"[bold red]Problem:[/bold red] {escape(problem.what)}")
        console.print(f"  [bold]Way out:[/bold] {escape(problem.way_out)}")
    if not report.problems:
        console.print("[bold green]Nothing is missing.[/bold green]")
