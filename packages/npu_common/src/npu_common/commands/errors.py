"""What a command says when it cannot do what was asked: one sentence on stderr, exit status 2."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import typer


class CommandError(Exception):
    """The sentence."""


@contextmanager
def one_sentence() -> Iterator[None]:
    """Ends the command on an error that the user can do something about; a defect of ours keeps its traceback."""
    try:
        yield
    except (CommandError, ValueError, RuntimeError, ImportError, OSError) as error:
        text = " ".join(str(error).split())
        print(f"npu: {text or type(error).__name__}", file=sys.stderr)
        raise typer.Exit(2) from None


def near_miss(name: str, known: Collection[str]) -> str:
    """`; did you mean Add, AddN?`, or nothing."""
    lowered = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), lowered, 3, 0.7)
    return f"; did you mean {', '.join(lowered[each] for each in close)}?" if close else ""
