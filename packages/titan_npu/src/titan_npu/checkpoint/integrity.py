"""Is a DCP checkpoint on disk whole? Answered from its own index, before anything is loaded."""

from __future__ import annotations

import re
from pathlib import Path

from torch.distributed.checkpoint import FileSystemReader

METADATA = ".metadata"


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint folder, naming the file; None when every file is as long as the index
    says.

    Reads the index (``.metadata``, written last by DCP) and the sizes of the files only.
    """
    index = checkpoint / METADATA
    if not index.is_file():
        return f"{index} is missing (the save did not finish)"
    try:
        metadata = FileSystemReader(checkpoint).read_metadata()
        needed: dict[str, int] = {}
        for item in metadata.storage_data.values():
            end = item.offset + item.length
            needed[item.relative_path] = max(needed.get(item.relative_path, 0), end)
    except Exception as error:  # a cut pickle fails in many ways; all mean the same
        return f"{index} cannot be read ({type(error).__name__}: {error})"
    for name, size in sorted(needed.items()):
        file = checkpoint / name
        if not file.is_file():
            return f"{file} is missing"
        found = file.stat().st_size
        if found < size:
            return f"{file} has {found:,} bytes of {size:,}"
    return None


def saved_steps(folder: Path) -> list[int]:
    """Steps that have a checkpoint folder with an index under ``folder``, ascending."""
    if not folder.is_dir():
        return []
    steps = []
    for child in folder.iterdir():
        match = re.fullmatch(r"step-(\d+)", child.name)
        if match and (child / METADATA).is_file():
            steps.append(int(match[1]))
    return sorted(steps)


def last_good_step(folder: Path, below: int | None = None) -> int | None:
    """The latest step (below ``below``) whose checkpoint is whole."""
    for step in reversed(saved_steps(folder)):
        if (below is None or step < below) and damage(folder / f"step-{step}") is None:
            return step
    return None
