"""metrics.jsonl: one JSON object a step, continued by a resumed run without a gap or a step twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO


class JsonlWriter:
    """Appends to ``path``; the first ``write`` drops records of that step and later ones.

    Such records are left by a run that went on after the checkpoint that this run resumed from.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def write(self, record: dict[str, Any]) -> None:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._keep_before(record["step"])
            self._file = self.path.open("a", encoding="utf-8")
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _keep_before(self, step: int) -> None:
        if not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] < step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):  # the last line of a killed run may be cut
                continue
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text("".join(kept), encoding="utf-8")
        scratch.replace(self.path)
