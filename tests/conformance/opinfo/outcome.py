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
    FAILED = "failed"  # an operator that is there, named in the error, does not take the sample
    REFUSED = "refused by torch_npu"  # torch_npu (or PyTorch above it) decided so before it reached CANN
    RANDOM = "random"  # no value to compare, in one sample at least: shape, dtype and range were checked
    PASS = "pass"
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
    differences: list[str] = field(default_factory=list)  # kinds of difference of the wrong ones (compare.py)
    message: str = ""  # of the first sample with the worst status
    sample: str = ""  # that sample's operands
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.op, self.dtype, self.mode

    def add(
        self, status: Status, message: str = "", sample: str = "", names: list[str] | None = None
    ) -> None:
        """Counts one sample; the worst one gives the result its status, message and operands. `names`: of the
        operators that an error names, or of the kinds of difference.
        """
        self.counts[status] = self.counts.get(status, 0) + 1
        if status is Status.WRONG:
            self.differences = sorted({*self.differences, *(names or [])})
        else:
            self.missing = sorted({*self.missing, *(names or [])})
        if status.severity < self.status.severity:
            self.status, self.message, self.sample = status, message, sample

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value or key == "status"}

    @staticmethod
    def from_json(record: dict[str, Any]) -> Result:
        return Result(**{**record, "status": Status(record["status"])})


_NAMED = (
    re.compile(r"\b(aclnn[A-Z]\w*?)(?:GetWorkspaceSize)?\b"),
    re.compile(r"\b(acl[A-Z]\w*) or \1GetWorkspaceSize not in"),
    re.compile(r"OPS function error: (\w+)"),
    re.compile(r"GE operator[: ]+[\"'`]?(\w+)"),
)
_FAILED = re.compile(r"(\w+) failed on the device")
_CANN = re.compile(r"call acl api failed|ACL(?:NN)?_ERR|error code is \d+|GetOpApiFuncAddr|not in libopapi")
#: Lines of torch_npu's messages that say nothing of the cause.
_EMPTY_WORDS = re.compile(r"^\[ERROR\] |^\[Error\]|^Rectify the fault|^Solution:|^TraceBack")


def classify(error: BaseException) -> tuple[Status, str, list[str]]:
    """Status, one-line message and the operators named, of an exception raised on the NPU for a sample that
    the CPU accepts.
    """
    text = str(error)
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not _EMPTY_WORDS.search(line.strip())
    ]
    lines.sort(key=lambda line: "ACL" not in line.split("(")[0])  # CANN's own sentence first
    message = f"{type(error).__name__}: " + " | ".join(lines)[:500]
    if not _CANN.search(text):
        return Status.REFUSED, message, []
    names = sorted({name for pattern in _NAMED for name in pattern.findall(text)})
    if not names:
        return Status.UNNAMED, message, []
    return (Status.FAILED if _FAILED.search(text) else Status.MISSING), message, names
