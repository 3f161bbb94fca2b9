"""A small real corpus from text that every machine with Python has: the standard library.

Documents are the modules' sources and their longer docstrings, in a deterministic order: the same Python
gives the same documents, byte for byte.
"""

from __future__ import annotations

import ast
import hashlib
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIN_DOCSTRING = 120
"""Characters below which a docstring is too short to be a document of its own."""

PIECE = 1000
"""Characters at which a run of top-level statements is long enough to be a document."""

LONG_PIECE = 4000

VALIDATION_SHARE = 20
"""One module in this many goes to the validation split (a module's source and docstrings stay together)."""

_SKIPPED = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "lib2to3"}


@dataclass(frozen=True, slots=True)
class Document:
    """One document: where it comes from (``json.decoder#0``, ``json.decoder:JSONDecoder``), its split and
    its text."""

    name: str
    split: str
    text: str


def stdlib_folder() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def documents(folder: Path | None = None) -> list[Document]:
    """All documents under ``folder`` (default: the running Python's standard library), in a shuffled, fixed
    order."""
    folder = folder or stdlib_folder()
    found = [document for path in _modules(folder) for document in _of_module(path, folder)]
    return sorted(found, key=lambda document: _digest(document.name + "\0" + document.text))


def _modules(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        if not _SKIPPED.intersection(path.relative_to(folder).parts[:-1]):
            yield path


def _of_module(path: Path, folder: Path) -> Iterator[Document]:
    try:
        source = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return
    if not source.strip():
        return
    module = ".".join(path.relative_to(folder).with_suffix("").parts)
    split = "validation" if int(_digest(module), 16) % VALIDATION_SHARE == 0 else "train"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for number, text in enumerate(_pieces(source, parsed)):
        yield Document(name=f"{module}#{number}", split=split, text=text)
    for node in ast.walk(parsed):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring and len(docstring) >= MIN_DOCSTRING:
                yield Document(name=f"{module}:{getattr(node, 'name', '')}", split=split, text=docstring)


def _pieces(source: str, parsed: ast.Module) -> Iterator[str]:
    """``source`` cut between top-level statements, in pieces of PIECE characters or more but for the last.

    A statement longer than LONG_PIECE is cut between lines, so that no module fills batches on its own.
    """
    lines = source.splitlines(keepends=True)
    ends = {node.end_lineno for node in parsed.body}
    piece: list[str] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        piece.append(line)
        size += len(line)
        if (size >= PIECE and number in ends) or size >= LONG_PIECE:
            yield "".join(piece)
            piece, size = [], 0
    if "".join(piece).strip():
        yield "".join(piece)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
