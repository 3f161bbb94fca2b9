"""Errors that the user can act on. Each is one sentence: what was asked, what was found, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TitanNpuError(Exception):
    """Base of every error that the command line prints without a traceback."""


class ConfigError(TitanNpuError):
    """A key, value or recipe that the configuration does not know or accept."""


class EnvironmentProblem(TitanNpuError):
    """torch, torch_npu, torchtitan or the NPU itself is missing or does not fit."""


class DataError(TitanNpuError):
    """A data set or a tokenizer that is not there or cannot be read."""


class CheckpointError(TitanNpuError):
    """A checkpoint that is damaged or does not belong to this run."""


class DeviceMemoryError(TitanNpuError):
    """The model, its optimizer or its activations do not fit into device memory."""


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """Say which known names are nearest to ``name``, as the end of a sentence ("" when none is near)."""
    names = list(known)
    # A dotted key is often right in its last part only (steps for training.steps).
    tails = {candidate.rsplit(".", 1)[-1]: candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name, names, n=count, cutoff=0.72)
    for tail in difflib.get_close_matches(name.rsplit(".", 1)[-1], tails, n=count, cutoff=0.75):
        if tails[tail] not in close:
            close.append(tails[tail])
    return f" Nearest: {', '.join(close[:count])}." if close else ""
