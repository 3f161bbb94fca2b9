"""`npu doctor --smoke`: every layer tried on what is there, each in a process of its own with a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from npu_common.commands.smoke_layers import ABSENT_STATUS, LAYERS

TIMEOUT = 120.0  # seconds a layer
MODULE = "npu_common.commands.smoke_layers"
_STYLES = {"right": "green", "absent": "yellow", "failed": "red", "crashed": "red", "hung": "red"}


@dataclass(frozen=True)
class Result:
    layer: str
    status: Literal["right", "absent", "failed", "crashed", "hung"]
    finding: str
    seconds: float

    @property
    def is_fault(self) -> bool:
        return self.status not in ("right", "absent")


def try_layers(
    layers: Iterable[str] = tuple(LAYERS), *, module: str = MODULE, timeout: float = TIMEOUT
) -> Iterator[Result]:
    """A result a layer, as soon as it is there; a crash or a hang is one and does not end the others."""
    for layer in layers:
        yield _try(layer, module, timeout)


def show(results: list[Result]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    table = Table(
        box=None, pad_edge=False, title="Every layer, in a process of its own", title_justify="left"
    )
    for title in ("layer", "result", "seconds", "finding"):
        table.add_column(title, overflow="fold")
    for each in results:
        style = _STYLES[each.status]
        status = f"[{style}]{each.status}[/{style}]"
        table.add_row(each.layer, status, f"{each.seconds:.1f}", escape(each.finding))
    console.print(table)


def _try(layer: str, module: str, timeout: float) -> Result:
    start = time.monotonic()
    # A session of its own: what a layer started ends with it.
    process = subprocess.Popen(
        [sys.executable, "-m", module, layer],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        return Result(layer, "hung", f"no answer in {timeout:g} s", time.monotonic() - start)
    except BaseException:  # Ctrl-C does not reach another session
        _end(process)
        raise
    seconds, status = time.monotonic() - start, process.returncode
    if status < 0:
        return Result(
            layer, "crashed", f"ended by {signal.Signals(-status).name}. {_last(err)}".strip(), seconds
        )
    if status in (0, ABSENT_STATUS):
        return Result(layer, "absent" if status else "right", _last(out), seconds)
    return Result(layer, "failed", _last(err) or f"exit status {status}", seconds)


def _end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _last(text: str) -> str:
    """The exception's own line of a traceback, else the last line."""
    lines = text.strip().splitlines()
    errors = [line for line in lines if "Error" in line.split(":")[0] and not line.startswith(" ")]
    return (errors or lines or [""])[-1]
