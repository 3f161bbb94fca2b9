"""PyTorch's operator samples on the NPU: the figures that have to be held, and no wrong value outside of
the list.
"""

from __future__ import annotations

import pytest

from . import known
from .outcome import Result, Status
from .pool import sweep
from .report import by_kind, share, summary
from .samples import operators
from .worker import Unit

#: Least share of operators that pass, by mode and dtype.
LEAST = {
    ("forward", "float32"): 0.90,
    ("forward", "bfloat16"): 0.85,
    ("forward", "int64"): 0.85,
    ("forward", "bool"): 0.85,
    ("backward", "float32"): 0.85,
}
#: Samples of each operator, spread over all it has (all of them: python -m tests.conformance.opinfo --all).
SAMPLES = 3

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results() -> list[Result]:
    listed = {entry.op for entry in known.load()}
    units = [
        Unit(op, dtype, mode, 0 if op in listed else SAMPLES, "as-is")
        for op in operators()
        for mode, dtype in LEAST
    ]
    done = sweep(units, workers=2, time_out=60.0)
    print("\n" + summary(done))
    return done


@pytest.mark.parametrize("kind", LEAST, ids="-".join)
def test_share_of_operators_that_pass(results: list[Result], kind: tuple[str, str]) -> None:
    group = by_kind(results)[kind]
    left = [
        f"{r.op}: {r.message[:120]}"
        for r in group
        if r.status not in (Status.PASS, Status.RANDOM, Status.NO_SAMPLES)
    ]
    assert share(group) >= LEAST[kind], "\n".join(left)


def test_no_wrong_value_outside_of_the_list(results: list[Result]) -> None:
    wrong = known.unexplained(results, known.load())
    assert not wrong, "\n".join(f"{r.op} {r.dtype} {r.mode}({r.sample}): {r.message}" for r in wrong)


@pytest.mark.parametrize("status", [Status.CRASH, Status.HANG, Status.UNNAMED])
def test_everything_else_is_an_error_that_names_what_is_missing(
    results: list[Result], status: Status
) -> None:
    left = known.unexplained(results, known.load(), status)
    assert not left, "\n".join(f"{r.op} {r.dtype} {r.mode}({r.sample}): {r.message}" for r in left)


def test_the_list_holds(results: list[Result]) -> None:
    stale = known.stale(results, known.load())
    assert not stale, "\n".join(
        f"{e.op} {r.dtype} {r.mode}: listed as {e.status}, came to {r.status}" for e, r in stale
    )
