"""What one sample, and one operator on one dtype, came to; and what an error message says about its cause."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """Outcome of a sample or, the worst of its samples, of an operator. Ordered from the worst to the
    best.
    """

    WRONG = "wrong"  # returned, with another value, shape or dtype than the CPU: the worst that can happen
    CRASH = "crash"  # the process died
    HANG = "hang"  # no answer within the time-out
    UNNAMED = "unnamed error"  # an error that does not name what is missing
    MISSING = "missing"  # an error that names what is missing
    REFUSED = "refused by torch_npu"  # torch_npu (or PyTorch above it) decided so before it reached CANN
    PASS = "pass"
    RANDOM = "random"  # no value to compare: shape, dtype and range were checked
    NO_SAMPLES = "no samples"  # none, or CPU torch itself refuses all of them

    @property
    def severity(self) -> int:
        return list(Status).index(self)


@dataclass
class Result:
    """One operator on one dtype in one mode."""

    op: str
    dtype: str
    mode: str
    status: Status = Status.NO_SAMPLES
    counts: dict[str, int] = field(
        default_factory=dict
    )  # samples by status; "cpu refuses" for what CPU torch refuses
    missing: list[str] = field(default_factory=list)  # aclnn names, GE operators, ACL calls
    fallbacks: list[str] = field(default_factory=list)  # ATen operators that torch_npu ran on the CPU
    message: str = ""  # of the first sample with the worst status
    sample: str = ""  # that sample's operands
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.op, self.dtype, self.mode

    def add(
        self, status: Status, message: str = "", sample: str = "", missing: list[str] | None = None
    ) -> None:
        """Counts one sample; the worst one gives the result its status, message and operands."""
        self.counts[status] = self.counts.get(status, 0) + 1
        self.missing = sorted({*self.missing, *(missing or [])})
        if status.severity < self.status.severity:
            self.status, self.message, self.sample = status, message, sample

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value or key == "status"}

    @staticmethod
    def from_json(record: dict[str, Any]) -> Result:
        return Result(**{**record, "status": Status(record["status"])})


_NAMED = (
    re.compile(r"\b(aclnn[A-Z]\w*?)(?:GetWorkspaceSize)?\b"),
    re.compile(r"OPS function error: (\w+)"),
    re.compile(r"GE operator[: ]+[\"'`]?(\w+)"),
)
_UNIMPLEMENTED = re.compile(
    r"not (?:yet )?(?:implemented|supported)|no kernel|does not (?:implement|support)|unsupported|not in lib",
    re.I,
)
_EMULATOR = re.compile(
    r"call acl api failed|ACL(?:NN)?_ERROR|error code is \d+|EZ\d{4}|EE\d{4}|emulator", re.I
)


def classify(error: BaseException) -> tuple[Status, str, list[str]]:
    """Status, one-line message and missing names of an exception raised on the NPU while the CPU accepts
    the sample.
    """
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = f"{type(error).__name__}: " + " | ".join(lines)[:500]
    names = sorted({name for pattern in _NAMED for name in pattern.findall(text)})
    reached_cann = bool(_EMULATOR.search(text))
    if names and (reached_cann or _UNIMPLEMENTED.search(text)):
        return Status.MISSING, message, names
    if reached_cann or "GetOpApiFuncAddr" in text:
        return Status.UNNAMED, message, []
    return Status.REFUSED, message, []
