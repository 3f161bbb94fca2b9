"""The sweep itself: that it would notice a wrong value, a crash, a hang, an error that sticks, and a list
that no longer holds.
"""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from . import known, random_ops
from .compare import Tolerance, as_accurate_as_the_cpu, differences
from .layouts import LAYOUTS, copy_tree, relayout
from .outcome import Result, Status, classify
from .pool import sweep
from .report import share, summary
from .samples import operators, run, samples
from .worker import Unit

A = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        (A, A.clone(), None),
        (A, A + 1e-3, "value"),
        (A, A.double(), "dtype"),
        (A, A.bfloat16() + 1, "dtype, value"),
        (A, A.int(), "dtype"),
        (A.double(), A, "narrowed"),
        (A, A.reshape(3, 2), "shape"),
        (A, None, "structure"),
        ((A, 1), (A,), "structure"),
        ((A, [A]), (A, [A + 1]), "value"),
        ({"x": A}, {"y": A}, "structure"),
        (torch.tensor(float("nan")), torch.tensor(float("nan")), None),
        (torch.tensor(1.0), torch.tensor(float("nan")), "value"),
        (True, 1, "value"),
        (torch.Size([2]), torch.Size([3]), "value"),
        (torch.tensor([True, False]), torch.tensor([True, True]), "value"),
    ],
)
def test_every_kind_of_difference_is_seen(expected: object, actual: object, kind: str | None) -> None:
    found = differences(expected, actual, Tolerance())
    assert ", ".join(d.kind for d in found) == (kind or "")


def test_a_low_precision_result_is_judged_by_a_double_precision_one() -> None:
    precise = torch.tensor([1000.0, 1.0], dtype=torch.float64)
    cpu = torch.tensor([1004.0, 1.0]).bfloat16()
    for first, right in ((996.0, True), (900.0, False), (float("nan"), False)):
        npu = torch.tensor([first, 1.0]).bfloat16()
        assert as_accurate_as_the_cpu(cpu, npu, precise) == right
    assert not differences([cpu], [torch.tensor([990.0, 1.0]).bfloat16()], Tolerance(0.0, 1e-3), [precise])
    assert differences([cpu], [torch.tensor([900.0, 1.0]).bfloat16()], Tolerance(0.0, 1e-3), [precise])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_keep_the_values(layout: str) -> None:
    for tensor in (A, torch.arange(24).reshape(2, 3, 4), torch.tensor(3.0), torch.ones(4, dtype=torch.bool)):
        laid_out = relayout(tensor, layout)
        assert torch.equal(laid_out, tensor)
        copied = copy_tree([laid_out], "cpu")[0]
        assert torch.equal(copied, tensor) and copied.stride() == laid_out.stride()
        assert (
            copied.storage_offset() == laid_out.storage_offset() and copied.data_ptr() != laid_out.data_ptr()
        )


@pytest.mark.parametrize(
    ("text", "status", "names"),
    [
        (
            "OPS function error: Cummax, error code is 500002\nERR01100 OPS call acl api failed",
            Status.MISSING,
            ["Cummax"],
        ),
        ("call aclnnCdistGetWorkspaceSize failed, error code is 161002", Status.MISSING, ["aclnnCdist"]),
        ("aclStft or aclStftGetWorkspaceSize not in libopapi.so", Status.MISSING, ["aclStft"]),
        (
            "ACL_ERROR_X (507015): aclnnLogit failed on the device: no such type",
            Status.FAILED,
            ["aclnnLogit"],
        ),
        ("GetOpApiFuncAddr failed.\nERR01004 OPS invalid pointer", Status.UNNAMED, []),
        ("H and W must be divisible\nERR01001 OPS invalid parameter", Status.REFUSED, []),
    ],
)
def test_errors_are_told_apart_by_what_they_name(text: str, status: Status, names: list[str]) -> None:
    assert classify(RuntimeError(text))[::2] == (status, names)


def test_random_draws_are_told_from_values() -> None:
    op = operators()["bernoulli"]
    case = samples(op, torch.float32, "forward", 1)[0]
    assert random_ops.is_random(lambda: run(op, case, "forward", "cpu"), run(op, case, "forward", "cpu"))
    assert not random_ops.check_draw(lambda: torch.bernoulli(A / 6), torch.ones(2, 3))
    assert random_ops.check_draw(lambda: torch.bernoulli(A / 6), torch.full((2, 3), 7.0))


def _misbehave(units: list[Unit], connection: Connection, stderr_path: str) -> None:
    """Two samples a unit; what happens in the first is the operator's name."""
    for index, unit in enumerate(units):
        for number in range(unit.start, 2):
            connection.send(("at", index, number))
            if number == 0 and unit.op == "crash":
                os.abort()
            if number == 0 and unit.op == "hang":
                time.sleep(600)
            stuck = number == 0 and unit.op == "stick"
            status = Status.MISSING if stuck else Status.PASS
            connection.send(("sample", index, status, "", ["aclnnX"] if stuck else [], "", 0.0))
            if stuck:
                connection.send(("unusable",))
                return
    connection.send(("end",))


def test_a_crash_a_hang_and_a_sticking_error_cost_one_sample() -> None:
    names = ("crash", "hang", "stick", "fine")
    done = sweep([Unit(name, "float32", "forward", 0, "as-is") for name in names], 2, 8.0, target=_misbehave)
    results = {r.op: r for r in done}
    assert {op: str(r.status) for op, r in results.items()} == {
        "crash": "crash",
        "hang": "hang",
        "stick": "missing",
        "fine": "pass",
    }
    assert results["crash"].counts == {"crash": 1, "pass": 1} and results["hang"].counts == {
        "hang": 1,
        "pass": 1,
    }
    assert "SIGABRT" in results["crash"].message and results["stick"].missing == ["aclnnX"]


def _result(op: str, status: Status, *differences: str) -> Result:
    counts = {str(status): 1}
    return Result(op, "float32", "forward", status, counts, differences=list(differences))


def test_a_listed_entry_explains_only_its_own_result(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    record = '[[known]]\nops = ["a", "b"]\ndtypes = ["float32"]\nstatus = "wrong"\nreason = "r"\n'
    file.write_text(record + 'differences = ["shape"]\nevidence = "e"\n')
    entries = known.load(file)
    results = [_result("a", Status.WRONG, "shape"), _result("b", Status.PASS), _result("c", Status.WRONG)]
    assert [r.op for r in known.unexplained(results, entries)] == ["c"]
    assert known.unexplained([_result("a", Status.WRONG, "shape", "value")], entries)
    crashed_too = _result("a", Status.WRONG, "shape")
    crashed_too.counts[Status.CRASH] = 1
    assert known.unexplained([crashed_too], entries, Status.CRASH)
    assert [r.op for _, r in known.stale(results, entries)] == ["b"]
    file.write_text(record)
    with pytest.raises(ValueError, match="evidence"):
        known.load(file)


def test_figures_leave_out_random_and_empty_ones_only() -> None:
    states = (Status.PASS, Status.WRONG, Status.MISSING, Status.REFUSED, Status.RANDOM, Status.NO_SAMPLES)
    results = [_result(str(state), state) for state in states]
    assert share(results) == 0.25
    assert "| forward | float32 | 4 | 25.0 |" in summary(results)


def test_listed_operators_exist() -> None:
    assert {entry.op for entry in known.load()} <= operators().keys()
